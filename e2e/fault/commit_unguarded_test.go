//go:build unguarded

package fault

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"likewise/e2e/check"
)

// Negative control: where an unknown outcome is not looked up but simply run
// again, a COMMIT that is applied unheard or late takes effect twice, and the
// checker must say so.
func TestNegativeCommitFaultsWithoutLookUp(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	unguarded := exec.CommandContext(t.Context(), self, "-test.run", "^TestCommitFaultsUnderTraffic$/(reply|hold)")
	unguarded.Env = append(os.Environ(), "LIKEWISE_UNGUARDED=look-up")

	output, err := unguarded.CombinedOutput()
	require.ErrorContains(t, err, "exit status 1", "the checker saw nothing wrong")
	require.Contains(t, string(output), string(check.NotLinearizable)+": (cat, alice)", "it failed for another reason")
}
