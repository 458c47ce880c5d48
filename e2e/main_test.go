package e2e

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"likewise/deploy/local/postgres"
)

// shared is what the tests of this process have in common.
var shared *workshop

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "likewise-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	shared = newWorkshop(dir)
	code := m.Run()
	if err := errors.Join(shared.close(), goleak.Find()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// workshop makes the binaries and the database server at their first use.
type workshop struct {
	dir       string
	shipped   func() (string, error)
	unguarded func() (string, error) // with the guards that a negative control switches off
	server    func() (*postgres.Server, error)
	up        *postgres.Server // set by server
}

func newWorkshop(dir string) *workshop {
	w := &workshop{dir: dir}
	w.shipped = sync.OnceValues(func() (string, error) { return w.build("likewise") })
	w.unguarded = sync.OnceValues(func() (string, error) { return w.build("likewise-unguarded", "-tags", "unguarded") })
	w.server = sync.OnceValues(w.startServer)
	return w
}

func (w *workshop) build(name string, flags ...string) (string, error) {
	path := filepath.Join(w.dir, name)
	args := append([]string{"build", "-buildvcs=false", "-o", path}, flags...)
	out, err := exec.Command("go", append(args, "likewise/cmd/likewise")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", name, err, out)
	}
	return path, nil
}

// maxConnections is enough for the nodes of three clusters at once.
const maxConnections = 500

func (w *workshop) startServer() (*postgres.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	options := postgres.FromEnvironment()
	if url := os.Getenv("LIKEWISE_TEST_DATABASE_URL"); url != "" {
		options = postgres.Options{URL: url}
	}
	options.Durability, options.MaxConnections = postgres.Volatile, maxConnections
	var err error
	w.up, err = postgres.Start(ctx, options)
	return w.up, err
}

func (w *workshop) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var err error
	if w.up != nil {
		err = w.up.Close(ctx)
	}
	return errors.Join(err, os.RemoveAll(w.dir))
}

// binary returns the path of the binary as it is shipped.
func binary(t testing.TB) string {
	t.Helper()
	path, err := shared.shipped()
	require.NoError(t, err)
	return path
}

// server returns the database server of all tests.
func server(t testing.TB) *postgres.Server {
	t.Helper()
	up, err := shared.server()
	require.NoError(t, err)
	return up
}

// freshDatabase returns the address of an empty database, which is dropped when
// the test has ended.
func freshDatabase(t testing.TB) string {
	t.Helper()
	up := server(t)
	name := "likewise_e2e_" + strings.ToLower(rand.Text()[:12])
	require.NoError(t, up.CreateDatabase(t.Context(), name))
	t.Cleanup(func() { require.NoError(t, up.DropDatabase(context.WithoutCancel(t.Context()), name)) })
	return up.URL(name)
}
