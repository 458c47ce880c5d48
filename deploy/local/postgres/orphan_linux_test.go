package postgres

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A parent that is killed cannot stop its server: the kernel does.
func TestServerEndsWithItsParent(t *testing.T) {
	t.Parallel()
	p := startParent(t, nil, filepath.Join(tempDir(t), "data"))
	require.False(t, gone(p.pid))
	require.NoError(t, p.cmd.Process.Kill())
	require.Error(t, p.cmd.Wait())
	require.Eventually(t, func() bool { return gone(p.pid) }, 10*time.Second, 10*time.Millisecond)
}
