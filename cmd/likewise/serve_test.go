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
	"likewise/regions"
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

// addresses are those in a node's line "serving".
type addresses struct {
	Front  string `json:"listen"`
	Gossip string `json:"gossip_listen"`
}

// serving returns what stands in the line "serving", or nothing yet.
func (b *logBuffer) serving() addresses {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range bytes.Lines(b.buf.Bytes()) {
		var entry struct {
			Msg string `json:"msg"`
			addresses
		}
		if json.Unmarshal(line, &entry) == nil && entry.Msg == "serving" {
			return entry.addresses
		}
	}
	return addresses{}
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// startPostgres is a server for the test alone, unless the environment names one.
func startPostgres(t *testing.T) *postgres.Server {
	t.Helper()
	o := postgres.FromEnvironment()
	o.Durability = postgres.Volatile
	server, err := postgres.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close(context.WithoutCancel(t.Context()))) })
	return server
}

// R30: one PostgreSQL, one node, nothing else.
func TestANodeAloneServesOnAnEmptyDatabase(t *testing.T) {
	noDemo(t)
	server := startPostgres(t)
	const database = "cli_alone"
	require.NoError(t, server.CreateDatabase(t.Context(), database))
	url := server.URL(database)

	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	var log logBuffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{
			"serve", "--region", "eu", "--name", "eu-1", "--listen", "127.0.0.1:0", "--database-url", url, "--dev-secret",
		}, streams{out: io.Discard, err: &log})
	}()
	require.Eventually(t, func() bool { return log.serving().Front != "" }, 2*time.Minute, 20*time.Millisecond, "%s", &log)
	addr := log.serving().Front

	token, err := mintUser("alice", time.Hour)
	require.NoError(t, err)
	admin, err := mint("token", regions.Claims{Scopes: []string{regions.ScopeAdmin}}, time.Hour)
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
		{[]string{"set", "dog", "dislike", "--addr", addr, "--token", token}, statusOK, "DISLIKE (was NONE)"},
		{[]string{"counts", "cat", "--addr", addr}, statusOK, "1 likes, 0 dislikes"},
		{[]string{"counts", "dog", "cat", "dog", "--addr", addr}, statusOK, "dog: 0 likes, 1 dislikes"},
		{[]string{"counts", "cat", "dog", "--addr", addr, "--json"}, statusOK, `"likes": "1"`},
		{[]string{"video", "dog", "disabled", "--addr", addr, "--token", token}, statusNo, "permission_denied"},
		{[]string{"video", "dog", "disabled", "--addr", addr, "--token", admin}, statusOK, "dog: DISABLED (was ACTIVE)"},
		{[]string{"video", "dog", "DISABLED", "--addr", addr, "--token", admin}, statusOK, "dog: DISABLED already"},
		{[]string{"set", "dog", "like", "--addr", addr, "--token", token}, statusNo, "the video is DISABLED"},
		{[]string{"video", "dog", "deleted", "--addr", addr, "--token", admin, "--json"}, statusOK, `"state": "DELETED"`},
		{[]string{"counts", "dog", "--addr", addr}, statusNo, "not_found"},
		{[]string{"counts", "dog", "cat", "--addr", addr}, statusNo, "cat: 1 likes, 0 dislikes"},
		{[]string{"verify", "dog", "--addr", addr, "--database-url", url}, statusOK, "dog, deleted"},
		{[]string{"verify", "--all", "--addr", addr, "--database-url", url}, statusOK, "2 videos checked, 0 differ"},
		{[]string{"video", "dog", "active", "--addr", addr, "--token", admin}, statusOK, "dog: ACTIVE (was DELETED)"},
		{[]string{"set", "dog", "NONE", "--addr", addr, "--token", token}, statusOK, "NONE (was DISLIKE)"},
		{[]string{"verify", "--all", "--addr", addr, "--database-url", url}, statusOK, "2 videos checked, 0 differ"},
		{[]string{"verify", "cat", "--addr", addr, "--database-url", url, "--json"}, statusOK, `"differ": 0`},
		{[]string{"migrate", "--database-url", url, "--regions", "eu"}, statusOK, "epoch 1: [eu]"},
		{[]string{"migrate", "--database-url", url, "--regions", "eu,us"}, statusUsage, "serves the regions eu, which stay"},
		{[]string{"serve", "--region", "mars", "--dev-secret", "--listen", "127.0.0.1:0", "--database-url", url}, statusUsage, "--region: this database serves the regions eu"},
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

func TestALogIsHeldUntilANodeHasStarted(t *testing.T) {
	t.Parallel()

	var out bytes.Buffer
	held := &heldWriter{to: &out}
	for _, line := range []string{"one\n", "two\n"} {
		n, err := held.Write([]byte(line))
		require.NoError(t, err)
		require.Equal(t, len(line), n)
	}
	require.Empty(t, out.String())
	held.release()
	held.release()
	_, err := held.Write([]byte("three\n"))
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\nthree\n", out.String())
}
