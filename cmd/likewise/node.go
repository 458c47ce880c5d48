package main

import (
	"cmp"
	"context"
	"io"
	"net"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/errgroup"

	"likewise/regions"
	"likewise/routing"
	"likewise/storage"
)

// node is everything that runs in a serving process.
type node struct {
	flags    serveCmd
	log      *zap.Logger
	registry *prometheus.Registry

	store  *storage.Store
	front  net.Listener
	peers  net.Listener    // nil if the node runs alone
	gossip *routing.Gossip // nil if the node runs alone
	routes mapSource       // gossip's, or fixed if the node runs alone
	server *regions.Server
	files  keyFiles

	started func() // called once the node serves
}

// newNode opens and wires everything, and starts nothing. What it opened
// before an error it closes. run calls started.
func newNode(ctx context.Context, flags serveCmd, files keyFiles, log *zap.Logger, started func()) (_ *node, err error) {
	n := &node{
		started:  started,
		flags:    flags,
		files:    files,
		log:      log.With(zap.String("node", flags.Name), zap.String("region", flags.Region)),
		registry: prometheus.NewRegistry(),
	}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	n.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if n.store, err = storage.Open(ctx, n.storageConfig()); err != nil {
		return nil, err
	}
	if err := n.listen(ctx); err != nil { // before anything is written
		return nil, err
	}
	topology, err := n.topology(ctx)
	if err != nil {
		return nil, err
	}
	if err := n.store.CheckRights(ctx); err != nil {
		return nil, err
	}
	if n.gossip, err = n.newGossip(ctx, topology); err != nil {
		return nil, err
	}
	if n.server, err = n.newServer(topology); err != nil {
		return nil, err
	}
	return n, n.server.LoadKeys(ctx)
}

// close closes what run has not. It is safe after a partial newNode.
func (n *node) close() {
	for _, ln := range []net.Listener{n.front, n.peers} {
		if ln != nil {
			ln.Close() // closed already, if the server ran
		}
	}
	if n.store != nil {
		n.store.Close()
	}
}

func (n *node) storageConfig() storage.Config {
	return storage.Config{
		URL: n.flags.DatabaseURL,
		Committer: storage.CommitterConfig{
			Workers:     n.flags.CommitWorkers,
			BatchLimit:  n.flags.CommitBatch,
			QueueLimit:  n.flags.CommitQueue,
			KeyLifetime: n.flags.IdempotencyLifetime,

			RequestTimeout: n.flags.MaxDeadline,
			DrainTimeout:   n.flags.DrainTimeout,
			ColdSlot:       n.coldSlot,
		},
		ReadConnections: n.flags.ReadConnections,
		Registerer:      n.registry,
		Log:             n.log,
	}
}

// coldSlot counts a cold video in one shard per region, the region's lowest
// slot, so that a count read touches few rows.
func (n *node) coldSlot(slot storage.Slot) storage.Slot {
	topology := n.routes.Map().Topology()
	lowest, ok := topology.LowestSlot(topology.Home(routing.Slot(slot))) //nolint:gosec // 0 to 255
	if !ok {
		return slot // every slot has a home, so this does not happen; any choice is right
	}
	return storage.Slot(lowest)
}

// topology reads the topology. A node that runs alone migrates its database
// first; with others around, that is a step of its own.
func (n *node) topology(ctx context.Context) (routing.Topology, error) {
	self := n.flags.Region
	about := []string{"region", "database-url"}
	if n.flags.alone() {
		topology, err := migrate(ctx, n.store, []string{self})
		if err == nil && !sameRegions(topology, []string{self}) {
			err = usage(disagreef(about, "this database serves the regions %s, and a node without --join would serve %s alone: name another database, or the other nodes by --join", names(topology), self))
		}
		return topology, err
	}
	topology, err := readTopology(ctx, n.store)
	if err == nil && !slices.Contains(topology.Regions(), routing.Region(self)) {
		err = usage(disagreef(about, "this database serves the regions %s, and %s is none of them: name one of those, or another database", names(topology), self))
	}
	return topology, err
}

func (n *node) listen(ctx context.Context) (err error) {
	if n.front, err = listen(ctx, "listen", n.flags.Listen); err != nil || n.flags.alone() {
		return err
	}
	if n.peers, err = listen(ctx, "peer-listen", n.flags.PeerListen); err != nil {
		return err
	}
	return tryGossip(ctx, n.flags.GossipListen)
}

// tryGossip looks whether gossip can listen, as it does itself a moment later
// without saying why it cannot.
func tryGossip(ctx context.Context, addr string) error {
	stream, err := listen(ctx, "gossip-listen", addr)
	if err != nil {
		return err
	}
	defer stream.Close()
	var lc net.ListenConfig
	packets, err := lc.ListenPacket(ctx, "udp", addr)
	if err != nil {
		return explainListen("gossip-listen", addr, err)
	}
	return packets.Close()
}

func listen(ctx context.Context, flag, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, explainListen(flag, addr, err)
	}
	return ln, nil
}

func (n *node) self() routing.Node {
	self := routing.Node{Name: n.flags.Name, Region: routing.Region(n.flags.Region), FrontAddr: n.front.Addr().String()}
	if n.peers != nil {
		self.PeerAddr = cmp.Or(n.flags.PeerAdvertise, n.peers.Addr().String())
	}
	return self
}

// newGossip returns nil if the node runs alone.
func (n *node) newGossip(ctx context.Context, initial routing.Topology) (*routing.Gossip, error) {
	if n.flags.alone() {
		return nil, nil
	}
	key, err := n.flags.gossipKey()
	if err != nil {
		return nil, err
	}
	self := n.self()
	incarnation, err := n.store.NextIncarnation(ctx, self.Name)
	if err != nil {
		return nil, err
	}
	self.Incarnation = uint64(incarnation) //nolint:gosec // counts up from 1
	return routing.NewGossip(n.gossipConfig(self, key, initial))
}

func (n *node) gossipConfig(self routing.Node, key []byte, initial routing.Topology) routing.GossipConfig {
	return routing.GossipConfig{
		Self:          self,
		BindAddr:      n.flags.GossipListen,
		AdvertiseAddr: n.flags.GossipAdvertise,
		Seeds:         n.flags.Join,
		Key:           key,
		Topology:      func(ctx context.Context) (routing.Topology, error) { return readTopology(ctx, n.store) },
		Initial:       initial,
		RejoinEvery:   n.flags.GossipRejoin,
		Log:           n.log,
		Registerer:    n.registry,
	}
}

// mapSource answers the map of the moment.
type mapSource interface{ Map() *routing.Map }

func (n *node) newServer(topology routing.Topology) (*regions.Server, error) {
	n.routes = routing.NewStatic(routing.SingleNode(topology, n.self()))
	if n.gossip != nil {
		n.routes = n.gossip
	}
	deps := regions.Deps{
		Store:      n.store,
		Routes:     n.routes,
		Log:        n.log,
		Registerer: n.registry,
		Gatherer:   n.registry,
	}
	if n.gossip != nil {
		deps.AnnounceLeaving = n.gossip.Leave
	}
	return regions.New(n.serverConfig(), deps)
}

func (n *node) serverConfig() regions.Config {
	f := n.flags
	return regions.Config{
		Node:          f.Name,
		Region:        routing.Region(f.Region),
		Listener:      n.front,
		HTTP:          regions.HTTPConfig{CORSOrigins: f.CORSOrigins, TLSCert: n.files.tlsCert, TLSKey: n.files.tlsKey},
		Peers:         n.peersConfig(),
		Auth:          f.authConfig(),
		PrivateCounts: f.PrivateCounts,
		Deadline:      f.Deadline,
		MaxDeadline:   f.MaxDeadline,
		DrainTimeout:  f.DrainTimeout,
		Counts: regions.CountsConfig{
			Videos: f.CountsVideos, RefreshAfter: f.CountsRefresh, MaxAge: f.CountsMaxAge, MaxStale: f.CountsMaxStale,
		},
	}
}

func (c *serveCmd) authConfig() regions.AuthConfig {
	return regions.AuthConfig{
		Secret:      c.secret(),
		JWKSFile:    c.JWKSFile,
		JWKSURL:     c.JWKSURL,
		JWKSRefresh: c.JWKSRefresh,
		Issuer:      c.JWTIssuer,
		Audience:    c.JWTAudience,
		Algorithms:  c.JWTAlgorithms,
		Leeway:      c.JWTLeeway,
	}
}

func (c *serveCmd) secret() []byte {
	if c.DevSecret {
		return []byte(devSecret)
	}
	return []byte(c.JWTSecret)
}

// peersConfig returns nil if the node runs alone.
func (n *node) peersConfig() *regions.PeersConfig {
	if n.flags.alone() {
		return nil
	}
	return &regions.PeersConfig{
		Listener: n.peers, CA: n.files.peerCA, Cert: n.files.peerCert, Key: n.files.peerKey,
		Proxy: n.flags.PeerProxy, HopTimeout: n.flags.PeerTimeout,
	}
}

// run serves until ctx ends or a part fails. It ends in this order, each step
// bounded by its owner: the node leaves the map, calls in flight finish, what
// was accepted is committed, gossip stops. The pool is closed by close.
func (n *node) run(ctx context.Context) error {
	detached := context.WithoutCancel(ctx)
	committing, stopCommitting := context.WithCancel(detached)
	defer stopCommitting()
	gossiping, stopGossip := context.WithCancel(detached)
	defer stopGossip()

	g, serving := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer stopCommitting()
		return n.server.Run(serving)
	})
	g.Go(func() error {
		defer stopGossip()
		return n.store.Run(committing)
	})
	if n.gossip != nil {
		g.Go(func() error { return n.gossip.Run(gossiping) })
	}
	g.Go(func() error { return n.announce(serving) })
	err := g.Wait()
	n.log.Info("stopped", zap.Error(err))
	return err
}

// announce says that the node serves: its listeners are open. It runs beside
// the server, whose first calls wait in the listener's backlog at worst.
func (n *node) announce(ctx context.Context) error {
	fields := []zap.Field{zap.String("listen", n.front.Addr().String())}
	if n.flags.DevSecret {
		n.log.Warn("--dev-secret: everybody knows this node's secret and can act as any user; never use it where others can call")
	}
	if n.gossip != nil {
		addr, err := n.gossip.Addr(ctx)
		if err != nil {
			return nil //nolint:nilerr // stopped before gossip was up; what stopped it is the error
		}
		n.gossip.SetState(routing.Ready)
		fields = append(fields, zap.String("peer_listen", n.peers.Addr().String()), zap.String("gossip_listen", addr))
	}
	n.log.Info("serving", fields...)
	n.started()
	return nil
}

// newLogger logs to w. Both words were checked by the command line.
func newLogger(w io.Writer, format, level string) *zap.Logger {
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	encoder := zapcore.NewJSONEncoder(encoding)
	if format == "console" {
		encoding.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(encoding)
	}
	enabled, err := zapcore.ParseLevel(level)
	if err != nil {
		enabled = zapcore.InfoLevel
	}
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), enabled)
	// Callers can make lines at will: of each message a hundred in a second, and
	// then one in a hundred.
	return zap.New(zapcore.NewSamplerWithOptions(core, time.Second, 100, 100))
}
