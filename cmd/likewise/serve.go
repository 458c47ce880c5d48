package main

import (
	"cmp"
	"context"
	"io"
	"net/url"
	"os"
	"sync"
	"time"
)

type serveCmd struct {
	Region      string `required:"" placeholder:"R" group:"self" help:"The region in which this node runs: one of those that the database was migrated with."`
	Name        string `placeholder:"N" group:"self" help:"The node's name, unique among all that run; it should stay the same over restarts, as slots follow it. Default: the host's name."`
	Listen      string `default:"127.0.0.1:8080" placeholder:"ADDR" group:"self" help:"host:port for users, who call by Connect, gRPC, gRPC-Web or REST, over HTTP/1.1 or HTTP/2; also /metrics, health and reflection. Port 0 takes a free one. Default ${default}."`
	DatabaseURL string `required:"" placeholder:"URL" group:"self" help:"The writer's database: postgres://user:password@host:port/name. Better given in the environment than on the command line, where every user of the machine reads it."`
	LogFormat   string `default:"json" enum:"json,console" group:"self" help:"json or console. Default ${default}."`
	LogLevel    string `default:"info" enum:"debug,info,warn,error" group:"self" help:"debug, info, warn or error. What is logged before the node serves is written once it does, and not at all if it cannot, but for debug. Default ${default}."`

	TLSCert     string   `name:"tls-cert" placeholder:"FILE" type:"path" group:"http" help:"PEM certificate chain with which --listen speaks TLS. Default: plaintext, for a machine or a proxy of your own in front."`
	TLSKey      string   `name:"tls-key" placeholder:"FILE" type:"path" group:"http" help:"PEM private key of --tls-cert."`
	CORSOrigins []string `name:"cors-origins" placeholder:"ORIGIN" group:"http" help:"Web pages that may call from a browser with their visitors' tokens, such as https://www.example.com. No wildcard. Default: none but those of this node's own origin."`

	JWTSecret     string        `name:"jwt-secret" placeholder:"SECRET" group:"auth" help:"Secret of bearer tokens by HS256, at least 32 bytes. Better given in the environment than on the command line, where every user of the machine reads it."`
	JWKSFile      string        `name:"jwks-file" placeholder:"FILE" type:"path" group:"auth" help:"File with a JSON Web Key Set: public keys of bearer tokens. It may be replaced at any time."`
	JWKSURL       string        `name:"jwks-url" placeholder:"URL" group:"auth" help:"Where a JSON Web Key Set is fetched, by https://."`
	JWKSRefresh   time.Duration `name:"jwks-refresh" default:"5m" group:"auth" help:"Time between two fetches of --jwks-url, and so how long a key that was withdrawn still counts. A token with an unknown key causes one, at most every 10s. 0 takes the default, ${default}."`
	JWTIssuer     string        `name:"jwt-issuer" placeholder:"ISS" group:"auth" help:"The claim iss that every token must carry. Default: any."`
	JWTAudience   []string      `name:"jwt-audience" placeholder:"AUD" group:"auth" help:"Names of this service, one of which must be in the claim aud of every token. Default: any, so that tokens made for other services count as well."`
	JWTAlgorithms []string      `name:"jwt-algorithms" placeholder:"ALG" group:"auth" help:"How tokens may be signed: HS256 with --jwt-secret; RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA with a key set. Default: HS256 with the one, RS256, ES256 and EdDSA with the other."`
	JWTLeeway     time.Duration `name:"jwt-leeway" default:"30s" group:"auth" help:"By how much the clocks of this node and of the tokens' issuer may differ. 0 takes the default, ${default}."`
	DevSecret     bool          `group:"auth" help:"Use a secret that everybody knows, so that \"likewise token\" mints tokens for anybody. Never where others can call."`
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
	return `A node runs alone on a database of its own, which it prepares itself:

  likewise serve --region eu --database-url postgres://likewise@db/likewise --dev-secret

With tokens of your own login, TLS, and a web page that calls from browsers:

  likewise serve --region eu --database-url … --listen :443 --tls-cert eu.pem --tls-key eu.key --jwks-url https://login.example.com/jwks.json --jwt-issuer https://login.example.com --jwt-audience likewise --cors-origins https://www.example.com

As one of several:

  likewise migrate --database-url … --regions eu,us,ap
  likewise serve --region eu --name eu-1 --database-url … --join eu-2:7946,us-1:7946 --gossip-key … --peer-advertise eu-1:7947 --peer-ca ca.pem --peer-cert eu-1.pem --peer-key eu-1.key

Bearer tokens are JWTs: the claim sub names the user, and the claim scope may hold likewise:admin or likewise:service. At least one of --jwt-secret, --jwks-file and --jwks-url says whose count.

A node that cannot start says why in one line, and logs nothing. Otherwise it logs a line "serving" with its addresses. Among others it may still have to end in its first seconds, if its name is taken, its gossip key is another one, or the others use another database: then that line comes last. SIGTERM, SIGINT or SIGHUP makes it leave the map, finish what it has and end; a second one ends it at once.`
}

const (
	defaultGossipListen = "0.0.0.0:7946"
	defaultPeerListen   = "0.0.0.0:7947"
)

// alone reports whether the node runs without others.
func (c *serveCmd) alone() bool { return len(c.Join) == 0 && c.GossipListen == "" }

// withDefaults fills in what depends on the machine and on other flags.
func (c *serveCmd) withDefaults() serveCmd {
	d := *c
	if d.Name == "" {
		d.Name, _ = os.Hostname() // an empty one is refused by name
	}
	if !d.alone() {
		d.GossipListen = cmp.Or(d.GossipListen, defaultGossipListen)
		d.PeerListen = cmp.Or(d.PeerListen, defaultPeerListen)
	}
	return d
}

// Run serves until ctx ends.
func (c *serveCmd) Run(ctx context.Context, std streams) error {
	flags := c.withDefaults()
	files, err := flags.readFiles()
	if err != nil {
		return usage(err)
	}
	held := &heldWriter{to: std.err, open: flags.LogLevel == "debug"}
	log := newLogger(held, flags.LogFormat, flags.LogLevel)
	n, err := newNode(ctx, flags, files, log, held.release)
	if err != nil {
		return flags.explain(err)
	}
	defer n.close()
	if err := n.run(ctx); err != nil {
		return flags.explain(err)
	}
	held.release() // stopped before it served
	return nil
}

// heldWriter keeps what a node logs while it starts: if it cannot, one line says
// why, and nothing stands around it. It is safe for concurrent use.
type heldWriter struct {
	mu   sync.Mutex
	to   io.Writer
	held []byte // guarded by mu
	open bool   // guarded by mu
}

func (h *heldWriter) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open {
		return h.to.Write(p)
	}
	h.held = append(h.held, p...)
	return len(p), nil
}

// release writes what was held, and from now on everything at once.
func (h *heldWriter) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.open {
		h.open = true
		_, _ = h.to.Write(h.held) // a log that cannot be written has nobody to be told
		h.held = nil
	}
}
