package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"likewise/storage/storagetest"
)

// sandbox is where one demo runs. Whatever the demo and its children leave
// behind is in its folders, and every process of theirs names one of them.
type sandbox struct {
	dir string // of temporary files
	run string // of the file by which other commands find the demo
	cwd string
}

func newSandbox(t *testing.T) sandbox {
	t.Helper()
	root := t.TempDir()
	// PostgreSQL may run as another account, which must get in.
	require.NoError(t, os.Chmod(filepath.Dir(root), 0o755))
	s := sandbox{dir: filepath.Join(root, "tmp"), run: filepath.Join(root, "run"), cwd: filepath.Join(root, "cwd")}
	for _, dir := range []string{s.dir, s.run, s.cwd} {
		require.NoError(t, os.Mkdir(dir, 0o755))
	}
	return s
}

// command prepares a command of the shipped binary in the sandbox.
func (s sandbox) command(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, binary(t), args...)
	cmd.Dir = s.cwd
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "LIKEWISE_") || strings.HasPrefix(v, "LIKEWISE_POSTGRES_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "TMPDIR="+s.dir, "XDG_RUNTIME_DIR="+s.run)
	return cmd
}

// likewise runs a command to its end, and returns what it printed and its exit
// status.
func (s sandbox) likewise(t *testing.T, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := s.command(ctx, t, args...).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(out), exit.ExitCode()
	}
	require.NoError(t, err)
	return string(out), 0
}

// requireEmpty fails the test if a file or a process is left.
func (s sandbox) requireEmpty(t *testing.T) {
	t.Helper()
	var files []string
	for _, dir := range []string{s.dir, s.run, s.cwd} {
		require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if path != dir {
				files = append(files, path)
			}
			return err
		}))
	}
	require.Empty(t, files, "files were left behind")
	require.Empty(t, processesNaming(t, filepath.Dir(s.dir)), "processes were left behind")
}

func TestHeadlessDemo(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := s.command(ctx, t, "demo", "--headless", "--duration", "5s", "--json", "-")
	var progress bytes.Buffer
	cmd.Stderr = &progress
	out, err := cmd.Output()
	require.NoError(t, err, progress.String())

	var result struct {
		Database                  string `json:"database"`
		Regions, Nodes            int
		Acknowledged, Unchanged   int
		Forwarded, Drift, Lost    int
		BlindCounterOffBy         int `json:"blind_counter_off_by"`
		ReadThenWriteCounterOffBy int `json:"read_then_write_off_by"`
		VideosChecked             int `json:"videos_checked"`
	}
	require.NoError(t, json.Unmarshal(out, &result), string(out))
	t.Logf("%s", out)
	require.Contains(t, result.Database, "PostgreSQL")
	require.Equal(t, 3, result.Regions)
	require.Equal(t, 6, result.Nodes)
	require.Zero(t, result.Drift)
	require.Zero(t, result.Lost)
	require.Positive(t, result.Acknowledged)
	require.Positive(t, result.Unchanged)
	require.Positive(t, result.Forwarded)
	require.Positive(t, result.VideosChecked)
	require.Positive(t, result.BlindCounterOffBy)
	require.Positive(t, result.ReadThenWriteCounterOffBy)
	s.requireEmpty(t)
}

// A person starts the demo, looks around with the other commands, and ends it
// with Ctrl-C. In between somebody tampers with a count, which verify must see.
func TestDemoForPeople(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := s.command(ctx, t, "demo", "--rate", "20", "--postgres-url", server(t).URL("postgres"))
	said := &transcript{}
	cmd.Stdout, cmd.Stderr = said, said
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	var exit error // written before ended is closed
	go func() {
		exit = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		if t.Failed() {
			t.Log(said)
		}
	})
	eventually(t, "the demo says how to use it", func() bool { return strings.Contains(said.String(), "Ctrl-C stops everything") })
	url := s.demoDatabase(t)

	out, status := s.likewise(t, "set", "cat", "LIKE", "--as", "alice", "--region", "us")
	require.Zero(t, status, out)
	out, status = s.likewise(t, "get", "cat", "--as", "alice", "--region", "ap")
	require.Zero(t, status, out)
	require.Contains(t, out, "LIKE")
	out, status = s.likewise(t, "counts", "cat")
	require.Zero(t, status, out)
	require.Contains(t, out, "1 likes, 0 dislikes")
	out, status = s.likewise(t, "verify", "cat")
	require.Zero(t, status, out)
	require.Contains(t, out, "equal")
	out, status = s.likewise(t, "verify", "--all")
	require.Zero(t, status, out)
	require.Contains(t, out, " 0 differ")

	conn := storagetest.Conn(t, url)
	tamper := func(by int) {
		_, err := conn.Exec(t.Context(), `UPDATE counter_shards SET likes = likes + $1, rev = rev + 1 WHERE video_id = 'cat'`, by)
		require.NoError(t, err)
	}
	tamper(1)
	out, status = s.likewise(t, "verify", "--all")
	require.Equal(t, 1, status, out)
	require.Contains(t, out, "cat in eu-1")
	require.Contains(t, out, "DIFFERS")
	tamper(-1)
	out, status = s.likewise(t, "verify", "--all")
	require.Zero(t, status, out)

	require.NoError(t, conn.Close(t.Context()))
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	select {
	case <-ended:
		require.NoError(t, exit)
	case <-time.After(patience):
		require.FailNow(t, "the demo did not end")
	}
	require.Contains(t, said.String(), "What happened")
	require.NotContains(t, said.String(), "WRONG")
	s.requireEmpty(t)
	_, err := pgx.Connect(t.Context(), url)
	require.Error(t, err, "the demo's database is still there")
}

// demoDatabase returns the address of the running demo's database.
func (s sandbox) demoDatabase(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.run, "likewise-demo.json"))
	require.NoError(t, err)
	var state struct {
		DatabaseURL string `json:"database_url"`
	}
	require.NoError(t, json.Unmarshal(raw, &state))
	return state.DatabaseURL
}

// transcript is what a process has printed so far.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
