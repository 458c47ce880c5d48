package main

import (
	"context"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"likewise/deploy/local/certs"
	"likewise/deploy/local/postgres"
)

const (
	gossipKey      = "MDEyMzQ1Njc4OWFiY2RlZg=="
	otherGossipKey = "ZmVkY2JhOTg3NjU0MzIxMA=="
	rolePassword   = "pass-word"
)

// bench is what a node that starts badly is tested with.
type bench struct {
	server *postgres.Server
	files  certs.Files
	dir    string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{server: startPostgres(t), dir: t.TempDir()}
	authority, err := certs.NewAuthority()
	require.NoError(t, err)
	b.files, err = authority.Write(b.dir, "eu-1")
	require.NoError(t, err)
	return b
}

// database makes one that was migrated for regions, or an empty one without any.
func (b *bench) database(t *testing.T, name, regions string) (address string) {
	t.Helper()
	require.NoError(t, b.server.CreateDatabase(t.Context(), name))
	if regions != "" {
		status, _, stderr := invoke(t, "migrate", "--database-url", b.server.URL(name), "--regions", regions)
		require.Equal(t, statusOK, status, stderr)
	}
	return b.server.URL(name)
}

// role makes one that may log in, with the rights that statements give it in a
// database, and returns the database's URL for it.
func (b *bench) role(t *testing.T, name, database string, statements ...string) string {
	t.Helper()
	create := "CREATE ROLE " + name + " LOGIN PASSWORD '" + rolePassword + "'"
	for _, sql := range append([]string{create}, statements...) {
		require.NoError(t, b.server.Exec(t.Context(), database, sql))
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = b.server.Exec(ctx, database, "DROP OWNED BY "+name)
		_ = b.server.Exec(ctx, database, "DROP ROLE "+name)
	})
	return with(t, b.server.URL(database), func(u *url.URL) { u.User = url.UserPassword(name, rolePassword) })
}

func with(t *testing.T, address string, change func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	change(u)
	return u.String()
}

// among is the command line of a node among others. Flags in more win over its
// own, as the last one does.
func (b *bench) among(name, databaseURL string, more ...string) []string {
	return append([]string{
		"serve", "--region", "eu", "--name", name, "--listen", "127.0.0.1:0", "--database-url", databaseURL, "--dev-secret",
		"--gossip-listen", "127.0.0.1:0", "--gossip-key", gossipKey, "--peer-listen", "127.0.0.1:0",
		"--peer-ca", b.files.CA, "--peer-cert", b.files.Cert, "--peer-key", b.files.Key,
	}, more...)
}

func (b *bench) alone(databaseURL string, more ...string) []string {
	return append([]string{
		"serve", "--region", "eu", "--name", "eu-1", "--listen", "127.0.0.1:0", "--database-url", databaseURL, "--dev-secret",
	}, more...)
}

func (b *bench) write(t *testing.T, name, content string) (path string) {
	t.Helper()
	path = filepath.Join(b.dir, name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// taken is an address that somebody listens on.
func taken(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	return ln.Addr().String()
}

// badStart is a command line that cannot work, and what must be said of it.
type badStart struct {
	args   []string
	status int
	says   []string
}

func (s badStart) check(t *testing.T) {
	t.Helper()
	requireOneLine(t, s.run(t))
}

// checkLast is for a node that has begun to serve, and to log.
func (s badStart) checkLast(t *testing.T) {
	t.Helper()
	stderr := s.run(t)
	said := strings.Index(stderr, "likewise: ")
	require.GreaterOrEqual(t, said, 0, stderr)
	line, _, _ := strings.Cut(stderr[said:], "\n")
	requireOneLine(t, line+"\n")
}

func (s badStart) run(t *testing.T) (stderr string) {
	t.Helper()
	status, stdout, stderr := invoke(t, s.args...)
	require.Equal(t, s.status, status, stderr)
	require.Empty(t, stdout)
	for _, says := range s.says {
		require.Contains(t, stderr, says)
	}
	for _, secret := range []string{rolePassword, "wrong-word", gossipKey, otherGossipKey, devSecret} {
		require.NotContains(t, stderr, secret)
	}
	return stderr
}

func TestABadDatabaseIsSaidInOneLine(t *testing.T) {
	t.Parallel()

	b := newBench(t)
	empty, ready, other := b.database(t, "bad_empty", ""), b.database(t, "bad_ready", "eu,us"), b.database(t, "bad_other", "ap")
	for _, database := range []string{"bad_empty", "bad_ready"} {
		require.NoError(t, b.server.Exec(t.Context(), database, "REVOKE CREATE ON SCHEMA public FROM PUBLIC"))
	}
	address := strings.TrimPrefix(with(t, ready, func(u *url.URL) { *u = url.URL{Host: u.Host} }), "//")
	nobody := with(t, ready, func(u *url.URL) { u.Host = "127.0.0.1:1" })
	wrongPassword := with(t, ready, func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), "wrong-word") })
	missing := with(t, ready, func(u *url.URL) { u.Path = "/bad_missing" })
	wantsTLS := with(t, ready, func(u *url.URL) { u.RawQuery = "sslmode=require" })
	noConnect := b.role(t, "bad_noconnect", "bad_other", "REVOKE CONNECT ON DATABASE bad_other FROM PUBLIC")
	noCreate := b.role(t, "bad_nocreate", "bad_empty")
	noRead := b.role(t, "bad_noread", "bad_ready")
	noWrite := b.role(t, "bad_nowrite", "bad_ready", "GRANT SELECT ON ALL TABLES IN SCHEMA public TO bad_nowrite")
	full := b.role(t, "bad_full", "bad_ready", "ALTER ROLE bad_full CONNECTION LIMIT 0")
	standby := with(t, ready, func(u *url.URL) { u.RawQuery = "sslmode=disable&default_transaction_read_only=on" })

	tests := map[string]badStart{
		"unreachable":                      {b.alone(nobody), statusCannot, []string{"--database-url: ", "127.0.0.1:1", "start it, or correct host and port"}},
		"a wrong password":                 {b.alone(wrongPassword), statusCannot, []string{"--database-url: ", address, "correct user and password"}},
		"a database that does not exist":   {b.alone(missing), statusCannot, []string{"--database-url: ", `CREATE DATABASE "bad_missing"`}},
		"TLS where there is none":          {b.alone(wantsTLS), statusCannot, []string{"--database-url: ", "sslmode"}},
		"no right to connect":              {b.among("eu-1", noConnect), statusCannot, []string{"--database-url: ", `CONNECT ON DATABASE "bad_other" TO "bad_noconnect"`}},
		"no right to make tables":          {b.alone(noCreate), statusCannot, []string{"--database-url: ", `CREATE ON SCHEMA public TO "bad_nocreate"`}},
		"migrate without that right":       {[]string{"migrate", "--database-url", noCreate, "--regions", "eu"}, statusCannot, []string{"--database-url: ", `CREATE ON SCHEMA public TO "bad_nocreate"`}},
		"no right to read":                 {b.among("eu-1", noRead), statusCannot, []string{"--database-url: ", `TO "bad_noread"`}},
		"no right to write":                {b.among("eu-1", noWrite), statusCannot, []string{"--database-url: ", "INSERT on changes", `TO "bad_nowrite"`}},
		"no connection left":               {b.among("eu-1", full), statusCannot, []string{"--database-url: ", "max_connections"}},
		"one that takes no writes":         {b.alone(standby), statusCannot, []string{"--database-url: ", "name the primary"}},
		"not migrated":                     {b.among("eu-1", empty), statusCannot, []string{"--database-url: ", "likewise migrate --regions"}},
		"migrated for other regions":       {b.among("eu-1", other), statusUsage, []string{"--region: ", "serves the regions ap", "name one of those"}},
		"migrated for more than one alone": {b.alone(ready), statusUsage, []string{"--region: ", "serves the regions eu, us", "--join"}},
		"migrate it for others":            {[]string{"migrate", "--database-url", ready, "--regions", "eu"}, statusUsage, []string{"--regions: ", "eu, us", "name those"}},
		"verify one that is not there":     {[]string{"verify", "cat", "--addr", "127.0.0.1:1", "--database-url", nobody}, statusCannot, []string{"--database-url: ", "start it"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.check(t)
		})
	}

	t.Run("and says where its URL stands", func(t *testing.T) {
		t.Parallel()
		file := b.write(t, "likewise.yaml", "# by file\ndatabase-url: "+wrongPassword+"\n")
		badStart{
			[]string{"migrate", "--config", file, "--regions", "eu"},
			statusCannot,
			[]string{"--database-url: ", "correct user and password", "(from " + file + ":2)"},
		}.check(t)
	})
}

func TestABadAddressOrFileIsSaidInOneLine(t *testing.T) {
	t.Parallel()

	b := newBench(t)
	ready := b.database(t, "bad_files", "eu")
	foreign, err := certs.NewAuthority()
	require.NoError(t, err)
	others, err := foreign.Write(filepath.Join(b.dir, "foreign"), "eu-9")
	require.NoError(t, err)
	missing := filepath.Join(b.dir, "missing.pem")
	text := b.write(t, "text.pem", "no key\n")
	usersPort, peersPort, gossipPort := taken(t), taken(t), taken(t)

	tests := map[string]badStart{
		"the users' port in use":         {b.alone(ready, "--listen", usersPort), statusCannot, []string{"--listen: " + usersPort + " is in use", "choose another port"}},
		"the peers' port in use":         {b.among("eu-1", ready, "--peer-listen", peersPort), statusCannot, []string{"--peer-listen: " + peersPort + " is in use"}},
		"gossip's port in use":           {b.among("eu-1", ready, "--gossip-listen", gossipPort), statusCannot, []string{"--gossip-listen: " + gossipPort + " is in use"}},
		"an address of another machine":  {b.alone(ready, "--listen", "192.0.2.1:8080"), statusCannot, []string{"--listen: 192.0.2.1:8080 is no address of this machine"}},
		"a peer's key that is missing":   {b.among("eu-1", ready, "--peer-key", missing), statusUsage, []string{"--peer-key: " + missing + ": no such file"}},
		"a peer's key that is a folder":  {b.among("eu-1", ready, "--peer-key", b.dir), statusUsage, []string{"--peer-key: " + b.dir + ": is a directory"}},
		"a peer's key that is none":      {b.among("eu-1", ready, "--peer-key", text), statusUsage, []string{"--peer-key: " + text + " holds no PEM block \"PRIVATE KEY\""}},
		"a peer's key of another":        {b.among("eu-1", ready, "--peer-key", others.Key), statusUsage, []string{"--peer-key: " + others.Key + " is not the private key of the certificate in " + b.files.Cert}},
		"a peer's certificate by others": {b.among("eu-1", ready, "--peer-ca", others.CA), statusUsage, []string{"--peer-cert: other nodes would refuse it", "--peer-ca"}},
		"a CA that is none":              {b.among("eu-1", ready, "--peer-ca", text), statusUsage, []string{"--peer-ca: " + text + " holds no PEM block \"CERTIFICATE\""}},
		"all of them at once": {
			b.among("eu-1", ready, "--peer-ca", text, "--peer-cert", missing, "--peer-key", text, "--tls-cert", missing, "--tls-key", text), statusUsage,
			[]string{"--peer-ca: ", "--peer-cert: ", "--peer-key: ", "--tls-cert: ", "--tls-key: "},
		},
		"a certificate that is missing":   {b.alone(ready, "--tls-cert", missing, "--tls-key", b.files.Key), statusUsage, []string{"--tls-cert: " + missing + ": no such file"}},
		"a certificate with another key":  {b.alone(ready, "--tls-cert", b.files.Cert, "--tls-key", others.Key), statusUsage, []string{"--tls-key: ", "is not the private key"}},
		"a key set that is missing":       {keySet(b.alone(ready), missing), statusUsage, []string{"--jwks-file: " + missing + ": no such file"}},
		"a key set that is none":          {keySet(b.alone(ready), text), statusUsage, []string{"--jwks-file: " + text + ": want a JSON Web Key Set"}},
		"a key set with nothing in it":    {keySet(b.alone(ready), b.write(t, "empty.json", `{"keys": []}`)), statusUsage, []string{"at least one key"}},
		"a configuration that is missing": {[]string{"serve", "--config", missing}, statusUsage, []string{"--config: " + missing + ": no such file"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.check(t)
		})
	}
}

// keySet takes the development secret out of a command line, and a key set in.
func keySet(args []string, file string) []string {
	args = slices.DeleteFunc(args, func(arg string) bool { return arg == "--dev-secret" })
	return append(args, "--jwks-file", file)
}

// A node that serves stays, and the one that comes and does not fit says why.
func TestANodeThatDoesNotFitToTheOthersSaysWhy(t *testing.T) {
	t.Parallel()

	b := newBench(t)
	ready, other := b.database(t, "fit_ready", "eu,us"), b.database(t, "fit_other", "us,eu")

	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	var log logBuffer
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, b.among("eu-1", ready), streams{out: io.Discard, err: &log}) }()
	require.Eventually(t, func() bool { return strings.Contains(log.String(), `"msg":"settled"`) }, 2*time.Minute, 20*time.Millisecond, "%s", &log)
	join := log.serving().Gossip

	t.Run("newcomers", func(t *testing.T) {
		for name, tt := range map[string]badStart{
			"a name that is taken":       {b.among("eu-1", ready, "--join", join), statusCannot, []string{"--name: ", `"eu-1"`, "stop that one, or give this node a name of its own"}},
			"another gossip key":         {b.among("eu-2", ready, "--join", join, "--gossip-key", otherGossipKey), statusCannot, []string{"--gossip-key: ", join, "same --gossip-key"}},
			"a topology of another kind": {b.among("eu-2", other, "--join", join), statusCannot, []string{"--database-url: ", `"eu-1"`, "same database"}},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				tt.checkLast(t)
			})
		}
	})

	stop()
	require.Equal(t, statusOK, <-ended, "%s", &log)
}
