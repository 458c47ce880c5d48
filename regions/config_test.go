package regions

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func containsLine(text, line string) bool { return slices.Contains(strings.Split(text, "\n"), line) }

func TestConfigNamesWhatToChange(t *testing.T) {
	t.Parallel()
	peers := newTestCA(t).peersConfig(t)
	good := Config{Node: "n1", Region: "here", Auth: AuthConfig{Secret: testSecret}, Peers: peers}
	require.NoError(t, good.Validate())
	for field, spoil := range map[string]func(*Config){
		"Node":                func(c *Config) { c.Node = "" },
		"Region":              func(c *Config) { c.Region = "not a name" },
		"Auth.Secret":         func(c *Config) { c.Auth.Secret = testSecret[:31] },
		"Auth.Leeway":         func(c *Config) { c.Auth.Leeway = -1 },
		"Deadline":            func(c *Config) { c.Deadline = -1 },
		"MaxDeadline":         func(c *Config) { c.MaxDeadline = time.Second },
		"DrainTimeout":        func(c *Config) { c.DrainTimeout = -1 },
		"Counts.Videos":       func(c *Config) { c.Counts.Videos = -1 },
		"Counts.RefreshAfter": func(c *Config) { c.Counts.RefreshAfter = -1 },
		"Counts.MaxStale":     func(c *Config) { c.Counts.MaxStale = time.Second },
		"Counts.LoadTimeout":  func(c *Config) { c.Counts.LoadTimeout = -1 },
		"Counts.BesideWrite":  func(c *Config) { c.Counts.BesideWrite = -1 },
		"Peers.Listen":        func(c *Config) { c.Peers.Listen = "" },
		"Peers.CA":            func(c *Config) { c.Peers.CA = nil },
		"Peers.Cert":          func(c *Config) { c.Peers.Cert = nil },
		"Peers.HopTimeout":    func(c *Config) { c.Peers.HopTimeout = -1 },
		"Peers.Proxy":         func(c *Config) { c.Peers.Proxy = &url.URL{Scheme: "socks5", Host: "h:1"} },
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			bad, copied := good, *peers
			bad.Peers = &copied
			spoil(&bad)
			require.ErrorContains(t, bad.Validate(), field+": ")
		})
	}
}

func TestNewSaysWhatItCannotOpen(t *testing.T) {
	t.Parallel()
	taken := startNode(t, "n1")
	cfg := Config{Node: "n2", Region: "here", Listen: taken.FrontAddr(), Auth: AuthConfig{Secret: testSecret}}
	_, err := New(cfg, Deps{Store: taken.store, Routes: taken.routes})
	require.ErrorContains(t, err, "Listen ")
	_, err = New(cfg, Deps{})
	require.ErrorContains(t, err, "Store and Routes")
}
