package routing

import (
	"cmp"
	"slices"
)

// weight is the rendezvous (highest random weight) score of a name for a slot.
// Every node computes the same scores, so that all of them name the same home
// node with nothing stored or agreed; and when a name comes or goes, only the
// slots that it wins move.
//
// It is FNV-1a (64 bit) of the name, then the slot added in and the finalizer
// of SplitMix64, which makes scores of neighbouring slots independent. It must
// never change: nodes of two versions share slots during an upgrade.
func weight(name string, s Slot) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	h += (uint64(s) + 1) * 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// byWeight returns items with the heaviest name for s first. Equal weights are
// in order of name. It does not change items.
func byWeight[T any](items []T, s Slot, name func(T) string) []T {
	return slices.SortedFunc(slices.Values(items), func(a, b T) int {
		x, y := name(a), name(b)
		return cmp.Or(cmp.Compare(weight(y, s), weight(x, s)), cmp.Compare(x, y))
	})
}

// regionsByWeight is the slot's rendezvous order of regions.
func regionsByWeight(regions []Region, s Slot) []Region {
	return byWeight(regions, s, func(r Region) string { return string(r) })
}

// nodesByWeight is the slot's rendezvous order of nodes.
func nodesByWeight(nodes []Node, s Slot) []Node {
	return byWeight(nodes, s, func(n Node) string { return n.Name })
}
