package cluster_test

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A parent that is killed has no time to end its nodes: the kernel does.
func TestNodesEndWithTheirParent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"="+binary, "CLUSTER_TEST_DIR="+dir)
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())

	lines := bufio.NewScanner(out)
	var pids []int
	for len(pids) < 4 && lines.Scan() {
		pid, err := strconv.Atoi(lines.Text())
		require.NoError(t, err)
		require.False(t, gone(pid))
		pids = append(pids, pid)
	}
	require.Len(t, pids, 4)

	require.NoError(t, parent.Process.Kill())
	require.Error(t, parent.Wait())
	for _, pid := range pids {
		require.Eventually(t, func() bool { return gone(pid) }, 5*time.Second, 10*time.Millisecond)
	}
}
