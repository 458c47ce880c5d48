package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// processesNaming returns the command lines of all processes that name a path,
// in an argument or in their environment as far as that may be read.
func processesNaming(t *testing.T, path string) []string {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	var found []string
	for _, dir := range processes {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue // it has just ended
		}
		environment, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil && !os.IsPermission(err) {
			continue
		}
		if bytes.Contains(line, []byte(path)) || bytes.Contains(environment, []byte(path)) {
			found = append(found, string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return found
}
