package storagetest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"likewise/storage"
)

// Regions returns the topology of the test databases: eu, us and ap, each with
// one contiguous range of slots.
func Regions() [storage.Slots]string {
	names := [...]string{"eu", "us", "ap"}
	var regions [storage.Slots]string
	for slot := range regions {
		regions[slot] = names[slot*len(names)/len(regions)]
	}
	return regions
}

// URL returns the address of a fresh database with the schema and the topology
// in it. It is dropped when the test has ended, whoever still uses it.
func URL(t testing.TB) string {
	t.Helper()
	return fresh(t, (*server).copyTemplate)
}

// EmptyURL is URL with nothing in the database, for tests of migrations.
func EmptyURL(t testing.TB) string {
	t.Helper()
	return fresh(t, func(s *server, ctx context.Context, name string) error {
		return s.up.CreateDatabase(ctx, name)
	})
}

func fresh(t testing.TB, create func(*server, context.Context, string) error) string {
	t.Helper()
	s := running(t)
	name := "likewise_test_" + random()
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	defer cancel()
	if err := create(s, ctx, name); err != nil {
		t.Fatalf("making a database for this test: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := cleanup(t)
		defer cancel()
		if err := s.up.DropDatabase(ctx, name); err != nil {
			t.Errorf("removing this test's database: %v", err)
		}
	})
	return s.up.URL(name)
}

// Option changes the configuration of a Store, for example its committer.
type Option func(*storage.Config)

// Store opens a fresh database and runs a Store on it until the test has ended.
func Store(t testing.TB, options ...Option) *storage.Store {
	t.Helper()
	return Open(t, URL(t), options...)
}

// Open runs a Store on a database, by itself or beside others, until the test
// has ended. The URL may lead through a proxy.
func Open(t testing.TB, url string, options ...Option) *storage.Store {
	t.Helper()
	cfg := storage.Config{URL: url}
	for _, o := range options {
		o(&cfg)
	}
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	defer cancel()
	store, err := storage.Open(ctx, cfg)
	if err != nil {
		t.Fatalf("opening this test's store: %v", err)
	}
	t.Cleanup(store.Close)
	runUntilEnd(t, store)
	return store
}

// runUntilEnd runs the store's committer. It does not end with the test's
// context, so that other cleanups of the test can still write.
func runUntilEnd(t testing.TB, store *storage.Store) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- store.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("running this test's store: %v", err)
			}
		case <-time.After(stepTimeout):
			t.Error("this test's store did not stop in time")
		}
	})
}

// Conn connects to a database beside the stores that use it, until the test has
// ended.
func Conn(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatalf("connecting to this test's database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := cleanup(t)
		defer cancel()
		_ = conn.Close(ctx) // a fault test may have broken it
	})
	return conn
}

// cleanup returns a context for what is done after the test's own has ended.
func cleanup(t testing.TB) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(context.WithoutCancel(t.Context()), stepTimeout)
}
