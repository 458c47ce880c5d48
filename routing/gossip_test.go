package routing

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// R40
func TestNodesFindEachOtherAndAgreeOnHomeNodes(t *testing.T) {
	t.Parallel()
	n1, n2, n3 := startThree(t, newWires())
	for s := range Slots {
		home, ok := n1.Map().HomeNode(Slot(s))
		require.True(t, ok)
		for _, n := range []*node{n2, n3} {
			other, ok := n.Map().HomeNode(Slot(s))
			require.True(t, ok)
			require.Equal(t, home, other, "slot %d", s)
		}
	}
	// R57: nothing readable is on the wire.
	for _, n := range []*node{n1, n2, n3} {
		require.False(t, n.wire.readable.Load())
	}
}

// R44
func TestANodeLeavesTheMapBeforeItStops(t *testing.T) {
	t.Parallel()
	n1, n2, n3 := startThree(t, newWires())

	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	require.NoError(t, n3.Leave(ctx))
	require.True(t, is("node-3", Leaving)(n3.Map()), "its own map at once")
	for _, n := range []*node{n1, n2} {
		m := n.sees(t, "node-3 leaving", is("node-3", Leaving))
		require.False(t, m.Alive("c"))
	}

	require.NoError(t, n3.stop(), "a cancelled Run is a clean stop")
	for _, n := range []*node{n1, n2} {
		n.sees(t, "node-3 gone", is("node-3", Dead))
	}
}

func TestRunAnnouncesThatItLeaves(t *testing.T) {
	t.Parallel()
	n1, _, n3 := startThree(t, newWires())
	go func() { _ = n3.stop() }()
	n1.sees(t, "node-3 not ready", func(m *Map) bool { return !m.Alive("c") })
	require.NoError(t, n3.stop())
	m := n1.sees(t, "node-3 gone", is("node-3", Dead))
	require.Equal(t, Leaving, n1.entry("node-3").State, "it said so: %+v", m.Nodes())
}

// entry returns what a node has heard of another.
func (n *node) entry(name string) Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known.current()[name]
}

func TestAKilledNodeIsNoticed(t *testing.T) {
	t.Parallel()
	n1, n2, n3 := startThree(t, newWires())
	n3.kill()
	for _, n := range []*node{n1, n2} {
		m := n.sees(t, "node-3 dead", is("node-3", Dead))
		require.False(t, m.Alive("c"))
		require.NotEqual(t, Region("c"), m.Serving(255), "its slots go to the next region")
	}
	require.Equal(t, Ready, n1.entry("node-3").State, "it never said that it leaves")
}

func TestARestartTakesOverAtAnotherAddress(t *testing.T) {
	t.Parallel()
	w := newWires()
	n1, n2, n3 := startThree(t, w)
	n3.kill()

	// At once, while the others still take the earlier process for alive.
	heir := start(t, w, spec{name: "node-3", incarnation: 2, region: "c", ip: "127.0.0.2", state: Ready, seeds: []*node{n1}})
	tookOver := func(m *Map) bool {
		node, ok := m.HomeNode(255)
		return ok && node.Name == "node-3" && node.Incarnation == 2 && node.PeerAddr == "peer-of-"+heir.addr
	}
	for _, n := range []*node{n1, n2, heir} {
		n.sees(t, "the heir as home node", tookOver)
	}

	// The late death of the earlier process changes nothing.
	for _, n := range []*node{n1, n2} {
		require.Eventually(t, func() bool {
			return testutil.ToFloat64(n.metrics.conflicts) == 0
		}, soon, 10*time.Millisecond, "the earlier process is noticed to be dead")
		require.True(t, tookOver(n.Map()))
	}
}

func TestARestartTakesOverAtTheSameAddress(t *testing.T) {
	t.Parallel()
	w := newWires()
	n1, n2, n3 := startThree(t, w)
	require.NoError(t, n3.stop())

	registry := prometheus.NewRegistry()
	heir, err := NewGossip(GossipConfig{
		Self:       Node{Name: "node-3", Region: "c", Incarnation: 2},
		BindAddr:   n3.addr,
		Seeds:      []string{n1.addr, n2.addr},
		Key:        testKey,
		Topology:   n3.cfg.Topology,
		Initial:    n3.cfg.Initial,
		Registerer: registry,
	})
	require.NoError(t, err)
	heir.tune = quick
	n := &node{Gossip: heir, addr: n3.addr}
	n.run(t)
	n1.sees(t, "the heir joining", is("node-3", Joining))
	heir.SetState(Ready)
	n1.sees(t, "the heir ready", is("node-3", Ready))

	n.sees(t, "three ready nodes", func(m *Map) bool { return len(m.Route(0)) == 3 })
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}

// cutUntilForgotten cuts n3 from the others, and waits until both sides have
// noticed and memberlist has forgotten the other side: it gossips to the dead
// for a while, and then sends it nothing more.
func cutUntilForgotten(t *testing.T, w *wires, n1, n2, n3 *node) {
	t.Helper()
	w.cut(1, n3.addr)
	n1.sees(t, "node-3 dead", is("node-3", Dead))
	n2.sees(t, "node-3 dead", is("node-3", Dead))
	n3.sees(t, "itself alone", func(m *Map) bool { return len(m.Route(0)) == 1 })
	for _, n := range []*node{n1, n2, n3} {
		lost, since := n.wire.lost.Load(), time.Now()
		require.Eventually(t, func() bool {
			if now := n.wire.lost.Load(); now != lost {
				lost, since = now, time.Now()
			}
			return time.Since(since) > time.Second // fifty rounds of gossip
		}, soon, 10*time.Millisecond, "%s goes on sending to the dead", n.addr)
	}
}

// R43: the rejoin loop heals a cut that outlasted memberlist's memory.
func TestALongCutHeals(t *testing.T) {
	t.Parallel()
	w := newWires()
	n1, n2, n3 := startThree(t, w)
	cutUntilForgotten(t, w, n1, n2, n3)
	n3.SetState(Leaving) // what the other side misses meanwhile comes through after
	n3.SetState(Ready)
	w.heal()
	for _, n := range []*node{n1, n2, n3} {
		n.sees(t, "three ready nodes", func(m *Map) bool { return len(m.Route(0)) == 3 })
	}
}

// The negative control: without the loop, nothing heals such a cut. If this
// fails, the test above proves nothing.
func TestALongCutDoesNotHealWithoutRejoining(t *testing.T) {
	t.Parallel()
	w := newWires()
	n1 := start(t, w, spec{name: "node-1", region: "a", state: Ready, rejoin: time.Hour})
	n2 := start(t, w, spec{name: "node-2", region: "b", state: Ready, rejoin: time.Hour, seeds: []*node{n1}})
	n3 := start(t, w, spec{name: "node-3", region: "c", state: Ready, rejoin: time.Hour, seeds: []*node{n1}})
	for _, n := range []*node{n1, n2, n3} {
		n.sees(t, "three ready nodes", func(m *Map) bool { return len(m.Route(0)) == 3 })
	}
	cutUntilForgotten(t, w, n1, n2, n3)
	w.heal()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // the loop heals in a tenth of that
	defer cancel()
	_, err := n3.Await(ctx, func(m *Map) bool { return len(m.Route(0)) > 1 })
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestATopologyEpochSpreads(t *testing.T) {
	t.Parallel()
	old := threeRegions(t, 1)
	moved, err := NewTopology(2, Contiguous([]Region{"a", "b"}))
	require.NoError(t, err)

	// The database holds the new topology; reads of node-3 fail, lag, and then
	// work.
	read := func(context.Context) (Topology, error) { return moved, nil }
	var reads atomic.Int64
	lagging := func(context.Context) (Topology, error) {
		switch reads.Add(1) {
		case 1:
			return Topology{}, errors.New("connection refused")
		case 2:
			return old, nil
		default:
			return moved, nil
		}
	}
	w := newWires()
	n1 := start(t, w, spec{name: "node-1", state: Ready, topology: read})
	n2 := start(t, w, spec{name: "node-2", state: Ready, topology: read, seeds: []*node{n1}})
	n3 := start(t, w, spec{name: "node-3", state: Ready, topology: lagging, seeds: []*node{n1}})
	for _, n := range []*node{n1, n2, n3} {
		m := n.sees(t, "three ready nodes", func(m *Map) bool { return len(m.Route(0)) == 3 })
		require.EqualValues(t, 1, m.Topology().Epoch, "nobody reads without a reason")
	}

	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	m, err := n1.Refresh(ctx, 2)
	require.NoError(t, err)
	require.EqualValues(t, 2, m.Topology().Epoch)
	for _, n := range []*node{n2, n3} {
		m := n.sees(t, "epoch 2", func(m *Map) bool { return m.Topology().Epoch == 2 })
		require.Equal(t, Region("b"), m.Topology().Home(255))
	}
	require.InDelta(t, 2, testutil.ToFloat64(n3.metrics.readsFailed), 0)
	n1.sees(t, "that all go by epoch 2", func(m *Map) bool {
		for _, n := range m.Nodes() {
			if n.TopologyEpoch != 2 {
				return false
			}
		}
		return true
	})
}

func idle(t *testing.T) *Gossip {
	t.Helper()
	g, err := NewGossip(GossipConfig{
		Self:     Node{Name: "node-1", Region: "a", Incarnation: 1},
		BindAddr: "127.0.0.1:0",
		Key:      testKey,
		Topology: func(context.Context) (Topology, error) { return Topology{}, errors.New("not asked") },
		Initial:  threeRegions(t, 1),
	})
	require.NoError(t, err)
	return g
}

func TestNotifyMsgNeverBlocks(t *testing.T) {
	t.Parallel()
	g := idle(t) // nobody reads the inbox
	const surplus = 10
	message := encode(sixNodes())
	for range inboxSize + surplus {
		delegate{g}.NotifyMsg(message)
	}
	require.InDelta(t, surplus, testutil.ToFloat64(g.metrics.dropped.WithLabelValues(dropInboxFull)), 0)
}

func TestWhatCannotBeReadIsDroppedAndCounted(t *testing.T) {
	t.Parallel()
	g := idle(t)
	g.hear([]byte("garbage"))
	require.InDelta(t, 1, testutil.ToFloat64(g.metrics.dropped.WithLabelValues(dropUnreadable)), 0)
	require.Len(t, g.Map().Nodes(), 1)
}

func TestANodeKnowsItsOwnStateAtOnce(t *testing.T) {
	t.Parallel()
	g := idle(t)
	require.False(t, g.Map().Alive("a"), "a node that joins is not ready")
	g.SetState(Ready)
	require.True(t, g.Map().Alive("a"))
	require.NoError(t, g.Leave(t.Context()), "alone, there is nobody to tell")
	require.False(t, g.Map().Alive("a"))
	require.Panics(t, func() { g.SetState(Dead) })
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	t.Parallel()
	g := idle(t)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	_, err := g.Refresh(ctx, 9)
	require.ErrorIs(t, err, cause)
	_, err = g.Addr(ctx)
	require.ErrorIs(t, err, cause)
}

func TestRunSaysWhyItCannotBind(t *testing.T) {
	t.Parallel()
	n1 := start(t, newWires(), spec{name: "node-1"})
	g := idle(t)
	g.cfg.BindAddr = n1.addr
	require.ErrorContains(t, g.Run(t.Context()), "starting gossip on "+n1.addr)
}

func TestGossipConfigErrorsNameTheField(t *testing.T) {
	t.Parallel()
	_, err := NewGossip(GossipConfig{
		Self:          Node{Name: "node 1"},
		BindAddr:      "localhost",
		AdvertiseAddr: "example.com:1",
		Seeds:         []string{"10.0.0.1", "10.0.0.2:0", "10.0.0.3:7946"},
		Key:           []byte("short"),
		RejoinEvery:   -1,
	})
	for _, want := range []string{
		`name "node 1": must be`, `region "": must be`, "incarnation is 0: draw one from the database",
		`BindAddr "localhost": must be IP:port`, `AdvertiseAddr "example.com:1": must be an IP`,
		`Seeds: seed "10.0.0.1": must be host:port`, `Seeds: seed "10.0.0.2:0"`,
		"Key: must be 16, 24 or 32 bytes, the same on every node; it has 5",
		"Topology: is required", "Initial: is required", "RejoinEvery",
	} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), "10.0.0.3", "a good seed is not an error")
	require.NotContains(t, err.Error(), "short", "a key is never printed")
}

func TestMemberlistsLinesBecomeLogEntries(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.DebugLevel)
	w := newLogWriter(zap.New(core))
	for _, line := range []string{"[DEBUG] memberlist: a\n", "[WARN] memberlist: b\n", "[ERR] memberlist: c\n", "d\n"} {
		n, err := w.Write([]byte(line))
		require.NoError(t, err)
		require.Len(t, line, n)
	}
	var got []string
	for _, e := range logs.All() {
		require.Equal(t, "memberlist", e.Message)
		got = append(got, fmt.Sprint(e.Level, " ", e.ContextMap()["detail"]))
	}
	require.Equal(t, []string{"debug a", "warn b", "warn c", "info d"}, got)
}
