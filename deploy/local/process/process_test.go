package process_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"likewise/deploy/local/process"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shell runs a script, and returns once it has said "ready".
func shell(t *testing.T, script string) *process.Process {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	out, err := os.Create(log)
	require.NoError(t, err)
	p, err := process.Start(process.Spec{Path: "/bin/sh", Args: []string{"-c", script}, Env: os.Environ(), Output: out})
	require.NoError(t, err)
	require.NoError(t, out.Close())
	t.Cleanup(p.Kill)
	require.Eventually(t, func() bool {
		return strings.Contains(process.Tail(log), "ready")
	}, 5*time.Second, 5*time.Millisecond)
	return p
}

func TestStop(t *testing.T) {
	t.Parallel()

	t.Run("by the signal itself is in order", func(t *testing.T) {
		t.Parallel()
		p := shell(t, "echo ready; exec sleep 60")
		require.NoError(t, p.Stop(t.Context(), syscall.SIGTERM, 5*time.Second))
	})
	t.Run("reports an exit status", func(t *testing.T) {
		t.Parallel()
		p := shell(t, "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done")
		require.ErrorContains(t, p.Stop(t.Context(), syscall.SIGTERM, 5*time.Second), "exit status 7")
		require.ErrorContains(t, p.Err(), "exit status 7")
	})
	t.Run("kills what ignores it, after the grace", func(t *testing.T) {
		t.Parallel()
		p := shell(t, "trap '' TERM; echo ready; while :; do sleep 0.01; done")
		require.ErrorContains(t, p.Stop(t.Context(), syscall.SIGTERM, 50*time.Millisecond), "was killed")
		<-p.Done()
	})
	t.Run("kills at once when the context ends", func(t *testing.T) {
		t.Parallel()
		p := shell(t, "trap '' TERM; echo ready; while :; do sleep 0.01; done")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, p.Stop(ctx, syscall.SIGTERM, time.Hour))
	})
	t.Run("reaches a child that is paused", func(t *testing.T) {
		t.Parallel()
		p := shell(t, "echo ready; exec sleep 60")
		require.NoError(t, p.Signal(syscall.SIGSTOP))
		require.NoError(t, p.Stop(t.Context(), syscall.SIGTERM, 5*time.Second))
	})
	t.Run("of a child that has ended says how it did", func(t *testing.T) {
		t.Parallel()
		p := shell(t, "echo ready")
		<-p.Done()
		require.NoError(t, p.Stop(t.Context(), syscall.SIGTERM, time.Second))
		require.ErrorIs(t, p.Signal(syscall.SIGTERM), os.ErrProcessDone)
	})
}

func TestKillTakesTheWholeGroup(t *testing.T) {
	t.Parallel()
	p := shell(t, "sleep 60 & echo ready; wait")
	group := p.Pid()
	p.Kill()
	p.Kill() // again does nothing
	require.Eventually(t, func() bool {
		return syscall.Kill(-group, 0) == syscall.ESRCH
	}, 5*time.Second, 5*time.Millisecond)
}

func TestChildHasAGroupOfItsOwn(t *testing.T) {
	t.Parallel()
	p := shell(t, "echo ready; exec sleep 60")
	group, err := syscall.Getpgid(p.Pid())
	require.NoError(t, err)
	require.Equal(t, p.Pid(), group, "so a Ctrl-C in the terminal does not reach it")
}

func TestStartOfNothingFails(t *testing.T) {
	t.Parallel()
	_, err := process.Start(process.Spec{Path: "/not/there"})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestTail(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	require.Contains(t, process.Tail(path), "no log")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("x", 10_000)+"end"), 0o600))
	tail := process.Tail(path)
	require.Len(t, tail, 4096)
	require.True(t, strings.HasSuffix(tail, "end"))
}
