package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
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
	var out bytes.Buffer
	var err logBuffer // memberlist may still log when a node has ended
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
		for _, command := range []string{"serve", "migrate", "token", "set", "get", "counts", "video", "verify", "demo", "version"} {
			require.Contains(t, stdout, "  "+command+" ")
		}
		require.Contains(t, stdout, "Exit status")
	})

	parser, err := newParser(t.Context(), &cli{}, streams{})
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

// requireOneLine wants an error to be said in one line, and in nothing else.
func requireOneLine(t *testing.T, stderr string) {
	t.Helper()
	require.True(t, strings.HasPrefix(stderr, "likewise: "), stderr)
	require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	require.True(t, strings.HasSuffix(stderr, "\n"), stderr)
}

func TestExitStatus(t *testing.T) {
	noDemo(t)
	const db = "postgres://nobody@127.0.0.1:1/none"
	alone := []string{"serve", "--region", "eu", "--database-url", db}
	among := append(alone, "--dev-secret", "--join", "10.0.0.1:7946")
	with := func(flags ...string) []string { return append(slices.Clip(alone), flags...) }
	amongWith := func(flags ...string) []string { return append(slices.Clip(among), flags...) }

	tests := map[string]struct {
		args   []string
		status int
		says   string
	}{
		"an unknown command":                      {[]string{"srve"}, statusUsage, `did you mean "serve"`},
		"no command":                              {[]string{"--config", "/dev/null"}, statusUsage, "say what to do"},
		"an unknown flag":                         {[]string{"set", "--loud"}, statusUsage, "likewise set --help"},
		"a missing flag":                          {[]string{"migrate", "--regions", "eu"}, statusUsage, "--database-url (or LIKEWISE_DATABASE_URL) is missing"},
		"an empty address":                        {with("--dev-secret", "--listen", ""), statusUsage, "--listen: is empty"},
		"an empty database":                       {[]string{"serve", "--region", "eu", "--dev-secret", "--database-url", ""}, statusUsage, "--database-url: is empty"},
		"a scope that no node knows":              {[]string{"token", "--scope", "admin", "--dev-secret"}, statusUsage, "--scope: no node knows"},
		"a user and a token":                      {[]string{"get", "cat", "--as", "alice", "--token", "x", "--addr", "127.0.0.1:1"}, statusUsage, "exclude each other"},
		"verify of a node and no database":        {[]string{"verify", "--all", "--addr", "127.0.0.1:1"}, statusUsage, "need each other"},
		"a flag without its value":                {[]string{"counts", "cat", "--addr"}, statusUsage, "--addr: needs a value"},
		"a flag in place of a value":              {[]string{"counts", "cat", "--addr", "--json"}, statusUsage, "--addr: needs a value"},
		"a missing argument":                      {[]string{"set", "cat"}, statusUsage, "<reaction> is missing"},
		"a reaction that does not exist":          {[]string{"set", "cat", "LOVE"}, statusUsage, "want one of LIKE, DISLIKE, NONE"},
		"a state that does not exist":             {[]string{"video", "cat", "gone"}, statusUsage, "want one of active, disabled, deleted"},
		"an empty region":                         {[]string{"migrate", "--database-url", db, "--regions", "eu,,ap"}, statusUsage, "--regions: region \"\""},
		"a region twice":                          {[]string{"migrate", "--database-url", db, "--regions", "eu,eu"}, statusUsage, `--regions: "eu" is named twice`},
		"a URL that is none":                      {[]string{"migrate", "--database-url", "localhost", "--regions", "eu"}, statusUsage, "--database-url: want postgres://"},
		"a demo of one region twice":              {[]string{"demo", "--regions", "a,a"}, statusUsage, `--regions: "a" is named twice`},
		"a demo on a port below zero":             {[]string{"demo", "--port", "-5"}, statusUsage, "--port: want 0 to 65535, have -5"},
		"a demo of a server given and started":    {[]string{"demo", "--postgres-url", db, "--data", "x"}, statusUsage, "--postgres-url: "},
		"a demo at a rate that is none":           {[]string{"demo", "--rate", "NaN"}, statusUsage, "--rate: want 0 or more"},
		"a demo on a server that is not there":    {[]string{"demo", "--postgres-url", db}, statusCannot, "--postgres-url: the database"},
		"a demo with programs that are not there": {[]string{"demo", "--postgres-bin", "/nope"}, statusCannot, "--postgres-bin: "},
		"a demo with a report that cannot be":     {[]string{"demo", "--json", "/nope/x"}, statusUsage, "--json: /nope/x: no such file"},
		"verify without a video":                  {[]string{"verify"}, statusUsage, "--all"},
		"verify with both":                        {[]string{"verify", "cat", "--all"}, statusUsage, "--all"},
		"headless without an end":                 {[]string{"demo", "--headless"}, statusUsage, "--duration"},
		"a token without the development secret":  {[]string{"token", "--user", "alice"}, statusNo, "--dev-secret"},
		"a token with a real secret":              {[]string{"token", "--user", "alice", "--jwt-secret", "x"}, statusUsage, "--jwt-secret"},
		"a token that is over before it began":    {[]string{"token", "--user", "alice", "--ttl", "0s"}, statusUsage, "--ttl"},
		"a token for nobody and nothing":          {[]string{"token", "--dev-secret"}, statusUsage, "--user: is missing"},
		"a token for a user that no node accepts": {[]string{"token", "--user", "a b", "--dev-secret"}, statusUsage, "A-Z a-z 0-9"},
		"a token with a scope that is none":       {[]string{"token", "--scope", "a b", "--dev-secret"}, statusUsage, "--scope: "},
		"set without a demo":                      {[]string{"set", "cat", "LIKE", "--as", "alice"}, statusCannot, "no demo is running"},
		"video without a demo":                    {[]string{"video", "cat", "active"}, statusCannot, "no demo is running"},
		"counts without a demo":                   {[]string{"counts", "cat"}, statusCannot, "no demo is running"},
		"verify without a demo":                   {[]string{"verify", "--all"}, statusCannot, "--database-url"},
		"set at a server without a token":         {[]string{"set", "cat", "LIKE", "--addr", "127.0.0.1:1"}, statusUsage, "--token"},
		"video at a server without a token":       {[]string{"video", "cat", "deleted", "--addr", "127.0.0.1:1"}, statusUsage, "likewise:admin"},
		"a version below zero":                    {[]string{"set", "cat", "LIKE", "--expect", "-1"}, statusUsage, "--expect: want a version, 0 or more, have -1"},
		"a region and an address":                 {[]string{"counts", "cat", "--addr", "127.0.0.1:1", "--region", "eu"}, statusUsage, "--region"},
		"an address without a port":               {[]string{"counts", "cat", "--addr", "localhost"}, statusUsage, "--addr: want a port"},
		"an address that is none":                 {[]string{"counts", "cat", "--addr", "ftp://x:1"}, statusUsage, "--addr: want host:port"},
		"a CA for a node without TLS":             {[]string{"counts", "cat", "--addr", "127.0.0.1:1", "--ca", "x"}, statusUsage, "--ca: "},
		"a CA that is not there":                  {[]string{"counts", "cat", "--addr", "https://127.0.0.1:1", "--ca", "/nope.pem"}, statusUsage, "--ca: /nope.pem: no such file"},
		"too many videos":                         {append([]string{"counts"}, strings.Fields(strings.Repeat("cat ", 101))...), statusUsage, "want 1 to 100, have 101"},
		"a server that is not there":              {[]string{"counts", "cat", "--addr", "127.0.0.1:1"}, statusCannot, "is it up"},
		"a database that is not there":            {with("--dev-secret"), statusCannot, "--database-url: the database \"none\" at 127.0.0.1:1"},
		"serve without a secret":                  {with(), statusUsage, "--jwt-secret"},
		"serve with a short secret":               {with("--jwt-secret", "short"), statusUsage, "at least 32 bytes"},
		"serve with two secrets":                  {with("--dev-secret", "--jwt-secret", "x"), statusUsage, "exclude each other"},
		"serve with a secret beside a key set":    {with("--dev-secret", "--jwks-url", "https://x/y"), statusUsage, "--dev-secret: leave it out"},
		"serve with a key set over plain HTTP":    {with("--jwks-url", "http://login.example/keys"), statusUsage, "--jwks-url: want https://"},
		"serve with a key set that is no URL":     {with("--jwks-url", "login"), statusUsage, "--jwks-url: want a URL"},
		"serve with an unknown algorithm":         {with("--dev-secret", "--jwt-algorithms", "none"), statusUsage, "--jwt-algorithms: want some of HS256"},
		"serve with an algorithm of no key set":   {with("--dev-secret", "--jwt-algorithms", "HS256,RS256"), statusUsage, "RS256 needs --jwks-file"},
		"serve with a secret that signs nothing":  {with("--dev-secret", "--jwks-file", "x", "--jwt-algorithms", "RS256"), statusUsage, "add HS256"},
		"serve with an empty audience":            {with("--dev-secret", "--jwt-audience", "a,,b"), statusUsage, "--jwt-audience"},
		"serve with half a certificate":           {with("--dev-secret", "--tls-cert", "x"), statusUsage, "--tls-key: is missing"},
		"serve with the other half":               {with("--dev-secret", "--tls-key", "x"), statusUsage, "--tls-cert: is missing"},
		"serve for every web page":                {with("--dev-secret", "--cors-origins", "*"), statusUsage, "--cors-origins: a wildcard"},
		"serve for a page instead of an origin":   {with("--dev-secret", "--cors-origins", "https://x.example/"), statusUsage, "--cors-origins: want https://host"},
		"serve for an origin with its port":       {with("--dev-secret", "--cors-origins", "https://x.example:443"), statusUsage, "leave out the scheme's own port"},
		"serve at no address":                     {with("--dev-secret", "--listen", "nohost"), statusUsage, "--listen: want host:port"},
		"serve under no name":                     {with("--dev-secret", "--name", "a b"), statusUsage, "--name: "},
		"a deadline above the greatest":           {with("--dev-secret", "--max-deadline", "1s"), statusUsage, "--max-deadline: want at least --deadline (5s), have 1s"},
		"a deadline without a unit":               {with("--dev-secret", "--deadline", "5"), statusUsage, "--deadline: want a duration with its unit"},
		"a deadline below zero":                   {with("--dev-secret", "--deadline", "-5s"), statusUsage, "--deadline: want more than 0"},
		"a drain below zero":                      {with("--dev-secret", "--drain-timeout", "-5s"), statusUsage, "--drain-timeout: "},
		"too many workers":                        {with("--dev-secret", "--commit-workers", "1000"), statusUsage, "--commit-workers: want 1 to 256"},
		"a batch below zero":                      {with("--dev-secret", "--commit-batch", "-1"), statusUsage, "--commit-batch: "},
		"a queue beyond memory":                   {with("--dev-secret", "--commit-queue", "9223372036854775807"), statusUsage, "--commit-queue: "},
		"too many connections":                    {with("--dev-secret", "--read-connections", "99999999999"), statusUsage, "--read-connections: "},
		"a number that is none":                   {with("--dev-secret", "--counts-videos", "many"), statusUsage, `--counts-videos: want a whole number, have "many"`},
		"counts that are stale before they age":   {with("--dev-secret", "--counts-max-stale", "1s"), statusUsage, "--counts-max-stale: want at least --counts-max-age"},
		"a format that does not exist":            {with("--dev-secret", "--log-format", "xml"), statusUsage, "--log-format: want one of json, console"},
		"serve among others without a key":        {among, statusUsage, "--gossip-key"},
		"serve among others with a bad key":       {amongWith("--gossip-key", "!"), statusUsage, "base64"},
		"serve among others without a CA":         {with("--dev-secret", "--gossip-listen", ":0"), statusUsage, "--peer-ca"},
		"serve among others at every address":     {amongWith(), statusUsage, "--peer-advertise: say at which host:port"},
		"serve among others through no proxy":     {amongWith("--peer-proxy", "ftp://user:secret@x"), statusUsage, "--peer-proxy: want http://host:port"},
		"serve among others that are nowhere":     {with("--dev-secret", "--join", "eu-2"), statusUsage, "--join: want host:port"},
		"gossip at a name":                        {amongWith("--gossip-listen", "localhost:7946"), statusUsage, "--gossip-listen: want IP:port"},
		"serve alone with a peers' certificate":   {with("--dev-secret", "--peer-cert", "x"), statusUsage, "--peer-cert"},
		"version":                                 {[]string{"version"}, statusOK, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			status, _, stderr := invoke(t, tt.args...)
			require.Equal(t, tt.status, status, stderr)
			require.Contains(t, stderr, tt.says)
			require.NotContains(t, stderr, "user:secret")
			if status != statusOK {
				requireOneLine(t, stderr)
			}
		})
	}
}

func TestEverythingThatIsWrongIsSaidAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "likewise.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`# the regions of the test
region: "a b"
serve:
  commit-workers: 1000
  listen:
  join: {a: b}
  name: [a, b]
  deadline: 10m
  log-level: loud
  gossip-key: c2VjcmV0
`), 0o600))
	t.Setenv("LIKEWISE_DRAIN_TIMEOUT", "soon")
	t.Setenv("LIKEWISE_MAX_DEADLINE", "1s")

	status, _, stderr := invoke(t, "serve", "--config", file, "--counts-videos", "many")
	require.Equal(t, statusUsage, status)
	requireOneLine(t, stderr)
	for _, says := range []string{
		`--region: region "a b": must be 1 to 63 of the characters a-z A-Z 0-9 - _ . (from ` + file + `:2)`,
		"--database-url (or LIKEWISE_DATABASE_URL) is missing",
		"--jwt-secret: give it",
		"--commit-workers: want 1 to 256, or 0 for the default, have 1000 (from " + file + ":4)",
		"--listen: has no value: write one, or remove the line (from " + file + ":5)",
		"--join: want a list, such as [a, b] (from " + file + ":6)",
		"--name: want one value (from " + file + ":7)",
		"--max-deadline: want at least --deadline (10m0s), have 1s (from LIKEWISE_MAX_DEADLINE, --deadline from " + file + ":8)",
		`--log-level: want one of debug, info, warn, error, have "loud" (from ` + file + ":9)",
		`--drain-timeout: want a duration with its unit, such as 500ms, 30s or 24h, have "soon" (from LIKEWISE_DRAIN_TIMEOUT)`,
		`--counts-videos: want a whole number, have "many"; `,
		`see "likewise serve --help"`,
	} {
		require.Contains(t, stderr, says)
	}
	require.NotContains(t, stderr, "c2VjcmV0", "a secret")
}

func TestAValueThatDoesNotCountIsNotComplainedOf(t *testing.T) {
	noDemo(t)
	t.Setenv("LIKEWISE_MAX_STALENESS", "soon")
	status, _, stderr := invoke(t, "counts", "cat", "--max-staleness", "1s")
	require.Equal(t, statusCannot, status, "the flag wins: %s", stderr)
	status, _, stderr = invoke(t, "get", "cat", "--as", "alice")
	require.Equal(t, statusCannot, status, "another command's flag: %s", stderr)
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
  peer-advertise: eu-1:7947
  gossip-key: MDEyMzQ1Njc4OWFiY2RlZg==
  peer-ca: a
  peer-cert: b
  peer-key: c
`), 0o600))
	t.Setenv("LIKEWISE_NAME", "environment")
	t.Setenv("LIKEWISE_LISTEN", "127.0.0.1:1002")

	parse := func(t *testing.T, args ...string) serveCmd {
		t.Helper()
		line, err := newCommandLine(t.Context(), streams{})
		require.NoError(t, err)
		require.NoError(t, line.parse(append([]string{"serve"}, args...)))
		return line.grammar.Serve
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

func TestAConfigurationThatIsWrongIsRefused(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ content, says string }{
		"an unknown key":              {"lisen: :1\n", ":1: lisen is not a flag of any command; is listen meant?"},
		"an unknown key of a command": {"region: eu\nserve:\n  regoin: eu\n", ":3: serve.regoin is not a flag of this command; is region meant?"},
		"a flag of another command":   {"region: eu\nserve:\n  rtt: 5ms\n", ":3: serve.rtt is not a flag"},
		"a file in the file":          {"config: x\n", ":1: config is not a flag"},
		"a key that stands twice":     {"region: eu\nregion: us\n", ":2: region stands in line 1 already"},
		"no YAML":                     {"region: [\n", "is not YAML"},
		"two documents":               {"region: eu\n---\nregion: us\n", ":2: a second document begins"},
		"an empty region":             {"region: \"\"\n", "--region: "},
		"no mapping":                  {"region\n", "want lines such as"},
		"a list in a list":            {"cors-origins: [[a]]\n", "--cors-origins: in the list: want one value (from"},
		"a flag that is no mapping":   {"region: {a: b}\n", "--region: want one value (from"},
		"a truth that is none":        {"dev-secret: maybe\n", `--dev-secret: want true or false, have "maybe" (from`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "likewise.yaml")
			require.NoError(t, os.WriteFile(file, []byte(tt.content), 0o600))
			status, _, stderr := invoke(t, "serve", "--config", file, "--database-url", "postgres://x/y")
			require.Equal(t, statusUsage, status)
			requireOneLine(t, stderr)
			require.Contains(t, stderr, file)
			require.Contains(t, stderr, tt.says)
		})
	}

	t.Run("one that cannot be read names the flag, with and without a command", func(t *testing.T) {
		t.Parallel()
		for _, args := range [][]string{{"--config", "/nope.yaml"}, {"serve", "--config", "/nope.yaml"}, {"version", "--config", t.TempDir()}} {
			status, _, stderr := invoke(t, args...)
			require.Equal(t, statusUsage, status)
			requireOneLine(t, stderr)
			require.Contains(t, stderr, "--config: ")
		}
	})

	t.Run("an empty one is a file with nothing in it", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "likewise.yaml")
		require.NoError(t, os.WriteFile(file, []byte("# nothing yet\n"), 0o600))
		status, _, stderr := invoke(t, "version", "--config", file)
		require.Equal(t, statusOK, status, stderr)
	})
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
