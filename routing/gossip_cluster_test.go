package routing

import (
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// soon bounds every wait of these tests. It is long because the machine may be
// busy; a test that passes takes a fraction of it.
const soon = 30 * time.Second

// quick is the LAN profile, several times as fast.
func quick(conf *memberlist.Config) {
	conf.ProbeInterval = 500 * time.Millisecond
	conf.ProbeTimeout = 400 * time.Millisecond
	conf.SuspicionMult = 2
	conf.SuspicionMaxTimeoutMult = 2
	conf.GossipInterval = 20 * time.Millisecond
	conf.PushPullInterval = time.Second
	conf.GossipToTheDeadTime = 500 * time.Millisecond
	conf.TCPTimeout = 2 * time.Second
}

var testKey = bytes.Repeat([]byte{7}, 32)

// wires joins the transports of one test's nodes, and can be cut.
type wires struct {
	mu   sync.Mutex
	side map[string]int // guarded by mu; addresses of different sides cannot talk
}

func newWires() *wires { return &wires{side: make(map[string]int)} }

func (w *wires) cut(side int, addrs ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, addr := range addrs {
		w.side[addr] = side
	}
}

func (w *wires) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.side)
}

func (w *wires) connected(a, b string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.side[a] == w.side[b]
}

// wire is a real transport on loopback whose outgoing side obeys wires.
type wire struct {
	*memberlist.NetTransport
	wires *wires
	addr  string

	lost     atomic.Int64 // packets that the cut swallowed
	readable atomic.Bool  // a packet held a node's name in the clear
}

func newWire(t *testing.T, w *wires, ip string) *wire {
	t.Helper()
	conf := &memberlist.NetTransportConfig{BindAddrs: []string{ip}, Logger: log.New(io.Discard, "", 0)}
	var nt *memberlist.NetTransport
	var err error
	for range 10 { // the port that TCP got may be taken for UDP
		if nt, err = memberlist.NewNetTransport(conf); err == nil {
			break
		}
	}
	require.NoError(t, err)
	return &wire{NetTransport: nt, wires: w, addr: net.JoinHostPort(ip, strconv.Itoa(nt.GetAutoBindPort()))}
}

func (w *wire) WriteTo(b []byte, addr string) (time.Time, error) {
	return w.WriteToAddress(b, memberlist.Address{Addr: addr})
}

func (w *wire) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	if bytes.Contains(b, []byte("node-")) {
		w.readable.Store(true)
	}
	if !w.wires.connected(w.addr, a.Addr) {
		w.lost.Add(1)
		return time.Now(), nil
	}
	return w.NetTransport.WriteToAddress(b, a)
}

func (w *wire) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return w.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

func (w *wire) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	if !w.wires.connected(w.addr, a.Addr) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: net.UnknownNetworkError("cut")}
	}
	return w.NetTransport.DialAddressTimeout(a, timeout)
}

// asker is a member of its own that asks others whether they live.
func asker(t *testing.T, w *wires) cluster {
	t.Helper()
	conf := memberlist.DefaultLANConfig()
	quick(conf)
	conf.Name, conf.SecretKey, conf.Transport, conf.LogOutput = "asker#1", testKey, newWire(t, w, "127.0.0.1"), io.Discard
	ml, err := memberlist.Create(conf)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ml.Shutdown()) })
	return cluster{ml: ml}
}

// node is a running Gossip.
type node struct {
	*Gossip
	wire *wire
	addr string
	logs *observer.ObservedLogs
	done chan struct{} // closed when Run has ended
	stop func() error  // ends Run and returns its error

	endsItself bool // with an error, and the test says so
}

// spec says how to start a node. The zero value of a field is a default.
type spec struct {
	name        string
	incarnation uint64
	region      Region
	ip          string
	seeds       []*node
	key         []byte
	state       State
	rejoin      time.Duration
	settle      time.Duration
	initial     Topology
	topology    func(context.Context) (Topology, error)
}

func start(t *testing.T, w *wires, s spec) *node {
	t.Helper()
	if s.region == "" {
		s.region = "a"
	}
	if s.ip == "" {
		s.ip = "127.0.0.1"
	}
	if s.key == nil {
		s.key = testKey
	}
	if s.initial.Epoch == 0 {
		s.initial = threeRegions(t, 1)
	}
	if s.topology == nil {
		s.topology = func(context.Context) (Topology, error) { return s.initial, nil }
	}
	wire := newWire(t, w, s.ip)
	core, logs := observer.New(zapcore.InfoLevel)
	cfg := GossipConfig{
		Self: Node{
			Name: s.name, Region: s.region, PeerAddr: "peer-of-" + wire.addr,
			Incarnation: max(s.incarnation, 1), State: s.state,
		},
		BindAddr:    wire.addr,
		Seeds:       []string{wire.addr}, // its own address among the seeds is harmless
		Key:         s.key,
		Topology:    s.topology,
		Initial:     s.initial,
		RejoinEvery: max(s.rejoin, 200*time.Millisecond),
		Log:         zap.New(core),
	}
	for _, seed := range s.seeds {
		cfg.Seeds = append(cfg.Seeds, seed.addr)
	}
	g, err := NewGossip(cfg)
	require.NoError(t, err)
	g.tune = func(conf *memberlist.Config) {
		quick(conf)
		conf.Transport = wire
	}
	if s.rejoin != 0 {
		g.firstRejoin = s.rejoin
	}
	if s.settle != 0 {
		g.settleAfter = s.settle
	}
	n := &node{Gossip: g, wire: wire, addr: wire.addr, logs: logs}
	n.run(t)
	return n
}

func (n *node) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	n.done = make(chan struct{})
	var ended error
	go func() {
		ended = n.Run(ctx)
		close(n.done)
	}()
	n.stop = sync.OnceValue(func() error {
		cancel()
		<-n.done
		return ended
	})
	t.Cleanup(func() {
		if err := n.stop(); err != nil && !n.endsItself {
			t.Errorf("Run of %s: %v", n.addr, err)
		}
	})
	bound, cancelBound := context.WithTimeout(t.Context(), soon)
	defer cancelBound()
	addr, err := n.Addr(bound)
	require.NoError(t, err)
	require.Equal(t, n.addr, addr)
}

// ends waits until Run has ended by itself, and returns its error.
func (n *node) ends(t *testing.T) error {
	t.Helper()
	n.endsItself = true
	select {
	case <-n.done:
		return n.stop()
	case <-time.After(soon):
		t.Fatalf("%s goes on; it sees %+v", n.addr, n.Map().Nodes())
		return nil
	}
}

// settles waits until the node has settled.
func (n *node) settles(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.known.self.Settled
	}, soon, 10*time.Millisecond)
}

// goesOn checks that Run has not ended.
func (n *node) goesOn(t *testing.T) {
	t.Helper()
	select {
	case <-n.done:
		require.NoError(t, n.stop(), "%s ended", n.addr)
	default:
	}
}

// never watches the maps of a node from now on. What it returns ends that, and
// says whether any of them satisfied bad.
func (n *node) never(t *testing.T, what string, bad func(*Map) bool) (check func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(chan *Map, 1)
	go func() {
		m, _ := n.Await(ctx, bad) // nil if the watch ended first
		seen <- m
	}()
	return func() {
		cancel()
		if m := <-seen; m != nil {
			t.Errorf("%s saw %s: %+v", n.addr, what, m.Nodes())
		}
	}
}

// kill takes the node's sockets away, without a word to the others.
func (n *node) kill() { _ = n.wire.Shutdown() }

// startThree starts node-1 to node-3, one in each region, all ready.
func startThree(t *testing.T, w *wires) (n1, n2, n3 *node) {
	t.Helper()
	n1 = start(t, w, spec{name: "node-1", region: "a", state: Ready})
	n2 = start(t, w, spec{name: "node-2", region: "b", state: Ready, seeds: []*node{n1}})
	n3 = start(t, w, spec{name: "node-3", region: "c", state: Ready, seeds: []*node{n1, n2}})
	for _, n := range []*node{n1, n2, n3} {
		n.sees(t, "three ready nodes", func(m *Map) bool { return len(m.Route(0)) == 3 })
	}
	return n1, n2, n3
}

// sees waits for a map that satisfies ok.
func (n *node) sees(t *testing.T, what string, ok func(*Map) bool) *Map {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	m, err := n.Await(ctx, ok)
	require.NoError(t, err, "%s never saw %s; it sees %+v", n.addr, what, n.Map().Nodes())
	return m
}

// is tells whether a map shows a node in a state.
func is(name string, want State) func(*Map) bool {
	return func(m *Map) bool {
		state, known := stateIn(m, name)
		return known && state == want
	}
}

// logged waits for a log entry with the message.
func (n *node) logged(t *testing.T, message string) {
	t.Helper()
	require.Eventually(t, func() bool { return n.logs.FilterMessage(message).Len() > 0 }, soon, 10*time.Millisecond, message)
}
