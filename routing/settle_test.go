package routing

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// young is how long nodes of these tests are.
const young = 2 * time.Second

// notAs says that a node is not in the map as one process says of itself.
func notAs(name, peerAddr string) func(*Map) bool {
	return func(m *Map) bool {
		i := slices.IndexFunc(m.Nodes(), func(n Node) bool { return n.Name == name })
		return i < 0 || m.Nodes()[i].PeerAddr != peerAddr || m.Nodes()[i].State != Ready
	}
}

func TestANodeWhoseNameIsTakenEnds(t *testing.T) {
	t.Parallel()
	w := newWires()
	n1 := start(t, w, spec{name: "node-1", state: Ready})
	first := start(t, w, spec{name: "node-2", incarnation: 1, state: Ready, seeds: []*node{n1}})
	n1.sees(t, "node-2", is("node-2", Ready))
	var checks []func()
	for _, n := range []*node{n1, first} {
		checks = append(checks, n.never(t, "the first node elsewhere", notAs("node-2", "peer-of-"+first.addr)))
	}

	second := start(t, w, spec{name: "node-2", incarnation: 2, state: Ready, seeds: []*node{n1}})
	var taken *NameTakenError
	require.ErrorAs(t, second.ends(t), &taken)
	require.Equal(t, &NameTakenError{Name: "node-2", GossipAddr: first.addr, PeerAddr: "peer-of-" + first.addr}, taken)
	require.Eventually(t, func() bool { return testutil.ToFloat64(n1.metrics.conflicts) == 0 }, soon, 10*time.Millisecond)
	for _, check := range checks {
		check()
	}
	first.goesOn(t)
}

func TestANodeFindsItsNameTakenByItsOnlySeed(t *testing.T) {
	t.Parallel()
	w := newWires()
	first := start(t, w, spec{name: "node-2", incarnation: 1, state: Ready, settle: 100 * time.Millisecond})
	first.settles(t)
	second := start(t, w, spec{name: "node-2", incarnation: 2, state: Ready, seeds: []*node{first}})
	var taken *NameTakenError
	require.ErrorAs(t, second.ends(t), &taken)
	require.Equal(t, first.addr, taken.GossipAddr)
	first.sees(t, "itself", is("node-2", Ready))
	first.goesOn(t)
}

// Incarnations of two databases may be the same, too.
func TestANodeWhoseVeryIdentityIsTakenEnds(t *testing.T) {
	t.Parallel()
	w := newWires()
	n1 := start(t, w, spec{name: "node-1", state: Ready})
	first := start(t, w, spec{name: "node-2", state: Ready, seeds: []*node{n1}, settle: 100 * time.Millisecond})
	first.settles(t)
	n1.sees(t, "node-2", is("node-2", Ready))
	second := start(t, w, spec{name: "node-2", state: Ready, seeds: []*node{n1}})
	var taken *NameTakenError
	require.ErrorAs(t, second.ends(t), &taken)
	require.Equal(t, first.addr, taken.GossipAddr)
	n1.logged(t, "two processes have one name and incarnation; start each node with a name of its own and one database")
	require.Positive(t, testutil.ToFloat64(n1.metrics.addrConflicts))
	n1.sees(t, "the first", func(m *Map) bool { return !notAs("node-2", "peer-of-"+first.addr)(m) })
	first.goesOn(t)
}

// What settled before a cut, and meets its namesake after, does not end.
func TestSettledNodesWithOneNameAreReported(t *testing.T) {
	t.Parallel()
	w := newWires()
	n1 := start(t, w, spec{name: "node-1", state: Ready})
	first := start(t, w, spec{name: "node-2", incarnation: 1, state: Ready, seeds: []*node{n1}, settle: young})
	n1.sees(t, "node-2", is("node-2", Ready))
	second := start(t, w, spec{name: "node-2", incarnation: 2, state: Ready, settle: 100 * time.Millisecond})
	second.settles(t)
	third := start(t, w, spec{name: "node-3", state: Ready, seeds: []*node{n1, second}})

	first.logged(t, "another process runs under this node's name; stop one of them, or give it a name of its own")
	for _, n := range []*node{n1, third} {
		n.sees(t, "the later one", func(m *Map) bool { return !notAs("node-2", "peer-of-"+second.addr)(m) })
	}
	require.Eventually(t, func() bool { return testutil.ToFloat64(n1.metrics.conflicts) == 1 }, soon, 10*time.Millisecond)
	first.goesOn(t)
	second.goesOn(t)
}

func TestOnlyTheVeryProcessAnswers(t *testing.T) {
	t.Parallel()
	w := newWires()
	n1 := start(t, w, spec{name: "node-1"})
	c := asker(t, w)
	addr := netip.MustParseAddrPort(n1.addr)
	require.True(t, c.answers(t.Context(), process{identity{"node-1", 1}, addr}))
	require.False(t, c.answers(t.Context(), process{identity{"node-1", 2}, addr}), "another process has its address by now")
	require.False(t, c.answers(t.Context(), process{identity{"node-1", 1}, c.self()}), "it was where we are")
	n1.kill()
	require.False(t, c.answers(t.Context(), process{identity{"node-1", 1}, addr}))
}

// R57
func TestAWrongKeyCannotJoin(t *testing.T) {
	t.Parallel()
	w := newWires()
	n1, n2, n3 := startThree(t, w)
	stranger := start(t, w, spec{name: "node-x", state: Ready, key: []byte("0123456789abcdef"), seeds: []*node{n1, n2}, settle: young})
	var refused *SeedsRefusedError
	require.ErrorAs(t, stranger.ends(t), &refused)
	require.ElementsMatch(t, []string{n1.addr, n2.addr}, refused.Seeds)

	stranger.logged(t, "seed not joined; trying again until it is")
	require.Len(t, stranger.Map().Nodes(), 1, "it learns nothing")
	for _, n := range []*node{n1, n2, n3} {
		require.Len(t, n.Map().Nodes(), 3, "nobody hears of it")
		n.goesOn(t)
	}
	require.InDelta(t, 2, testutil.ToFloat64(stranger.metrics.seedsMissing), 0)
}

func TestASeedThatIsDownIsAwaitedForEver(t *testing.T) {
	t.Parallel()
	w := newWires()
	late := newWire(t, w, "127.0.0.1")
	require.NoError(t, late.Shutdown())
	hangs, err := net.Listen("tcp", "127.0.0.1:0") // it takes connections and says nothing, as a process that is stopped
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, hangs.Close()) })

	n := start(t, w, spec{name: "node-1", seeds: []*node{{addr: late.addr}, {addr: hangs.Addr().String()}}, settle: young})
	n.settles(t)
	turned := func() bool { return testutil.ToFloat64(n.metrics.seedsMissing) == 2 }
	require.Never(t, func() bool { n.goesOn(t); return !turned() }, 2*young, 50*time.Millisecond)
}

// A node that has others does not end for a seed that turns it away.
func TestANodeThatHasJoinedDoesNotEndForASeedWithAnotherKey(t *testing.T) {
	t.Parallel()
	w := newWires()
	n1 := start(t, w, spec{name: "node-1", state: Ready})
	stranger := start(t, w, spec{name: "node-x", key: []byte("0123456789abcdef")})
	n2 := start(t, w, spec{name: "node-2", state: Ready, seeds: []*node{stranger, n1}, settle: young})
	n2.sees(t, "node-1", is("node-1", Ready))
	n2.settles(t)
	require.Never(t, func() bool { n2.goesOn(t); return false }, 2*young, 50*time.Millisecond)
	stranger.goesOn(t)
}

func TestANodeOfAnotherDatabaseEnds(t *testing.T) {
	t.Parallel()
	others, err := NewTopology(1, Contiguous([]Region{"a", "b"}))
	require.NoError(t, err)
	for name, initial := range map[string]Topology{
		"other homes":               others,
		"the same homes, elsewhere": threeRegions(t, 1).From("another database"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWires()
			n1 := start(t, w, spec{name: "node-1", state: Ready, settle: 100 * time.Millisecond})
			n1.settles(t)
			check := n1.never(t, "a stranger", func(m *Map) bool { return len(m.Nodes()) > 1 })
			second := start(t, w, spec{name: "node-2", state: Ready, initial: initial, seeds: []*node{n1}})
			var other *OtherTopologyError
			require.ErrorAs(t, second.ends(t), &other)
			require.Equal(t, &OtherTopologyError{Node: "node-1", PeerAddr: "peer-of-" + n1.addr, Epoch: 1}, other)
			check()
			n1.goesOn(t)
		})
	}
}

// Of two databases the incarnations say nothing of who was first.
func TestANamesakeOfAnotherDatabaseEnds(t *testing.T) {
	t.Parallel()
	w := newWires()
	n1 := start(t, w, spec{name: "node-1", incarnation: 31, state: Ready, settle: 100 * time.Millisecond})
	n1.settles(t)
	twin := start(t, w, spec{name: "node-1", incarnation: 1, state: Ready, initial: threeRegions(t, 1).From("another database"), seeds: []*node{n1}})
	var other *OtherTopologyError
	require.ErrorAs(t, twin.ends(t), &other)
	n1.goesOn(t)
}

func TestOfYoungNodesTheFewGiveWay(t *testing.T) {
	t.Parallel()
	w := newWires()
	odd := start(t, w, spec{name: "node-0", state: Ready, initial: threeRegions(t, 1).From("another database"), settle: 2 * young})
	n1 := start(t, w, spec{name: "node-1", state: Ready, seeds: []*node{odd}, settle: 2 * young})
	n2 := start(t, w, spec{name: "node-2", state: Ready, seeds: []*node{odd}, settle: 2 * young})
	var other *OtherTopologyError
	require.ErrorAs(t, odd.ends(t), &other)
	for _, n := range []*node{n1, n2} {
		n.settles(t)
		n.sees(t, "two ready nodes", func(m *Map) bool { return len(m.Route(0)) == 2 })
	}
}

func TestOfTwoYoungNodesOneGivesWay(t *testing.T) {
	t.Parallel()
	w := newWires()
	n1 := start(t, w, spec{name: "node-1", state: Ready, settle: young})
	n2 := start(t, w, spec{name: "node-2", state: Ready, initial: threeRegions(t, 1).From("another database"), seeds: []*node{n1}, settle: young})
	stays, ends := n1, n2
	if n1.cfg.Initial.hash > n2.cfg.Initial.hash {
		stays, ends = n2, n1
	}
	var other *OtherTopologyError
	require.ErrorAs(t, ends.ends(t), &other)
	stays.settles(t)
	stays.goesOn(t)
}

func TestSettledNodesOfTwoDatabasesAreReported(t *testing.T) {
	t.Parallel()
	w := newWires()
	n1 := start(t, w, spec{name: "node-1", state: Ready, settle: 100 * time.Millisecond})
	n2 := start(t, w, spec{name: "node-2", state: Ready, initial: threeRegions(t, 1).From("another database"), settle: 100 * time.Millisecond})
	n1.settles(t)
	n2.settles(t)
	n3 := start(t, w, spec{name: "node-3", state: Ready, seeds: []*node{n1, n2}})
	for _, n := range []*node{n1, n2} {
		n.logged(t, "a node goes by another topology of the same epoch; give all nodes the URL of one database")
		require.Eventually(t, func() bool { return testutil.ToFloat64(n.metrics.dissent) > 0 }, soon, 10*time.Millisecond)
		n.goesOn(t)
	}
	n3.goesOn(t)
}

// A topology that changes is not one of another database.
func TestEpochsThatDifferAreNoDissent(t *testing.T) {
	t.Parallel()
	m := newMembers(Node{Name: "self", Region: "a", Incarnation: 1}, threeRegions(t, 1))
	for i, n := range []Node{
		{TopologyEpoch: 2, TopologyHash: 9},
		{TopologyEpoch: 1, TopologyHash: 0}, // it does not say
		{TopologyEpoch: 1, TopologyHash: threeRegions(t, 1).hash},
		{TopologyEpoch: 1, TopologyHash: 9, Settled: true},
		{TopologyEpoch: 1, TopologyHash: 9}, // not live
	} {
		n.Name, n.Region, n.Incarnation = "n-"+strconv.Itoa(i), "a", 1
		m.hear([]Node{n})
		if i < 4 {
			m.see(identityOf(n))
		}
	}
	agree, disagree, other := m.dissent()
	require.Equal(t, votes{all: 2}, agree)
	require.Equal(t, votes{settled: 1, all: 1}, disagree)
	require.Equal(t, "n-3", other.Name)
}

func TestMisfitsSayWhatTheyMet(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		`another process runs under the name "a" (gossip at 10.0.0.1:7946, calls at 10.0.0.1:9090)`:                 &NameTakenError{Name: "a", GossipAddr: "10.0.0.1:7946", PeerAddr: "10.0.0.1:9090"},
		`another process runs under the name "a" (gossip at 10.0.0.1:7946)`:                                         &NameTakenError{Name: "a", GossipAddr: "10.0.0.1:7946"},
		"seeds answer and cannot be joined: another gossip key, or no gossip address: 10.0.0.1:7946, 10.0.0.2:7946": &SeedsRefusedError{Seeds: []string{"10.0.0.1:7946", "10.0.0.2:7946"}},
		`node "b" (10.0.0.2:9090) goes by another topology of epoch 3: the two use different databases`:             &OtherTopologyError{Node: "b", PeerAddr: "10.0.0.2:9090", Epoch: 3},
	} {
		require.EqualError(t, err, want)
	}
}
