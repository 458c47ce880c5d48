//go:build !linux

package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// processesNaming returns the command lines of all processes that name a path.
func processesNaming(t *testing.T, path string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ps", "-A", "-ww", "-o", "command=").Output()
	require.NoError(t, err)
	var found []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, path) {
			found = append(found, line)
		}
	}
	return found
}
