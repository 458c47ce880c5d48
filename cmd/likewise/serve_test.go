package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"likewise/deploy/local/postgres"
)

// logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// serving returns the address in the line "serving", or nothing yet.
func (b *logBuffer) serving() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range bytes.Lines(b.buf.Bytes()) {
		var entry struct{ Msg, Listen string }
		if json.Unmarshal(line, &entry) == nil && entry.Msg == "serving" {
			return entry.Listen
		}
	}
	return ""
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// R30: one PostgreSQL, one node, nothing else.
func TestANodeAloneServesOnAnEmptyDatabase(t *testing.T) {
	noDemo(t)
	o := postgres.FromEnvironment()
	o.Durability = postgres.Volatile
	server, err := postgres.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close(context.WithoutCancel(t.Context()))) })
	const database = "cli_alone"
	require.NoError(t, server.CreateDatabase(t.Context(), database))
	url := server.URL(database)

	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var log logBuffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{
			"serve", "--region", "eu", "--name", "eu-1", "--listen", "127.0.0.1:0", "--database-url", url, "--dev-secret",
		}, streams{out: io.Discard, err: &log})
	}()
	require.Eventually(t, func() bool { return log.serving() != "" }, 30*time.Second, 20*time.Millisecond, "%s", &log)
	addr := log.serving()

	token, err := mintToken("alice", time.Minute)
	require.NoError(t, err)
	for _, step := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"set", "cat", "LIKE", "--addr", addr, "--token", token}, statusOK, "LIKE (was NONE)"},
		{[]string{"set", "cat", "LIKE", "--addr", addr, "--token", token}, statusOK, "LIKE already"},
		{[]string{"set", "cat", "DISLIKE", "--addr", addr, "--token", token, "--expect", "0"}, statusNo, "it is LIKE"},
		{[]string{"set", "cat", "LIKE", "--addr", addr, "--token", "forged"}, statusNo, "unauthenticated"},
		{[]string{"get", "cat", "--addr", addr, "--token", token, "--json"}, statusOK, `"reaction": "LIKE"`},
		{[]string{"counts", "cat", "--addr", addr}, statusOK, "1 likes, 0 dislikes"},
		{[]string{"verify", "--all", "--addr", addr, "--database-url", url}, statusOK, "1 videos checked, 0 differ"},
		{[]string{"verify", "cat", "--addr", addr, "--database-url", url, "--json"}, statusOK, `"differ": 0`},
		{[]string{"migrate", "--database-url", url, "--regions", "eu"}, statusOK, "epoch 1: [eu]"},
		{[]string{"migrate", "--database-url", url, "--regions", "eu,us"}, statusUsage, "serves the regions [eu], which stay"},
		{[]string{"serve", "--region", "mars", "--dev-secret", "--listen", "127.0.0.1:0", "--database-url", url}, statusUsage, "serves the regions [eu]"},
	} {
		status, stdout, stderr := invoke(t, step.args...)
		require.Equal(t, step.status, status, "%v: %s", step.args, stderr)
		require.Contains(t, stdout+stderr, step.says)
	}

	stop()
	require.Equal(t, statusOK, <-ended, "%s", &log)
	require.Contains(t, log.String(), "everybody knows", "the development secret is warned of")
	require.NotContains(t, log.String(), devSecret)
}

func TestANodeAmongOthersWantsAMigratedDatabase(t *testing.T) {
	o := postgres.FromEnvironment()
	o.Durability = postgres.Volatile
	server, err := postgres.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close(context.WithoutCancel(t.Context()))) })
	const database = "cli_unmigrated"
	require.NoError(t, server.CreateDatabase(t.Context(), database))

	status, _, stderr := invoke(t, "serve", "--region", "eu", "--name", "eu-1", "--listen", "127.0.0.1:0",
		"--database-url", server.URL(database), "--dev-secret", "--gossip-listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0",
		"--gossip-key", "MDEyMzQ1Njc4OWFiY2RlZg==", "--peer-ca", "x", "--peer-cert", "x", "--peer-key", "x")
	require.Equal(t, statusCannot, status)
	require.Contains(t, stderr, "migrate --regions")
}
