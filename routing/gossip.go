package routing

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

const (
	// pushPullEvery is how often a node swaps everything it knows with another:
	// the repair of what broadcasts lost. The profile's 30 s took up to 86 s to
	// reach six nodes; 15 s took 16 s.
	pushPullEvery = 15 * time.Second
	// streamTimeout bounds one exchange of everything, and so one attempt to
	// join a seed. 5 s are twenty round trips between far regions; shorter than
	// the profile's 10 s, so that a seed behind a healed cut is dialled anew
	// before TCP's own retries become rare, and a stop does not wait long.
	streamTimeout = 5 * time.Second
	// announceTimeout bounds the wait for "leaving" to be sent. With the
	// profile's 200 ms a round, all transmissions take at most 0.8 s.
	announceTimeout = 2 * time.Second
	// leaveTimeout bounds memberlist's own farewell, which goes out at the same
	// pace. It waits in vain if the others leave at the same moment.
	leaveTimeout = time.Second
	// inboxSize is how many messages wait to be merged. One merge takes
	// microseconds: a full inbox means that the process does not run.
	inboxSize = 1024
)

var errAnnounceTimeout = errors.New("announcing that the node leaves timed out")

// Gossip keeps a Map up to date by talking to the other nodes. All methods are
// safe for concurrent use.
type Gossip struct {
	cfg     GossipConfig
	log     *zap.Logger
	metrics *metrics
	tune    func(*memberlist.Config) // a test's hook into the profile; may be nil

	settleAfter, firstRejoin time.Duration // the constants, but for tests

	queue  memberlist.TransmitLimitedQueue
	others atomic.Int64 // live processes besides our own
	inbox  chan []byte
	reread chan struct{} // a higher epoch was heard

	bound  chan struct{} // closed when addr is set
	addr   string
	latest atomic.Pointer[version]

	reached processes

	twin atomic.Pointer[process] // the last other one that claimed our identity

	mu    sync.Mutex // taken inside memberlist's locks: never call memberlist under it
	known *members   // guarded by mu
}

// NewGossip checks the configuration and returns a Gossip whose map holds the
// node alone. It starts nothing.
func NewGossip(cfg GossipConfig) (*Gossip, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("gossip configuration: %w", err)
	}
	g := &Gossip{
		cfg:     cfg,
		log:     cfg.Log,
		metrics: newMetrics(),
		inbox:   make(chan []byte, inboxSize),
		reread:  make(chan struct{}, 1),
		bound:   make(chan struct{}),
		known:   newMembers(cfg.Self, cfg.Initial),

		settleAfter: settleAfter,
		firstRejoin: firstRejoin,
	}
	if err := g.metrics.register(cfg.Registerer); err != nil {
		return nil, fmt.Errorf("registering gossip metrics: %w", err)
	}
	g.queue.RetransmitMult = memberlist.DefaultLANConfig().RetransmitMult
	g.queue.NumNodes = func() int { return int(g.others.Load()) + 1 }
	g.latest.Store(&version{m: g.known.snapshot(), replaced: make(chan struct{})})
	return g, nil
}

// Run binds, joins and gossips until ctx ends. Then it says that it leaves,
// stops, and returns nil; each of these steps is bounded. Call it once.
//
// In its first seconds it may end with a NameTakenError, a SeedsRefusedError or
// an OtherTopologyError: then the node must not run beside those that do. Until
// it has looked for that, nobody has heard of it.
func (g *Gossip) Run(ctx context.Context) error {
	conf := g.profile()
	ml, err := memberlist.Create(conf)
	if err != nil {
		return fmt.Errorf("starting gossip on %s: %w", g.cfg.BindAddr, err)
	}
	g.addr = ml.LocalNode().Address()
	close(g.bound)

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return g.mergeInbox(ctx) })
	group.Go(func() error { return g.followTopology(ctx) })
	c := cluster{ml, &g.reached, conf.TCPTimeout / 2}
	group.Go(func() error { return g.rejoin(ctx, c) })
	group.Go(func() error { return g.settle(ctx, c) })
	group.Go(func() error {
		<-ctx.Done()
		return g.stop(context.WithoutCancel(ctx), ml)
	})
	return group.Wait()
}

// stop leaves politely and then shuts down. That the farewell did not get
// through is logged and no error: the others notice by themselves.
func (g *Gossip) stop(ctx context.Context, ml *memberlist.Memberlist) error {
	announce, cancel := context.WithTimeoutCause(ctx, announceTimeout, errAnnounceTimeout)
	defer cancel()
	if err := errors.Join(g.announceLeaving(announce), g.sayFarewell(ml)); err != nil {
		g.log.Info("left without telling all", zap.Error(err))
	}
	if err := ml.Shutdown(); err != nil {
		return fmt.Errorf("stopping gossip: %w", err)
	}
	return nil
}

// sayFarewell leaves memberlist, unless another process has our identity: the
// farewell would be taken for its own.
func (g *Gossip) sayFarewell(ml *memberlist.Memberlist) error {
	if g.twin.Load() != nil {
		return nil
	}
	return ml.Leave(leaveTimeout)
}

// profile is memberlist's LAN profile with what this package changes.
func (g *Gossip) profile() *memberlist.Config {
	conf := memberlist.DefaultLANConfig()
	conf.Name = identityOf(g.cfg.Self).String()
	conf.SecretKey = g.cfg.Key
	conf.PushPullInterval = pushPullEvery
	conf.TCPTimeout = streamTimeout
	conf.Delegate, conf.Events, conf.Conflict = delegate{g}, events{g}, newConflicts(g)
	conf.Logger = log.New(newLogWriter(g.log), "", 0)

	bind, _ := bindAddr(g.cfg.BindAddr)                // checked by Validate
	advertise, _ := advertiseAddr(g.cfg.AdvertiseAddr) // checked by Validate
	conf.BindAddr, conf.BindPort = bind.Addr().String(), int(bind.Port())
	conf.AdvertisePort = conf.BindPort
	if advertise.IsValid() {
		conf.AdvertiseAddr = advertise.Addr().String()
		conf.AdvertisePort = cmp.Or(int(advertise.Port()), conf.BindPort)
	}
	if g.tune != nil {
		g.tune(conf)
	}
	return conf
}

// announceLeaving is Leave, unless the owner has already called it.
func (g *Gossip) announceLeaving(ctx context.Context) error {
	if g.state() == Leaving {
		return nil
	}
	return g.Leave(ctx)
}

// broadcast queues an entry for the next rounds of gossip. A newer entry of the
// same name replaces it. done is called when it was sent often enough to spread,
// or was replaced; it may be nil.
func (g *Gossip) broadcast(n Node, done func()) {
	g.queue.QueueBroadcast(announcement{name: n.Name, msg: encode([]Node{n}), done: done})
}

type announcement struct {
	name string
	msg  []byte
	done func()
}

func (a announcement) Name() string    { return a.name }
func (a announcement) Message() []byte { return a.msg }

func (a announcement) Invalidates(b memberlist.Broadcast) bool {
	named, ok := b.(memberlist.NamedBroadcast)
	return ok && named.Name() == a.name
}

func (a announcement) Finished() {
	if a.done != nil {
		a.done()
	}
}

// delegate hands memberlist's messages to the inbox. memberlist calls it from
// its packet loop and may reuse what it passes.
type delegate struct{ g *Gossip }

func (d delegate) NodeMeta(int) []byte { return nil }

// NotifyMsg drops a message rather than block: push/pull repairs it.
func (d delegate) NotifyMsg(msg []byte) {
	select {
	case d.g.inbox <- bytes.Clone(msg):
	default:
		d.g.metrics.dropped.WithLabelValues(dropInboxFull).Inc()
	}
}

func (d delegate) GetBroadcasts(overhead, limit int) [][]byte {
	return d.g.queue.GetBroadcasts(overhead, limit)
}

func (d delegate) LocalState(bool) []byte { return encode(d.g.tell()) }

func (d delegate) MergeRemoteState(state []byte, _ bool) { d.NotifyMsg(state) }

// events follows the failure detector. memberlist calls it under its own lock.
type events struct{ g *Gossip }

func (e events) NotifyJoin(n *memberlist.Node) {
	e.g.reached.add(n.Name, processOf(n))
	e.g.notice(n.Name, (*members).see)
}

func (e events) NotifyLeave(n *memberlist.Node) {
	e.g.reached.remove(n.Name)
	e.g.notice(n.Name, (*members).miss)
}

func (e events) NotifyUpdate(*memberlist.Node) {}

// notice notes what the failure detector says of a process. What is no identity
// is no node of ours.
func (g *Gossip) notice(member string, change func(*members, identity)) {
	id, ok := parseIdentity(member)
	if !ok || id == identityOf(g.cfg.Self) {
		return
	}
	g.update(func(known *members) bool {
		change(known, id)
		return true
	})
}

// conflicts reports processes with one name and incarnation. memberlist finds
// them again with every message, so the log says it once a minute.
type conflicts struct {
	g     *Gossip
	often *rate.Sometimes
}

func newConflicts(g *Gossip) conflicts {
	return conflicts{g: g, often: &rate.Sometimes{First: 1, Interval: time.Minute}}
}

func (c conflicts) NotifyConflict(existing, other *memberlist.Node) {
	c.g.metrics.addrConflicts.Inc()
	if existing.Name == identityOf(c.g.cfg.Self).String() {
		twin := processOf(other)
		c.g.twin.Store(&twin)
	}
	c.often.Do(func() {
		c.g.log.Error("two processes have one name and incarnation; start each node with a name of its own and one database",
			zap.String("identity", existing.Name),
			zap.String("peer", existing.Address()),
			zap.String("other_peer", other.Address()))
	})
}

// logWriter turns memberlist's lines, "[WARN] memberlist: …", into log entries.
type logWriter struct{ log *zap.Logger }

func newLogWriter(to *zap.Logger) logWriter {
	never := zap.LevelEnablerFunc(func(zapcore.Level) bool { return false })
	return logWriter{log: to.WithOptions(zap.AddStacktrace(never), zap.WithCaller(false))}
}

func (w logWriter) Write(line []byte) (int, error) {
	level, text := zapcore.InfoLevel, strings.TrimSpace(string(line))
	for prefix, l := range map[string]zapcore.Level{
		"[DEBUG] ": zapcore.DebugLevel,
		"[INFO] ":  zapcore.InfoLevel,
		"[WARN] ":  zapcore.WarnLevel,
		"[ERR] ":   zapcore.WarnLevel, // what it calls an error is a peer that does not answer
	} {
		if rest, found := strings.CutPrefix(text, prefix); found {
			level, text = l, rest
			break
		}
	}
	w.log.Log(level, "memberlist", zap.String("detail", strings.TrimPrefix(text, "memberlist: ")))
	return len(line), nil
}

// cluster is memberlist as the loops that join and settle see it.
type cluster struct {
	ml      *memberlist.Memberlist
	reached *processes
	// patience is less than what an attempt to join takes that times out, and
	// more than what one takes that is turned away.
	patience time.Duration
}

func (c cluster) self() netip.AddrPort {
	addr, _ := netip.ParseAddrPort(c.ml.LocalNode().Address())
	return addr
}

// processOf returns the process that a member is.
func processOf(n *memberlist.Node) process {
	id, ok := parseIdentity(n.Name)
	if !ok {
		id = identity{} // nobody's namesake
	}
	ip, _ := netip.AddrFromSlice(n.Addr)
	return process{id, netip.AddrPortFrom(ip.Unmap(), n.Port)}
}

// ping asks a process whether it lives. Whoever else has its address does not
// answer in its place.
func (c cluster) ping(p process) error {
	_, err := c.ml.Ping(p.id.String(), net.UDPAddrFromAddrPort(p.addr))
	return err
}

// join swaps everything known with the node at addr.
func (c cluster) join(addr netip.AddrPort) error {
	_, err := c.ml.Join([]string{addr.String()})
	return err
}

// live returns the addresses of all members that are not dead.
func (c cluster) live() map[netip.AddrPort]bool {
	live := make(map[netip.AddrPort]bool)
	for _, p := range c.reached.all() {
		live[p.addr] = true
	}
	return live
}
