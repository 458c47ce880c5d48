package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"time"

	"likewise/routing"
)

type serveCmd struct {
	Region      string `required:"" placeholder:"R" group:"self" help:"The region in which this node runs: one of those that the database was migrated with."`
	Name        string `placeholder:"N" group:"self" help:"The node's name, unique among all that run; it should stay the same over restarts, as slots follow it. Default: the host's name."`
	Listen      string `default:"127.0.0.1:8080" placeholder:"ADDR" group:"self" help:"host:port for users, who call by Connect, gRPC or JSON, over HTTP/1.1 or HTTP/2 without TLS; also /metrics, health and reflection. Port 0 takes a free one. Default ${default}."`
	DatabaseURL string `required:"" placeholder:"URL" group:"self" help:"The writer's database: postgres://user:password@host:port/name."`
	LogFormat   string `default:"json" enum:"json,console" group:"self" help:"json or console. Default ${default}."`
	LogLevel    string `default:"info" enum:"debug,info,warn,error" group:"self" help:"debug, info, warn or error. Default ${default}."`

	JWTSecret     string        `placeholder:"SECRET" group:"auth" help:"Secret of the callers' bearer tokens: JWT, HS256, with the user's id as sub. At least 32 bytes. Better given in the environment than on the command line, where every user of the machine reads it."`
	DevSecret     bool          `group:"auth" help:"Use a secret that everybody knows, so that \"likewise token\" mints tokens for anybody. Never where others can call."`
	JWTLeeway     time.Duration `default:"30s" group:"auth" help:"By how much the clocks of this node and of the tokens' issuer may differ. 0 takes the default, ${default}."`
	PrivateCounts bool          `group:"auth" help:"Ask for a token before answering counts as well. Default: counts are public."`

	Join            []string      `placeholder:"ADDR" group:"cluster" help:"Gossip addresses of other nodes, host:port. They are joined again and again for as long as this node runs, so they need not be up. None, and no --gossip-listen: the node runs alone, without gossip and without a peers' listener, and migrates its database itself."`
	GossipListen    string        `placeholder:"ADDR" group:"cluster" help:"IP:port for gossip, by TCP and UDP. Port 0 takes a free one. Default: 0.0.0.0:7946 if --join is given."`
	GossipAdvertise string        `placeholder:"ADDR" group:"cluster" help:"IP or IP:port at which others reach --gossip-listen. Default: the address that was bound."`
	GossipKey       string        `placeholder:"BASE64" group:"cluster" help:"Encrypts gossip: 16, 24 or 32 random bytes in base64, the same on every node (\"openssl rand -base64 32\")."`
	GossipRejoin    time.Duration `default:"5s" group:"cluster" help:"Time between two rounds of joining nodes that are missing. It bounds how long a healed cut goes unnoticed. 0 takes the default, ${default}."`

	PeerListen    string        `placeholder:"ADDR" group:"cluster" help:"host:port for calls of other nodes, by TLS with certificates on both sides. Port 0 takes a free one. Default: 0.0.0.0:7947 if --join is given."`
	PeerAdvertise string        `placeholder:"ADDR" group:"cluster" help:"host:port at which others reach --peer-listen. Default: the address that was bound; needed if that is all interfaces."`
	PeerCA        string        `placeholder:"FILE" type:"path" group:"cluster" help:"PEM certificates of the CA that all nodes trust."`
	PeerCert      string        `placeholder:"FILE" type:"path" group:"cluster" help:"PEM certificate of this node, for the DNS name peer.likewise.internal, for client and server use."`
	PeerKey       string        `placeholder:"FILE" type:"path" group:"cluster" help:"PEM private key of --peer-cert."`
	PeerProxy     *url.URL      `placeholder:"URL" group:"cluster" help:"HTTP proxy, http://host:port, through which calls to other nodes go, by CONNECT. Default: none; HTTPS_PROXY is not consulted."`
	PeerTimeout   time.Duration `default:"1s" group:"cluster" help:"Bounds one call to another node. After it the outcome is unknown. 0 takes the default, ${default}."`

	Deadline     time.Duration `default:"5s" group:"limits" help:"Deadline of a call that brings none. 0 takes the default, ${default}."`
	MaxDeadline  time.Duration `default:"30s" group:"limits" help:"Caps the deadline that a caller brings. 0 takes the default, ${default}."`
	DrainTimeout time.Duration `default:"10s" group:"limits" help:"How long calls in flight may take once the node was told to stop. 0 takes the default, ${default}."`

	CommitWorkers       int           `default:"3" placeholder:"N" group:"limits" help:"Transactions in flight. Each worker owns a part of the slots. 0 takes the default, ${default}."`
	CommitBatch         int           `default:"512" placeholder:"N" group:"limits" help:"Most reactions of one transaction. 0 takes the default, ${default}."`
	CommitQueue         int           `default:"4096" placeholder:"N" group:"limits" help:"Most reactions that wait at one worker; more are refused at once as RESOURCE_EXHAUSTED. 0 takes the default, ${default}."`
	IdempotencyLifetime time.Duration `default:"24h" group:"limits" help:"How long the result of a write with an idempotency key is kept. 0 takes the default, ${default}."`
	ReadConnections     int           `default:"8" placeholder:"N" group:"limits" help:"Most database connections for reads; --commit-workers decides those for writes. 0 takes the default, ${default}."`

	CountsVideos   int           `default:"100000" placeholder:"N" group:"counts" help:"Most videos whose counts are cached. 0 takes the default, ${default}."`
	CountsRefresh  time.Duration `default:"300ms" group:"counts" help:"Age at which counts are still answered and loaded anew behind the answer. 0 takes the default, ${default}."`
	CountsMaxAge   time.Duration `default:"2s" group:"counts" help:"Age up to which counts are answered at once to callers who give no bound. 0 takes the default, ${default}."`
	CountsMaxStale time.Duration `default:"60s" group:"counts" help:"Age up to which such callers get counts while the database cannot be read. 0 takes the default, ${default}."`
}

func (*serveCmd) Help() string {
	return `A node runs alone on a database of its own, or as one of several:

  likewise serve --region eu --database-url postgres://likewise@db/likewise --dev-secret

  likewise migrate --database-url … --regions eu,us,ap
  likewise serve --region eu --name eu-1 --database-url … --join eu-2:7946,us-1:7946 --gossip-key … --peer-advertise eu-1:7947 --peer-ca ca.pem --peer-cert eu-1.pem --peer-key eu-1.key

Once it serves it logs one line "serving" with its addresses. SIGTERM or SIGINT makes it leave the map, finish what it has and end; a second one ends it at once.`
}

const (
	defaultGossipListen = "0.0.0.0:7946"
	defaultPeerListen   = "0.0.0.0:7947"
	minSecret           = 32
)

// alone reports whether the node runs without others.
func (c *serveCmd) alone() bool { return len(c.Join) == 0 && c.GossipListen == "" }

// Validate is called by kong. It names every flag that is missing or wrong.
func (c *serveCmd) Validate() error {
	var errs []error
	if err := routing.Region(c.Region).Validate(); c.Region != "" && err != nil {
		errs = append(errs, fmt.Errorf("--region: %w", err))
	}
	switch {
	case c.DevSecret && c.JWTSecret != "":
		errs = append(errs, errors.New("--jwt-secret and --dev-secret exclude each other: leave one out"))
	case !c.DevSecret && len(c.JWTSecret) < minSecret:
		errs = append(errs, fmt.Errorf("--jwt-secret: want at least %d bytes, have %d; on your own machine --dev-secret will do", minSecret, len(c.JWTSecret)))
	}
	return errors.Join(append(errs, c.validatePeers())...)
}

func (c *serveCmd) validatePeers() error {
	var errs []error
	for flag, value := range map[string]string{
		"--gossip-key": c.GossipKey, "--peer-ca": c.PeerCA, "--peer-cert": c.PeerCert, "--peer-key": c.PeerKey,
	} {
		switch {
		case c.alone() && value != "":
			errs = append(errs, fmt.Errorf("%s: means nothing without --join or --gossip-listen", flag))
		case !c.alone() && value == "":
			errs = append(errs, fmt.Errorf("%s: is needed with --join and --gossip-listen", flag))
		}
	}
	if _, err := c.gossipKey(); c.GossipKey != "" && err != nil {
		errs = append(errs, err)
	}
	if c.alone() && c.PeerListen != "" {
		errs = append(errs, errors.New("--peer-listen: means nothing without --join or --gossip-listen"))
	}
	return errors.Join(errs...)
}

func (c *serveCmd) gossipKey() ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(c.GossipKey)
	if n := len(key); err != nil || n != 16 && n != 24 && n != 32 {
		return nil, errors.New("--gossip-key: want 16, 24 or 32 bytes in base64, such as \"openssl rand -base64 32\" prints")
	}
	return key, nil
}

func (c *serveCmd) withDefaults() (serveCmd, error) {
	d := *c
	if d.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return d, usageErrorf("--name: is needed, as this host does not know its own: %w", err)
		}
		d.Name = host
	}
	if !d.alone() {
		d.GossipListen = orElse(d.GossipListen, defaultGossipListen)
		d.PeerListen = orElse(d.PeerListen, defaultPeerListen)
		if everywhere(orElse(d.PeerAdvertise, d.PeerListen)) {
			return d, usageErrorf("--peer-advertise: say at which host:port other nodes reach this one; --peer-listen %s takes calls at every address, which tells them none", d.PeerListen)
		}
	}
	return d, nil
}

// everywhere reports whether an address names all interfaces and no one host.
func everywhere(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip, ipErr := netip.ParseAddr(host)
	return err == nil && (host == "" || ipErr == nil && ip.IsUnspecified())
}

func orElse(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}

// Run serves until ctx ends.
func (c *serveCmd) Run(ctx context.Context, std streams) error {
	flags, err := c.withDefaults()
	if err != nil {
		return err
	}
	log := newLogger(std.err, flags.LogFormat, flags.LogLevel)
	if flags.DevSecret {
		log.Warn("--dev-secret: everybody knows this node's secret and can act as any user; never use it where others can call")
	}
	n, err := newNode(ctx, flags, log)
	if err != nil {
		return err
	}
	defer n.close()
	return n.run(ctx)
}
