package main

import (
	"cmp"
	"encoding/base64"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"likewise/regions"
	"likewise/routing"
	"likewise/storage"
)

// minSecret is the length of an HMAC-SHA256 key that loses no strength.
const minSecret = 32

// check implements checker.
func (c *serveCmd) check() error {
	d := c.withDefaults()
	return gather(d.checkSelf(), d.checkHTTP(), d.checkAuth(), d.checkPeers(), d.checkLimits(), d.checkCounts())
}

func (c *serveCmd) checkSelf() error {
	var errs []error
	if err := routing.Region(c.Region).Validate(); err != nil {
		errs = append(errs, wrongf("region", "%w", err))
	}
	if err := (routing.Node{Name: c.Name, Region: "any", Incarnation: 1}).Validate(); err != nil {
		errs = append(errs, wrongf("name", "%w", err))
	}
	if c.Listen == "" { // as of a variable that is set and empty
		errs = append(errs, wrongf("listen", "is empty: want host:port, such as 127.0.0.1:8080, or leave it out"))
	}
	if c.DatabaseURL == "" {
		errs = append(errs, wrongf("database-url", "is empty: want postgres://user:password@host:port/database"))
	}
	return gather(append(errs, checkListen("listen", c.Listen), checkDatabase("database-url", c.DatabaseURL))...)
}

// checkDatabase says nothing of the URL itself, which may hold a password.
func checkDatabase(flag, text string) error {
	if text == "" || (storage.Config{URL: text}).Validate() == nil {
		return nil
	}
	return wrongf(flag, "want postgres://user:password@host:port/database, with / @ : # ? %% in a password written as %%2F %%40 %%3A %%23 %%3F %%25")
}

// checkListen wants host:port, where no host is all interfaces.
func checkListen(flag, addr string) error {
	if _, ok := portOf(addr); ok || addr == "" {
		return nil
	}
	return wrongf(flag, "want host:port, such as 127.0.0.1:8080 or :8080, have %q", addr)
}

// portOf returns the port of a host:port.
func portOf(addr string) (uint64, bool) {
	_, number, err := net.SplitHostPort(addr)
	if err != nil {
		return 0, false
	}
	port, err := strconv.ParseUint(number, 10, 16)
	return port, err == nil
}

func (c *serveCmd) checkHTTP() error {
	var errs []error
	if (c.TLSCert == "") != (c.TLSKey == "") {
		missing := map[bool]string{true: "tls-cert", false: "tls-key"}[c.TLSCert == ""]
		errs = append(errs, wrongf(missing, "is missing: --tls-cert and --tls-key go together"))
	}
	for _, origin := range c.CORSOrigins {
		if err := regions.CheckOrigin(origin); err != nil {
			errs = append(errs, wrongf("cors-origins", "%w", err))
		}
	}
	return gather(errs...)
}

func (c *serveCmd) checkAuth() error {
	return gather(c.checkSecret(), c.checkKeySet(), c.checkAlgorithms(), c.checkAudience(),
		notNegative("jwks-refresh", c.JWKSRefresh), notNegative("jwt-leeway", c.JWTLeeway))
}

func (c *serveCmd) hasKeySet() bool { return c.JWKSFile != "" || c.JWKSURL != "" }

func (c *serveCmd) checkSecret() error {
	switch {
	case c.DevSecret && c.JWTSecret != "":
		return disagreef([]string{"dev-secret", "jwt-secret"}, "and --jwt-secret exclude each other: leave one out")
	case c.DevSecret && c.hasKeySet():
		return disagreef([]string{"dev-secret", "jwks-file", "jwks-url"}, "leave it out: with it everybody can sign, whatever key set there is")
	case c.JWTSecret == "" && !c.DevSecret && !c.hasKeySet():
		return disagreef([]string{"jwt-secret", "jwks-file", "jwks-url"}, "give it, or --jwks-file, or --jwks-url: one must say whose tokens count; on your own machine --dev-secret will do")
	case c.JWTSecret != "" && len(c.JWTSecret) < minSecret:
		return wrongf("jwt-secret", "want at least %d bytes, have %d; \"openssl rand -base64 32\" prints a good one", minSecret, len(c.JWTSecret))
	default:
		return nil
	}
}

func (c *serveCmd) checkKeySet() error {
	if c.JWKSURL == "" {
		return nil
	}
	if err := regions.CheckKeysURL(c.JWKSURL); err != nil {
		return wrongf("jwks-url", "%w", err)
	}
	return nil
}

func (c *serveCmd) checkAudience() error {
	if slices.Contains(c.JWTAudience, "") {
		return wrongf("jwt-audience", "want names, have an empty one")
	}
	return nil
}

const hs256 = "HS256"

func (c *serveCmd) checkAlgorithms() error {
	if len(c.JWTAlgorithms) == 0 {
		return nil
	}
	const flag = "jwt-algorithms"
	public := []string{"ES256", "ES384", "ES512", "EdDSA", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"}
	hasSecret := c.JWTSecret != "" || c.DevSecret
	var errs []error
	for _, name := range c.JWTAlgorithms {
		switch {
		case name != hs256 && !slices.Contains(public, name):
			errs = append(errs, wrongf(flag, "want some of HS256, %s, have %q", strings.Join(public, ", "), name))
		case name == hs256 && !hasSecret:
			errs = append(errs, wrongf(flag, "HS256 needs --jwt-secret"))
		case name != hs256 && !c.hasKeySet():
			errs = append(errs, wrongf(flag, "%s needs --jwks-file or --jwks-url", name))
		}
	}
	if hasSecret && !slices.Contains(c.JWTAlgorithms, hs256) {
		errs = append(errs, wrongf(flag, "add HS256, or leave the secret out: nothing else is signed with it"))
	}
	if c.hasKeySet() && !slices.ContainsFunc(c.JWTAlgorithms, func(name string) bool { return name != hs256 }) {
		errs = append(errs, wrongf(flag, "add RS256 or another algorithm of public keys, or leave the key set out"))
	}
	return gather(errs...)
}

func (c *serveCmd) checkPeers() error {
	if c.alone() {
		return c.checkAlone()
	}
	return gather(
		c.checkTogether(),
		c.checkGossip(),
		checkListen("peer-listen", c.PeerListen),
		c.checkPeerAdvertise(),
		c.checkProxy(),
		notNegative("gossip-rejoin", c.GossipRejoin),
		notNegative("peer-timeout", c.PeerTimeout),
	)
}

// given is the flag of a text, and the text.
type given struct{ flag, value string }

// checkAlone refuses what means nothing to a node without others.
func (c *serveCmd) checkAlone() error {
	var errs []error
	for _, g := range []given{
		{"gossip-key", c.GossipKey},
		{"gossip-advertise", c.GossipAdvertise},
		{"peer-listen", c.PeerListen},
		{"peer-advertise", c.PeerAdvertise},
		{"peer-ca", c.PeerCA},
		{"peer-cert", c.PeerCert},
		{"peer-key", c.PeerKey},
	} {
		if g.value != "" {
			errs = append(errs, wrongf(g.flag, "means nothing without --join or --gossip-listen: add one, or leave it out"))
		}
	}
	return gather(errs...)
}

// checkTogether wants what a node among others needs.
func (c *serveCmd) checkTogether() error {
	var errs []error
	for _, g := range []given{
		{"gossip-key", c.GossipKey},
		{"peer-ca", c.PeerCA},
		{"peer-cert", c.PeerCert},
		{"peer-key", c.PeerKey},
	} {
		if g.value == "" {
			errs = append(errs, wrongf(g.flag, "is missing: a node with --join or --gossip-listen needs it"))
		}
	}
	return gather(errs...)
}

func (c *serveCmd) checkGossip() error {
	var errs []error
	if _, err := c.gossipKey(); c.GossipKey != "" {
		errs = append(errs, err)
	}
	if _, err := netip.ParseAddrPort(anyHost(c.GossipListen)); err != nil {
		errs = append(errs, wrongf("gossip-listen", "want IP:port, such as 0.0.0.0:7946, have %q", c.GossipListen))
	}
	_, ipErr := netip.ParseAddr(c.GossipAdvertise)
	_, portErr := netip.ParseAddrPort(c.GossipAdvertise)
	if c.GossipAdvertise != "" && ipErr != nil && portErr != nil {
		errs = append(errs, wrongf("gossip-advertise", "want IP or IP:port, have %q", c.GossipAdvertise))
	}
	for _, seed := range c.Join {
		if !isRemote(seed) {
			errs = append(errs, wrongf("join", "want host:port of each node, such as eu-2:7946, have %q", seed))
		}
	}
	return gather(errs...)
}

func anyHost(addr string) string {
	if strings.HasPrefix(addr, ":") {
		return "0.0.0.0" + addr
	}
	return addr
}

// isRemote reports whether somebody can be called at host:port.
func isRemote(addr string) bool {
	host, _, _ := net.SplitHostPort(addr)
	port, ok := portOf(addr)
	return ok && port > 0 && host != ""
}

func (c *serveCmd) gossipKey() ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(c.GossipKey)
	if n := len(key); err != nil || n != 16 && n != 24 && n != 32 {
		return nil, wrongf("gossip-key", "want 16, 24 or 32 bytes in base64, such as \"openssl rand -base64 32\" prints")
	}
	return key, nil
}

func (c *serveCmd) checkPeerAdvertise() error {
	switch {
	case c.PeerAdvertise != "" && !isRemote(c.PeerAdvertise):
		return wrongf("peer-advertise", "want host:port, such as eu-1:7947, have %q", c.PeerAdvertise)
	case everywhere(cmp.Or(c.PeerAdvertise, c.PeerListen)):
		return disagreef([]string{"peer-advertise", "peer-listen"}, "say at which host:port other nodes reach this one: --peer-listen %s takes calls at every address, which tells them none", c.PeerListen)
	default:
		return nil
	}
}

// everywhere reports whether an address names all interfaces and no one host.
func everywhere(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip, ipErr := netip.ParseAddr(host)
	return err == nil && (host == "" || ipErr == nil && ip.IsUnspecified())
}

// checkProxy says nothing of the URL itself, which may hold a password.
func (c *serveCmd) checkProxy() error {
	if c.PeerProxy == nil || c.PeerProxy.Scheme == "http" && c.PeerProxy.Host != "" {
		return nil
	}
	return wrongf("peer-proxy", "want http://host:port")
}

func (c *serveCmd) checkLimits() error {
	deadline, most := cmp.Or(c.Deadline, 5*time.Second), cmp.Or(c.MaxDeadline, 30*time.Second)
	var errs []error
	if most < deadline {
		errs = append(errs, disagreef([]string{"max-deadline", "deadline"}, "want at least --deadline (%s), have %s", deadline, most))
	}
	return gather(append(errs,
		notNegative("deadline", c.Deadline),
		notNegative("max-deadline", c.MaxDeadline),
		notNegative("drain-timeout", c.DrainTimeout),
		notNegative("idempotency-lifetime", c.IdempotencyLifetime),
		between("commit-workers", c.CommitWorkers, storage.Slots),
		between("commit-batch", c.CommitBatch, 100_000),
		between("commit-queue", c.CommitQueue, 1_000_000),
		between("read-connections", c.ReadConnections, 10_000),
	)...)
}

func (c *serveCmd) checkCounts() error {
	age, stale := cmp.Or(c.CountsMaxAge, 2*time.Second), cmp.Or(c.CountsMaxStale, 60*time.Second)
	var errs []error
	if stale < age {
		errs = append(errs, disagreef([]string{"counts-max-stale", "counts-max-age"}, "want at least --counts-max-age (%s), have %s", age, stale))
	}
	return gather(append(errs,
		between("counts-videos", c.CountsVideos, 1_000_000_000),
		notNegative("counts-refresh", c.CountsRefresh),
		notNegative("counts-max-age", c.CountsMaxAge),
		notNegative("counts-max-stale", c.CountsMaxStale),
	)...)
}

// notNegative wants a duration, where 0 takes the default.
func notNegative(flag string, d time.Duration) error {
	if d >= 0 {
		return nil
	}
	return wrongf(flag, "want more than 0, or 0 for the default, have %s", d)
}

// between wants 1 to most, where 0 takes the default.
func between(flag string, n, most int) error {
	if n >= 0 && n <= most {
		return nil
	}
	return wrongf(flag, "want 1 to %d, or 0 for the default, have %d", most, n)
}
