package routing

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// sixNodes are two ready nodes in each of the regions a, b and c.
func sixNodes() []Node {
	var nodes []Node
	for _, name := range []string{"a-1", "a-2", "b-1", "b-2", "c-1", "c-2"} {
		nodes = append(nodes, Node{Name: name, Region: Region(name[:1]), Incarnation: 1, State: Ready})
	}
	return nodes
}

func setState(nodes []Node, region Region, s State) []Node {
	nodes = slices.Clone(nodes)
	for i := range nodes {
		if nodes[i].Region == region {
			nodes[i].State = s
		}
	}
	return nodes
}

// R40, R43
func TestASlotIsServedAtHomeWhileTheHomeLives(t *testing.T) {
	t.Parallel()
	m := NewMap(threeRegions(t, 1), sixNodes())
	for s := range Slots {
		home := m.Topology().Home(Slot(s))
		require.Equal(t, home, m.Serving(Slot(s)))
		node, ok := m.HomeNode(Slot(s))
		require.True(t, ok)
		require.Equal(t, home, node.Region)
	}
}

func TestADeadRegionsSlotsGoToTheNextInTheirOrder(t *testing.T) {
	t.Parallel()
	for _, state := range []State{Joining, Leaving, Dead} {
		m := NewMap(threeRegions(t, 1), setState(sixNodes(), "b", state))
		require.False(t, m.Alive("b"))
		heirs := map[Region]int{}
		for s := range Slots {
			serving := m.Serving(Slot(s))
			if home := m.Topology().Home(Slot(s)); home != "b" {
				require.Equal(t, home, serving, "other regions keep their slots")
				continue
			}
			order := slices.DeleteFunc(regionsByWeight([]Region{"a", "b", "c"}, Slot(s)), func(r Region) bool { return r == "b" })
			require.Equal(t, order[0], serving)
			heirs[serving]++
		}
		require.Len(t, heirs, 2, "both others take some of them")
	}
}

func TestRouteNamesEveryReadyNodeOnceRegionByRegion(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes := sixNodes()
		nodes = append(nodes, Node{Name: "x-1", Region: "x"}) // home to no slot
		for i := range nodes {
			nodes[i].State = rapid.SampledFrom([]State{Joining, Ready, Leaving, Dead}).Draw(t, nodes[i].Name)
		}
		topology, err := NewTopology(1, Contiguous([]Region{"a", "b", "c"}))
		require.NoError(t, err)
		m := NewMap(topology, nodes)
		s := Slot(rapid.Byte().Draw(t, "slot"))

		route := m.Route(s)
		ready := slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool { return n.State != Ready })
		require.ElementsMatch(t, ready, route)
		var regions []Region
		for _, n := range route {
			regions = append(regions, n.Region)
		}
		regions = slices.Compact(regions)
		require.Len(t, regions, len(m.ready), "the nodes of a region stand together")
		if len(regions) > 0 {
			require.Equal(t, regions[0], m.Serving(s))
			require.Equal(t, m.Alive(topology.Home(s)), regions[0] == topology.Home(s))
			require.Equal(t, m.Alive("x"), regions[len(regions)-1] == "x", "a region without slots comes last")
		} else {
			require.Equal(t, topology.Home(s), m.Serving(s))
		}
		require.Equal(t, route, m.Route(s))
	})
}

func TestAnEmptyMapHasNoHomeNode(t *testing.T) {
	t.Parallel()
	m := NewMap(threeRegions(t, 1), nil)
	_, ok := m.HomeNode(3)
	require.False(t, ok)
	require.Empty(t, m.Route(3))
}

func TestASingleNodeIsTheHomeNodeOfEverySlot(t *testing.T) {
	t.Parallel()
	static := NewStatic(SingleNode(threeRegions(t, 1), Node{Name: "only", Region: "b"}))
	for s := range Slots {
		node, ok := static.Map().HomeNode(Slot(s))
		require.True(t, ok)
		require.Equal(t, "only", node.Name)
		require.Equal(t, Region("b"), static.Map().Serving(Slot(s)))
	}
}

func TestAMapKeepsNoReferenceAndSortsNodes(t *testing.T) {
	t.Parallel()
	nodes := sixNodes()
	slices.Reverse(nodes)
	m := NewMap(threeRegions(t, 1), nodes)
	nodes[0].State = Dead
	require.Equal(t, sixNodes(), m.Nodes())
}

func TestRouteIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	m := NewMap(threeRegions(t, 1), sixNodes())
	want := NewMap(threeRegions(t, 1), sixNodes())
	t.Run("readers", func(t *testing.T) {
		for range 4 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for s := range Slots {
					require.Equal(t, want.Route(Slot(s)), m.Route(Slot(s)))
				}
			})
		}
	})
}

func BenchmarkRoute(b *testing.B) {
	m := NewMap(threeRegions(b, 1), sixNodes())
	b.ReportAllocs()
	var s Slot
	for b.Loop() {
		if len(m.Route(s)) != 6 {
			b.Fatal("nodes are missing")
		}
		s++
	}
}
