package cluster_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"likewise/deploy/local/cluster"
	"likewise/deploy/local/postgres"
)

// The real binary takes what this package gives it: it migrates, serves, comes
// back at its addresses, and drains in order.
func TestLikewiseItself(t *testing.T) {
	t.Parallel()
	likewise := filepath.Join(t.TempDir(), "likewise")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", likewise, "likewise/cmd/likewise").CombinedOutput()
	require.NoError(t, err, string(out))

	options := postgres.FromEnvironment()
	options.Durability = postgres.Volatile
	server, err := postgres.Start(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close(context.WithoutCancel(t.Context()))) })
	const database = "cluster_test"
	require.NoError(t, server.DropDatabase(t.Context(), database))
	require.NoError(t, server.CreateDatabase(t.Context(), database))

	cfg := config()
	cfg.Binary = likewise
	cfg.DatabaseURL = server.URL(database)
	cfg.StartTimeout, cfg.StopTimeout = 0, 0 // the defaults
	c, err := cluster.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.WithoutCancel(t.Context()))) })
	require.NoError(t, c.Nodes()[1].Restart(t.Context()))
	c.Nodes()[2].Kill()
	require.NoError(t, c.Nodes()[2].Restart(t.Context()))
	for _, n := range c.Nodes() {
		get(t, n, "/healthz")
	}
}
