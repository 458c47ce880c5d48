package storagetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"likewise/deploy/local/postgres"
	"likewise/storage"
)

const (
	// startTimeout covers making a cluster on a busy machine.
	startTimeout = 2 * time.Minute
	// stepTimeout bounds every single thing done to a database.
	stepTimeout = 30 * time.Second
)

var errNoMain = errors.New("no server: call storagetest.Main from the package's TestMain")

// shared is the server of this process. Main puts it there before any test runs
// and takes it away after the last.
var shared *server //nolint:gochecknoglobals // TestMain and tests have no other way to meet

// server starts a database server at its first use.
type server struct {
	template string // the database that fresh ones are copied from

	start sync.Once
	up    *postgres.Server // set by start, nil if that failed
	err   error            // why start failed
}

// Main runs a package's tests, stops the server that they used, fails if they
// left a goroutine behind, and exits.
func Main(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	shared = &server{template: "likewise_test_" + random()}
	code := m.Run()
	if err := errors.Join(shared.stop(), goleak.Find()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// running returns the server and its template, started if need be.
func running(t testing.TB) *server {
	t.Helper()
	if shared == nil {
		t.Fatal(errNoMain)
	}
	s := shared
	// Detached: the server outlives the test that happens to come first.
	s.start.Do(func() { s.err = s.launch(context.WithoutCancel(t.Context())) })
	if s.err != nil {
		t.Fatalf("this test needs a database: %v", s.err)
	}
	return s
}

func (s *server) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errors.New("the database server did not start in time"))
	defer cancel()
	options := postgres.FromEnvironment()
	if url := os.Getenv("LIKEWISE_TEST_DATABASE_URL"); url != "" {
		options = postgres.Options{URL: url}
	}
	options.Durability = postgres.Volatile
	up, err := postgres.Start(ctx, options)
	if err != nil {
		return err
	}
	s.up = up
	if err := up.CreateDatabase(ctx, s.template); err != nil {
		return err
	}
	return migrate(ctx, up.URL(s.template))
}

// stop removes what the process left on the server, and the server if it is
// ours.
func (s *server) stop() error {
	if s.up == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	return errors.Join(s.up.DropDatabase(ctx, s.template), s.up.Close(ctx))
}

// migrate leaves no connection behind: a database in use cannot be copied.
func migrate(ctx context.Context, url string) error {
	store, err := storage.Open(ctx, storage.Config{URL: url})
	if err != nil {
		return err
	}
	defer store.Close()
	return store.Migrate(ctx, Regions())
}

// copyTemplate makes a database with the schema in it.
func (s *server) copyTemplate(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, s.up.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connecting to the test server: %w", err)
	}
	defer conn.Close(ctx) //nolint:errcheck // the statement's result is in
	_, err = conn.Exec(ctx, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s",
		pgx.Identifier{name}.Sanitize(), pgx.Identifier{s.template}.Sanitize()))
	if err != nil {
		return fmt.Errorf("copying the database %q: %w", s.template, err)
	}
	return nil
}

func random() string { return strings.ToLower(rand.Text()[:12]) }
