package main

import (
	"net"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"likewise/routing"
)

// change is what somebody may do to flags that are right.
type change func(*serveCmd)

// setting changes a flag to each of some values, at and beyond the edges.
func setting[T any](flag func(*serveCmd) *T, some ...T) []change {
	changes := make([]change, len(some))
	for i, value := range some {
		changes[i] = func(c *serveCmd) { *flag(c) = value }
	}
	return changes
}

func duration(flag func(*serveCmd) *time.Duration) []change {
	return setting(flag, -1, 0, 1, time.Second, 5*time.Second, 30*time.Second, time.Hour)
}

func number(flag func(*serveCmd) *int) []change {
	return setting(flag, -1, 0, 1, 256, 257, 10_000, 100_000, 1_000_001, 1<<40)
}

func changes() []change {
	const secret = "0123456789abcdef0123456789abcdef"
	return slices.Concat(
		setting(func(c *serveCmd) *string { return &c.Region }, "", "us", "a b"),
		setting(func(c *serveCmd) *string { return &c.Name }, "eu.1", "a b"),
		setting(func(c *serveCmd) *string { return &c.DatabaseURL }, "", "x", "postgres://a:b/c@x/y", "host=x user=y"),
		setting(func(c *serveCmd) *[]string { return &c.CORSOrigins }, []string{"https://a.example", "http://b.example:8080"},
			[]string{"https://a.example/"}, []string{"https://A.example"}, []string{"http://b.example:80"}, []string{"*"}, []string{"null"}, []string{"https://a:"}, []string{""}),
		setting(func(c *serveCmd) *bool { return &c.DevSecret }, true),
		setting(func(c *serveCmd) *string { return &c.JWTSecret }, "", "short", secret),
		setting(func(c *serveCmd) *string { return &c.JWKSFile }, "file"),
		setting(func(c *serveCmd) *string { return &c.JWKSURL }, "https://a.example/keys", "http://127.0.0.1/keys", "http://[::1]:1/k", "http://localhost/k", "http://a.example/keys", "keys", ":"),
		setting(func(c *serveCmd) *[]string { return &c.JWTAudience }, []string{"a", "b"}, []string{""}),
		setting(func(c *serveCmd) *[]string { return &c.JWTAlgorithms }, []string{"HS256"}, []string{"HS256", "RS256"}, []string{"EdDSA", "PS512"}, []string{"none"}),
		duration(func(c *serveCmd) *time.Duration { return &c.JWKSRefresh }),
		duration(func(c *serveCmd) *time.Duration { return &c.JWTLeeway }),
		setting(func(c *serveCmd) *[]string { return &c.Join }, nil, []string{"10.0.0.1:7946", "eu-2:7946"}, []string{"eu-2"}, []string{"eu-2:0"}),
		setting(func(c *serveCmd) *string { return &c.GossipListen }, "", ":0", "localhost:0", "127.0.0.1"),
		setting(func(c *serveCmd) *string { return &c.GossipAdvertise }, "10.0.0.1", "10.0.0.1:7946", "eu-1"),
		setting(func(c *serveCmd) *string { return &c.GossipKey }, "", "c2hvcnQ=", "!"),
		duration(func(c *serveCmd) *time.Duration { return &c.GossipRejoin }),
		setting(func(c *serveCmd) *string { return &c.PeerAdvertise }, "", "eu-1:7947", "eu-1"),
		setting(func(c *serveCmd) **url.URL { return &c.PeerProxy }, &url.URL{Scheme: "http", Host: "proxy:3128"}, &url.URL{Scheme: "ftp", Host: "proxy"}, &url.URL{}),
		duration(func(c *serveCmd) *time.Duration { return &c.PeerTimeout }),
		duration(func(c *serveCmd) *time.Duration { return &c.Deadline }),
		duration(func(c *serveCmd) *time.Duration { return &c.MaxDeadline }),
		duration(func(c *serveCmd) *time.Duration { return &c.DrainTimeout }),
		duration(func(c *serveCmd) *time.Duration { return &c.IdempotencyLifetime }),
		number(func(c *serveCmd) *int { return &c.CommitWorkers }),
		number(func(c *serveCmd) *int { return &c.CommitBatch }),
		number(func(c *serveCmd) *int { return &c.CommitQueue }),
		number(func(c *serveCmd) *int { return &c.ReadConnections }),
		number(func(c *serveCmd) *int { return &c.CountsVideos }),
		duration(func(c *serveCmd) *time.Duration { return &c.CountsRefresh }),
		duration(func(c *serveCmd) *time.Duration { return &c.CountsMaxAge }),
		duration(func(c *serveCmd) *time.Duration { return &c.CountsMaxStale }),
	)
}

// rightFlags are those of a node alone, or of one among others.
func rightFlags(alone bool) *serveCmd { //nolint:revive // drawn, or one of a table
	c := &serveCmd{Region: "eu", Name: "eu-1", Listen: "127.0.0.1:0", DatabaseURL: "postgres://x/y", JWTSecret: "abcdef0123456789abcdef0123456789"}
	if !alone {
		c.GossipListen, c.GossipKey, c.PeerListen = "127.0.0.1:0", gossipKey, "127.0.0.1:0"
		c.PeerCA, c.PeerCert, c.PeerKey = "ca.pem", "cert.pem", "key.pem"
	}
	return c
}

// What the flags' check lets through, no package refuses by the name of a field
// that nobody who types a flag has heard of.
func TestWhatTheFlagsAllowThePackagesAccept(t *testing.T) {
	t.Parallel()

	cert, key := selfSigned(t, &bench{dir: t.TempDir()})
	certPEM, keyPEM, err := readPair(given{"tls-cert", cert}, given{"tls-key", key})
	require.NoError(t, err)
	files := keyFiles{tlsCert: certPEM, tlsKey: keyPEM, peerCA: certPEM, peerCert: certPEM, peerKey: keyPEM}
	all := changes()

	t.Run("after every single change", func(t *testing.T) {
		t.Parallel()
		allowed := 0
		for _, alone := range []bool{true, false} {
			for _, change := range all {
				flags := rightFlags(alone)
				change(flags)
				if requireAccepted(t, flags, files) {
					allowed++
				}
			}
		}
		require.Greater(t, allowed, len(all)/2)
		require.Less(t, allowed, 2*len(all))
	})

	t.Run("after some", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			flags := rightFlags(rapid.Bool().Draw(t, "alone"))
			for range rapid.IntRange(0, 4).Draw(t, "changes") {
				all[rapid.IntRange(0, len(all)-1).Draw(t, "change")](flags)
			}
			requireAccepted(t, flags, files)
		})
	})
}

// requireAccepted reports whether the flags' check allows them, and wants the
// packages to accept them then.
func requireAccepted(t require.TestingT, flags *serveCmd, files keyFiles) bool {
	if flags.Region == "" || flags.DatabaseURL == "" || flags.check() != nil {
		return false
	}
	n := &node{flags: flags.withDefaults(), files: files, front: &net.TCPListener{}, peers: &net.TCPListener{}}
	require.NoError(t, n.storageConfig().Validate())
	require.NoError(t, n.serverConfig().Validate())
	if !flags.alone() {
		require.NoError(t, gossipOf(t, n).Validate())
	}
	return true
}

func gossipOf(t require.TestingT, n *node) routing.GossipConfig {
	key, err := n.flags.gossipKey()
	require.NoError(t, err)
	topology, err := routing.NewTopology(1, routing.Contiguous([]routing.Region{"eu"}))
	require.NoError(t, err)
	return n.gossipConfig(routing.Node{Name: n.flags.Name, Region: "eu", Incarnation: 1}, key, topology)
}
