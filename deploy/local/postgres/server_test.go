package postgres

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func startTest(t *testing.T, o Options) *Server {
	t.Helper()
	if o.BinDir == "" {
		o.BinDir = FromEnvironment().BinDir
	}
	o.Durability = Volatile
	s, err := Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(context.WithoutCancel(t.Context()))) })
	return s
}

func query[T any](t *testing.T, url, sql string) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(t.Context()) //nolint:errcheck // read to the end
	rows, err := conn.Query(t.Context(), sql)
	require.NoError(t, err)
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(t, err)
	return v
}

func execute(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(t.Context()) //nolint:errcheck // done
	_, err = conn.Exec(t.Context(), sql)
	require.NoError(t, err)
}

func gone(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }

func TestServer(t *testing.T) {
	t.Parallel()
	s := startTest(t, Options{Settings: map[string]string{"deadlock_timeout": "77ms"}})

	t.Run("answers on loopback to its password alone", func(t *testing.T) {
		require.Regexp(t, `^PostgreSQL \d+(\.\d+)?, started here$`, s.Describe())
		require.Equal(t, "127.0.0.1", query[string](t, s.URL("postgres"), "SHOW listen_addresses"))

		cfg, err := pgx.ParseConfig(s.URL("postgres"))
		require.NoError(t, err)
		cfg.Password = "guess"
		_, err = pgx.ConnectConfig(t.Context(), cfg)
		require.Error(t, err)
	})

	t.Run("has the settings that were asked for", func(t *testing.T) {
		url := s.URL("postgres")
		require.Equal(t, "300", query[string](t, url, "SHOW max_connections"))
		require.Equal(t, "off", query[string](t, url, "SHOW fsync"))
		require.Equal(t, "77ms", query[string](t, url, "SHOW deadlock_timeout"))
		require.Equal(t, "UTF8", query[string](t, url, "SHOW server_encoding"))
	})

	t.Run("makes one database for callers at once, and drops it under use", func(t *testing.T) {
		errs := make(chan error, 4)
		for range cap(errs) {
			go func() { errs <- s.CreateDatabase(t.Context(), `odd "name"`) }()
		}
		for range cap(errs) {
			require.NoError(t, <-errs)
		}
		conn, err := pgx.Connect(t.Context(), s.URL(`odd "name"`))
		require.NoError(t, err)
		defer conn.Close(t.Context()) //nolint:errcheck // its server process is gone
		require.NoError(t, s.DropDatabase(t.Context(), `odd "name"`))
		require.NoError(t, s.DropDatabase(t.Context(), `odd "name"`))
	})

	t.Run("is taken as it is by its URL, and left running", func(t *testing.T) {
		given, err := Start(t.Context(), Options{URL: s.URL("postgres")})
		require.NoError(t, err)
		require.Regexp(t, `^PostgreSQL \d+(\.\d+)? at 127\.0\.0\.1:\d+$`, given.Describe())
		require.Equal(t, 0, given.Pid())
		require.ErrorIs(t, given.Signal(syscall.SIGKILL), ErrNotOurs)
		require.NoError(t, given.Close(t.Context()))
		require.False(t, gone(s.Pid()))
	})
}

func TestCloseLeavesNothing(t *testing.T) {
	t.Parallel()
	s := startTest(t, Options{})
	conn, err := pgx.Connect(t.Context(), s.URL("postgres"))
	require.NoError(t, err)
	defer conn.Close(t.Context()) //nolint:errcheck // the server is gone

	require.NoError(t, s.Close(t.Context()), "a connected client does not hold it up")
	require.True(t, gone(s.Pid()))
	require.NoDirExists(t, s.scratch.dir)
	require.NoError(t, s.Close(t.Context()), "closing again does nothing")
}

func TestCloseKillsAServerThatHangs(t *testing.T) {
	t.Parallel()
	s := startTest(t, Options{StopTimeout: 100 * time.Millisecond})
	// The only thing a fast shutdown waits for: a server process that is stopped.
	conn, err := pgx.Connect(t.Context(), s.URL("postgres"))
	require.NoError(t, err)
	defer conn.Close(t.Context()) //nolint:errcheck // the server is gone
	backend := int(conn.PgConn().PID())
	require.NoError(t, syscall.Kill(backend, syscall.SIGSTOP))

	err = s.Close(t.Context())
	require.NoError(t, syscall.Kill(backend, syscall.SIGKILL))
	require.ErrorContains(t, err, "was killed")
	require.True(t, gone(s.Pid()))
	require.NoDirExists(t, s.scratch.dir)
}

func TestDataIsKeptBetweenRuns(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(tempDir(t), "not", "there", "yet")

	first := startTest(t, Options{DataDir: dir})
	execute(t, first.URL("postgres"), "CREATE TABLE kept AS SELECT 42 AS answer")
	require.NoError(t, first.Close(t.Context()))

	second := startTest(t, Options{DataDir: dir})
	require.Equal(t, int32(42), query[int32](t, second.URL("postgres"), "SELECT answer FROM kept"))

	t.Run("by one server at a time", func(t *testing.T) {
		_, err := Start(t.Context(), Options{DataDir: dir})
		require.ErrorIs(t, err, errExited)
		require.ErrorContains(t, err, "postmaster.pid", "the error shows the log")
	})
	t.Run("also after a crash", func(t *testing.T) {
		require.NoError(t, second.Signal(syscall.SIGKILL))
		<-second.child.Done()
		require.NoError(t, second.Close(t.Context()))
		third := startTest(t, Options{DataDir: dir})
		require.Equal(t, int32(42), query[int32](t, third.URL("postgres"), "SELECT answer FROM kept"))
	})
}

func TestForeignDataFolderIsRefused(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"something other than a PostgreSQL cluster": "letter.txt",
		"was not made by likewise":                  "PG_VERSION",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := tempDir(t)
			require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte("15\n"), 0o600))
			_, err := Start(t.Context(), Options{DataDir: dir})
			require.ErrorContains(t, err, name)
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, entries, 1, "nothing was written")
		})
	}
}

func TestCancelledStartLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(tempDir(t), "data")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Start(ctx, Options{DataDir: dir})
	require.ErrorIs(t, err, context.Canceled)
	_, err = os.Stat(filepath.Join(dir, "postmaster.pid"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// tempDir is a folder that any account can reach; t.TempDir may lie below one
// that is closed.
func tempDir(t *testing.T) string {
	t.Helper()
	s, err := newScratch()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.remove()) })
	dir := filepath.Join(s.dir, "test")
	require.NoError(t, os.Mkdir(dir, 0o755))
	return dir
}

func TestSweepTakesWhatAKilledProcessLeft(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	folder := func(name string) *scratch {
		s := &scratch{dir: filepath.Join(parent, scratchPrefix+name)}
		require.NoError(t, os.Mkdir(s.dir, 0o700))
		return s
	}
	held, left, starting := folder("held"), folder("left"), folder("starting")
	require.NoError(t, held.open())
	require.NoError(t, left.open())
	require.NoError(t, left.lock.Close(), "as the system does for a process that ended")

	sweep(parent)
	require.DirExists(t, held.dir)
	require.DirExists(t, starting.dir, "it has no lock yet")
	require.NoDirExists(t, left.dir)
	require.NoError(t, held.remove())
	require.NoError(t, held.remove())
}
