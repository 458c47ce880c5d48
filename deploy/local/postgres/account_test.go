package postgres

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// parentVariable in the environment makes a test process start a server, print
// its process id and data folder, and wait for its standard input to end.
const parentVariable = "POSTGRES_TEST_PARENT"

func runAsParent() {
	o := FromEnvironment()
	o.Durability = Volatile
	o.DataDir = os.Getenv("POSTGRES_TEST_DATA")
	s, err := Start(context.Background(), o)
	if err != nil {
		fmt.Fprintln(os.Stdout, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, s.Pid())
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := s.Close(context.Background()); err != nil {
		fmt.Fprintln(os.Stdout, err)
		os.Exit(1)
	}
}

// parent is this test binary, run again as a process that owns a server.
type parent struct {
	cmd   *exec.Cmd
	stdin io.Closer
	out   *bufio.Scanner
	pid   int // of the server
}

// startParent runs a parent as an account, nil for the caller's. The folder
// above dataDir is its TMPDIR.
func startParent(t *testing.T, as *syscall.Credential, dataDir string) *parent {
	t.Helper()
	p := &parent{cmd: exec.CommandContext(t.Context(), copyOfTest(t))}
	p.cmd.Dir = "/"
	p.cmd.Env = append(os.Environ(), parentVariable+"=1", "POSTGRES_TEST_DATA="+dataDir, "TMPDIR="+filepath.Dir(dataDir))
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	stdin, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	p.stdin, p.out = stdin, bufio.NewScanner(out)
	require.True(t, p.out.Scan())
	p.pid, err = strconv.Atoi(p.out.Text())
	require.NoError(t, err, p.out.Text())
	return p
}

// copyOfTest is the running test binary where any account can execute it.
func copyOfTest(t *testing.T) string {
	t.Helper()
	self, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	path := filepath.Join(tempDir(t), "postgres.test")
	require.NoError(t, os.WriteFile(path, self, 0o755))
	return path
}

// Whoever runs the tests, the server runs as somebody other than root.
func TestServerDoesNotRunAsRoot(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(tempDir(t), "data")
	startTest(t, Options{DataDir: dir})
	info, err := os.Stat(filepath.Join(dir, "postmaster.pid"))
	require.NoError(t, err)
	require.NotZero(t, ownerOf(info))
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// A user without rights starts a server of their own; root, later, uses the
// data that they left, as their account.
func TestAnotherUser(t *testing.T) {
	t.Parallel()
	other := otherAccount(t)
	dir := tempDir(t)
	require.NoError(t, other.own(dir))

	p := startParent(t, other.credential, filepath.Join(dir, "data"))
	require.False(t, gone(p.pid))
	require.NoError(t, p.stdin.Close())
	require.NoError(t, p.cmd.Wait())
	require.True(t, gone(p.pid))

	s := startTest(t, Options{DataDir: filepath.Join(dir, "data")})
	require.Equal(t, int32(1), query[int32](t, s.URL("postgres"), "SELECT 1"))
}

// otherAccount is "nobody" for root, and the caller for anybody else.
func otherAccount(t *testing.T) account {
	t.Helper()
	if os.Geteuid() != 0 {
		return account{}
	}
	nobody, err := user.Lookup("nobody")
	require.NoError(t, err)
	a, err := newAccount(nobody)
	require.NoError(t, err)
	return a
}

func TestClosedFolderIsNamed(t *testing.T) {
	t.Parallel()
	closed := filepath.Join(tempDir(t), "closed")
	require.NoError(t, os.Mkdir(closed, 0o700))
	stranger := account{name: "stranger", credential: &syscall.Credential{Uid: 4242, Gid: 4242}}
	err := stranger.canReach(filepath.Join(closed, "data"))
	require.ErrorContains(t, err, "chmod o+x "+closed)
	require.NoError(t, os.Chmod(closed, 0o711))
	require.NoError(t, stranger.canReach(filepath.Join(closed, "data")))
}

func TestEnvironmentHidesPostgresVariables(t *testing.T) {
	t.Setenv("PGDATA", "/elsewhere")
	for _, v := range environment() {
		require.False(t, strings.HasPrefix(v, "PG"), v)
	}
}
