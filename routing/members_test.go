package routing

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func stateIn(m *Map, name string) (State, bool) {
	for _, n := range m.Nodes() {
		if n.Name == name {
			return n.State, true
		}
	}
	return 0, false
}

func TestMembers(t *testing.T) {
	t.Parallel()

	self := Node{Name: "self", Region: "a", Incarnation: 1, State: Ready}
	other := Node{Name: "b-1", Region: "b", Incarnation: 3, Seq: 1, State: Ready}
	setup := func(t *testing.T) *members {
		t.Helper()
		m := newMembers(self, threeRegions(t, 1))
		m.quiet = false
		m.hear([]Node{other})
		m.see(identityOf(other))
		return m
	}
	requireState := func(t *testing.T, m *members, name string, want State) {
		t.Helper()
		state, known := stateIn(m.snapshot(), name)
		require.True(t, known, "%s is in the map", name)
		require.Equal(t, want, state)
	}

	t.Run("a node is ready once it is both heard and seen", func(t *testing.T) {
		t.Parallel()
		m := newMembers(self, threeRegions(t, 1))
		m.hear([]Node{other})
		requireState(t, m, "b-1", Dead)
		m.see(identityOf(other))
		requireState(t, m, "b-1", Ready)
		requireState(t, m, "self", Ready)
	})

	t.Run("a dead node is not ready until it is seen again", func(t *testing.T) {
		t.Parallel()
		m := setup(t)
		m.miss(identityOf(other))
		requireState(t, m, "b-1", Dead)
		other := other
		other.Seq++
		m.hear([]Node{other}) // an echo of what it said before
		requireState(t, m, "b-1", Dead)
		m.see(identityOf(other))
		requireState(t, m, "b-1", Ready)
	})

	t.Run("the late death of an earlier process says nothing about its heir", func(t *testing.T) {
		t.Parallel()
		m := setup(t)
		heir := Node{Name: "b-1", Region: "b", Incarnation: 4, Seq: 1, State: Ready, PeerAddr: "127.0.0.9:1"}
		m.hear([]Node{heir})
		m.see(identityOf(heir))
		require.Equal(t, []string{"b-1"}, m.conflicts())
		m.miss(identityOf(other))
		requireState(t, m, "b-1", Ready)
		require.Empty(t, m.conflicts())
	})

	t.Run("a process that comes and goes under another's name leaves it the name", func(t *testing.T) {
		t.Parallel()
		m := setup(t)
		passing := Node{Name: "b-1", Region: "b", Incarnation: 4, Seq: 1, State: Leaving}
		m.hear([]Node{passing})
		requireState(t, m, "b-1", Ready) // nobody has seen it
		m.see(identityOf(passing))
		requireState(t, m, "b-1", Leaving)
		m.miss(identityOf(passing))
		requireState(t, m, "b-1", Ready)
		m.forget(time.Unix(0, 0))
		require.Equal(t, 1, m.forget(time.Unix(1, 0)), "what is superseded is forgotten soon")
		m.miss(identityOf(other))
		requireState(t, m, "b-1", Dead)
	})

	t.Run("a quiet node tells of others only", func(t *testing.T) {
		t.Parallel()
		m := setup(t)
		m.quiet = true
		require.Equal(t, []Node{other}, m.tell())
	})

	t.Run("the dead are not told, and forgotten in the end", func(t *testing.T) {
		t.Parallel()
		m := setup(t)
		now := time.Unix(0, 0)
		require.Len(t, m.tell(), 2)
		require.Equal(t, "self", m.tell()[0].Name)
		require.Zero(t, m.forget(now.Add(-time.Hour)))

		m.miss(identityOf(other))
		require.Len(t, m.tell(), 1)
		require.Zero(t, m.forget(now))
		require.Zero(t, m.forget(now.Add(forgetAfter-1)))
		require.Equal(t, 1, m.forget(now.Add(forgetAfter)))
		require.Len(t, m.snapshot().Nodes(), 1)
	})

	t.Run("what is said of the node by a rival shows, and passes", func(t *testing.T) {
		t.Parallel()
		m := setup(t)
		_, exists := m.rival()
		require.False(t, exists)
		m.hear([]Node{{Name: "self", Region: "b", Incarnation: 2, State: Ready}})
		m.say(func(n *Node) { n.State = Leaving })
		rival, exists := m.rival()
		require.True(t, exists)
		require.EqualValues(t, 2, rival.Incarnation)
		requireState(t, m, "self", Leaving) // nobody sees it
		m.see(identityOf(rival))
		requireState(t, m, "self", Ready)

		m.miss(identityOf(rival))
		requireState(t, m, "self", Leaving)
		m.forget(time.Unix(0, 0))
		m.forget(time.Unix(1, 0))
		_, exists = m.rival()
		require.False(t, exists)
	})

	t.Run("an epoch heard makes the node behind until it adopts one as high", func(t *testing.T) {
		t.Parallel()
		m := setup(t)
		ahead := other
		ahead.Seq, ahead.TopologyEpoch = 2, 3
		m.hear([]Node{ahead})
		require.True(t, m.behind())
		require.False(t, m.adopt(threeRegions(t, 1)), "the same epoch is not newer")
		require.True(t, m.adopt(threeRegions(t, 2)))
		require.True(t, m.behind())
		require.True(t, m.adopt(threeRegions(t, 3)))
		require.False(t, m.behind())
		require.EqualValues(t, 3, m.snapshot().Topology().Epoch)
	})

	t.Run("a roster is bounded, and goes on hearing of whom it knows", func(t *testing.T) {
		t.Parallel()
		m := setup(t)
		for i := range maxNodes {
			m.hear([]Node{{Name: fmt.Sprintf("n-%d", i), Region: "a", Incarnation: 1}})
		}
		require.Len(t, m.heard, maxNodes)
		news, rejected := m.hear([]Node{{Name: "late", Region: "a", Incarnation: 1}})
		require.Empty(t, news)
		require.Equal(t, 1, rejected)
		leaving := other
		leaving.Seq, leaving.State = 2, Leaving
		news, rejected = m.hear([]Node{leaving})
		require.Equal(t, []Node{leaving}, news)
		require.Zero(t, rejected)
	})
}

func TestIdentitiesSurviveMemberlist(t *testing.T) {
	t.Parallel()
	id, ok := parseIdentity(identity{"a.b-c_1", 42}.String())
	require.True(t, ok)
	require.Equal(t, identity{"a.b-c_1", 42}, id)
	for _, s := range []string{"", "a", "a#", "a#x", "a#-1"} {
		_, ok := parseIdentity(s)
		require.False(t, ok, s)
	}
}
