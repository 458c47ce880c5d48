package routing

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Nodes of two versions must agree on home nodes during an upgrade.
func TestWeightGoldenVectors(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		name string
		slot Slot
		want uint64
	}{
		{"eu-1", 0, 0xa1b3404673bc9226},
		{"eu-1", 1, 0xa65906018e45274b},
		{"eu-2", 0, 0x9e29238aa4de9cbf},
		{"us-east-1", 255, 0x7112d65cc3db2e76},
		{"", 0, 0xc3817c016ba4ff30},
	} {
		require.Equal(t, v.want, weight(v.name, v.slot), "weight(%q, %d)", v.name, v.slot)
	}
	require.Equal(t, []Region{"c", "a", "b"}, regionsByWeight([]Region{"a", "b", "c"}, 0))
}

func TestRendezvousIgnoresTheOrderOfItsInput(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawNodes(t)
		slot := Slot(rapid.Byte().Draw(t, "slot"))
		shuffled := rapid.Permutation(nodes).Draw(t, "shuffled")
		require.Equal(t, nodesByWeight(nodes, slot), nodesByWeight(shuffled, slot))
	})
}

func TestANodeThatGoesMovesOnlyItsOwnSlots(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawNodes(t)
		gone := rapid.SampledFrom(nodes).Draw(t, "gone")
		isGone := func(n Node) bool { return n == gone }
		rest := slices.DeleteFunc(slices.Clone(nodes), isGone)
		for s := range Slots {
			before := slices.DeleteFunc(nodesByWeight(nodes, Slot(s)), isGone)
			if !slices.Equal(before, nodesByWeight(rest, Slot(s))) {
				t.Fatalf("slot %d: the others do not keep their order", s)
			}
		}
	})
}

func TestSlotsSpreadOverNodes(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 3, 6, 12} {
		nodes := make([]Node, n)
		for i := range nodes {
			nodes[i].Name = fmt.Sprintf("eu-%d", i+1)
		}
		wins := map[string]int{}
		for s := range Slots {
			wins[nodesByWeight(nodes, Slot(s))[0].Name]++
		}
		// The wins of one node are binomial: three deviations either way.
		p := 1 / float64(n)
		for _, node := range nodes {
			require.InDelta(t, Slots*p, wins[node.Name], 3*math.Sqrt(Slots*p*(1-p)), "%s of %d nodes", node.Name, n)
		}
	}
}

func drawNodes(t *rapid.T) []Node {
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9-]{1,10}`), 1, 12, rapid.ID[string]).Draw(t, "names")
	nodes := make([]Node, len(names))
	for i, name := range names {
		nodes[i] = Node{Name: name, State: Ready}
	}
	return nodes
}
