package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
)

// invoke runs one command line as main does. A test that reads the demo's
// state gives it a folder of its own first; see noDemo.
func invoke(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	status = run(t.Context(), args, streams{out: &out, err: &err})
	return status, out.String(), err.String()
}

// noDemo hides a demo that the developer may be running.
func noDemo(t *testing.T) {
	t.Helper()
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
}

func TestHelp(t *testing.T) {
	t.Parallel()

	t.Run("without arguments is the overview", func(t *testing.T) {
		t.Parallel()
		status, stdout, _ := invoke(t)
		require.Equal(t, statusOK, status)
		for _, command := range []string{"serve", "migrate", "token", "set", "get", "counts", "verify", "demo", "version"} {
			require.Contains(t, stdout, "  "+command+" ")
		}
		require.Contains(t, stdout, "Exit status")
	})

	parser, err := newParser(t.Context(), streams{}, func(int) {})
	require.NoError(t, err)
	for _, command := range parser.Model.Leaves(true) {
		groups := command.AllFlags(true) // not safe for concurrent use
		t.Run(command.Name+" explains every flag and names its variable", func(t *testing.T) {
			t.Parallel()
			status, stdout, _ := invoke(t, command.Name, "--help")
			require.Equal(t, statusOK, status)
			for _, group := range groups {
				for _, flag := range group {
					requireExplained(t, stdout, flag)
				}
			}
			if command.Name != "version" {
				require.NotEmpty(t, command.Detail, "examples")
			}
		})
	}
}

func requireExplained(t *testing.T, help string, flag *kong.Flag) {
	t.Helper()
	require.Contains(t, help, "--"+flag.Name)
	require.NotEmpty(t, flag.Help, flag.Name)
	if flag.Name == "help" {
		return
	}
	require.Equal(t, []string{"LIKEWISE_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))}, flag.Envs)
	require.Contains(t, help, "$"+flag.Envs[0])
}

func TestExitStatus(t *testing.T) {
	noDemo(t)
	const db = "postgres://nobody@127.0.0.1:1/none"
	alone := []string{"serve", "--region", "eu", "--database-url", db}

	tests := map[string]struct {
		args   []string
		status int
		says   string
	}{
		"an unknown command":                     {[]string{"srve"}, statusUsage, "srve"},
		"an unknown flag":                        {[]string{"set", "--loud"}, statusUsage, "likewise set --help"},
		"a missing flag":                         {[]string{"migrate", "--regions", "eu"}, statusUsage, "--database-url"},
		"a reaction that does not exist":         {[]string{"set", "cat", "LOVE"}, statusUsage, "LIKE"},
		"an empty region":                        {[]string{"migrate", "--database-url", db, "--regions", "eu,,ap"}, statusUsage, "--regions"},
		"verify without a video":                 {[]string{"verify"}, statusUsage, "--all"},
		"verify with both":                       {[]string{"verify", "cat", "--all"}, statusUsage, "--all"},
		"headless without an end":                {[]string{"demo", "--headless"}, statusUsage, "--duration"},
		"a token without the development secret": {[]string{"token", "--user", "alice"}, statusNo, "--dev-secret"},
		"a token with a real secret":             {[]string{"token", "--user", "alice", "--jwt-secret", "x"}, statusUsage, "--jwt-secret"},
		"a token that is over before it began":   {[]string{"token", "--user", "alice", "--ttl", "0s"}, statusUsage, "--ttl"},
		"set without a demo":                     {[]string{"set", "cat", "LIKE", "--as", "alice"}, statusCannot, "no demo is running"},
		"counts without a demo":                  {[]string{"counts", "cat"}, statusCannot, "no demo is running"},
		"verify without a demo":                  {[]string{"verify", "--all"}, statusCannot, "--database-url"},
		"set at a server without a token":        {[]string{"set", "cat", "LIKE", "--addr", "127.0.0.1:1"}, statusUsage, "--token"},
		"a region and an address":                {[]string{"counts", "cat", "--addr", "127.0.0.1:1", "--region", "eu"}, statusUsage, "--region"},
		"a server that is not there":             {[]string{"counts", "cat", "--addr", "127.0.0.1:1"}, statusCannot, "is it up?"},
		"a database that is not there":           {append(alone, "--dev-secret"), statusCannot, "database"},
		"serve without a secret":                 {alone, statusUsage, "--jwt-secret"},
		"serve with a short secret":              {append(alone, "--jwt-secret", "short"), statusUsage, "at least 32 bytes"},
		"serve with two secrets":                 {append(alone, "--dev-secret", "--jwt-secret", "x"), statusUsage, "exclude each other"},
		"serve among others without a key":       {append(alone, "--dev-secret", "--join", "10.0.0.1:7946"), statusUsage, "--gossip-key"},
		"serve among others with a bad key":      {append(alone, "--dev-secret", "--join", "10.0.0.1:7946", "--gossip-key", "!"), statusUsage, "base64"},
		"serve among others without a CA":        {append(alone, "--dev-secret", "--gossip-listen", ":0"), statusUsage, "--peer-ca"},
		"serve alone with a peers' certificate":  {append(alone, "--dev-secret", "--peer-cert", "x"), statusUsage, "--peer-cert"},
		"version":                                {[]string{"version"}, statusOK, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			status, _, stderr := invoke(t, tt.args...)
			require.Equal(t, tt.status, status, stderr)
			require.Contains(t, stderr, tt.says)
		})
	}
}

func TestAFlagWinsOverTheEnvironmentAndThatOverTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "likewise.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
listen: 127.0.0.1:1001
database-url: postgres://file/x
dev-secret: true
serve:
  region: section
  name: file
  join: [a:1, b:2]
  gossip-key: MDEyMzQ1Njc4OWFiY2RlZg==
  peer-ca: a
  peer-cert: b
  peer-key: c
`), 0o600))
	t.Setenv("LIKEWISE_NAME", "environment")
	t.Setenv("LIKEWISE_LISTEN", "127.0.0.1:1002")

	parse := func(t *testing.T, args ...string) serveCmd {
		t.Helper()
		parser, err := newParser(t.Context(), streams{}, func(int) {})
		require.NoError(t, err)
		command, err := parser.Parse(append([]string{"serve"}, args...))
		require.NoError(t, err)
		target, ok := reflect.TypeAssert[*cli](command.Model.Target.Addr())
		require.True(t, ok)
		return target.Serve
	}

	t.Run("all three", func(t *testing.T) {
		got := parse(t, "--config", file, "--listen", "127.0.0.1:1003")
		require.Equal(t, "127.0.0.1:1003", got.Listen, "flag")
		require.Equal(t, "environment", got.Name)
		require.Equal(t, "section", got.Region, "the command's own section")
		require.Equal(t, "postgres://file/x", got.DatabaseURL, "the file's top level")
		require.Equal(t, []string{"a:1", "b:2"}, got.Join)
		require.True(t, got.DevSecret)
		require.Equal(t, 5*time.Second, got.Deadline, "default")
	})

	t.Run("the file named by the environment", func(t *testing.T) {
		t.Setenv("LIKEWISE_CONFIG", file)
		got := parse(t)
		require.Equal(t, "127.0.0.1:1002", got.Listen)
		require.Equal(t, "section", got.Region)
	})
}

func TestAConfigurationWithATypingErrorIsRefused(t *testing.T) {
	t.Parallel()

	file := filepath.Join(t.TempDir(), "likewise.yaml")
	require.NoError(t, os.WriteFile(file, []byte("lisen: :1\nserve:\n  regoin: eu\ncounts: {}\n"), 0o600))
	status, _, stderr := invoke(t, "serve", "--config", file, "--region", "eu", "--database-url", "postgres://x/y", "--dev-secret")
	require.Equal(t, statusUsage, status)
	require.Contains(t, stderr, "lisen is not a flag")
	require.Contains(t, stderr, "serve.regoin is not a flag")
}

func TestTokenNamesTheUserAndEnds(t *testing.T) {
	t.Parallel()

	status, stdout, stderr := invoke(t, "token", "--user", "alice", "--dev-secret", "--ttl", "1h")
	require.Equal(t, statusOK, status, stderr)
	var claims jwt.RegisteredClaims
	_, err := jwt.ParseWithClaims(strings.TrimSpace(stdout), &claims, func(*jwt.Token) (any, error) { return []byte(devSecret), nil })
	require.NoError(t, err)
	require.Equal(t, "alice", claims.Subject)
	require.WithinDuration(t, time.Now().Add(time.Hour), claims.ExpiresAt.Time, time.Minute)
	require.GreaterOrEqual(t, len(devSecret), minSecret)
}
