package routing

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The migration of the database computes the same ranges: change both or none.
func TestContiguousGoldenRanges(t *testing.T) {
	t.Parallel()
	topology := threeRegions(t, 1)
	for region, want := range map[Region]Slot{"a": 0, "b": 85, "c": 170} {
		slot, ok := topology.LowestSlot(region)
		require.True(t, ok)
		require.Equal(t, want, slot, "lowest slot of %s", region)
	}
	require.Equal(t, Region("c"), topology.Home(255))
}

func TestContiguousRangesAreNearEqualAndInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		regions := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,8}`), 1, 40, rapid.ID[string]).Draw(t, "regions")
		names := make([]Region, len(regions))
		for i, r := range regions {
			names[i] = Region(r)
		}
		homes := Contiguous(names)
		sizes, order := map[Region]int{}, []Region{}
		for slot, r := range homes {
			sizes[r]++
			if slot == 0 || homes[slot-1] != r {
				order = append(order, r)
			}
		}
		require.Equal(t, names, order, "one range each, in the order given")
		for r, n := range sizes {
			require.InDelta(t, float64(Slots)/float64(len(names)), n, 1, "slots of %s", r)
		}
	})
}

func TestNewTopologyRefusesWithTheSlotsNamed(t *testing.T) {
	t.Parallel()
	homes := Contiguous([]Region{"eu", "us"})
	homes[7], homes[8], homes[200] = "", "", "not a region"

	_, err := NewTopology(0, homes)
	require.ErrorContains(t, err, "epoch is 0: must be 1 or more")
	require.ErrorContains(t, err, `slots 7 to 8: region ""`)
	require.ErrorContains(t, err, `slots 200 to 200: region "not a region"`)

	_, err = NewTopology(1, Contiguous(nil))
	require.ErrorContains(t, err, `slots 0 to 255: region ""`)
}

func TestTopologyKeepsNoReference(t *testing.T) {
	t.Parallel()
	homes := Contiguous([]Region{"us", "eu"})
	topology, err := NewTopology(3, homes)
	require.NoError(t, err)
	homes[0] = "changed"
	require.Equal(t, Region("us"), topology.Home(0))
	require.Equal(t, []Region{"eu", "us"}, topology.Regions())

	_, ok := topology.LowestSlot("ap")
	require.False(t, ok)
}

func TestZeroTopologyHasNoHomes(t *testing.T) {
	t.Parallel()
	var zero Topology
	require.Empty(t, zero.Home(0))
	require.Empty(t, zero.Regions())
	_, ok := zero.LowestSlot("")
	require.False(t, ok)
}
