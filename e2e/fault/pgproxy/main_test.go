package pgproxy

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"likewise/deploy/local/postgres"
)

// databaseURL is the server that all tests of this process use.
var databaseURL string

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	options := postgres.FromEnvironment()
	options.Durability = postgres.Volatile
	server, err := postgres.Start(ctx, options)
	if err != nil {
		fmt.Fprintln(os.Stderr, "these tests need PostgreSQL:", err)
		return 1
	}
	databaseURL = server.URL("postgres")
	code := m.Run()
	if err := server.Close(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}
