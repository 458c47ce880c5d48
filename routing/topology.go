package routing

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
)

// Region names a region of the deployment, as the database does: 1 to 63 of
// the characters a–z A–Z 0–9 - _ .
type Region string

// maxRegion is the longest name of a region, in bytes: that of a DNS label.
const maxRegion = 63

// Validate says what is wrong with the name.
func (r Region) Validate() error {
	if !validName(string(r), maxRegion) {
		return fmt.Errorf("region %q: must be 1 to %d of the characters a-z A-Z 0-9 - _ .", string(r), maxRegion)
	}
	return nil
}

// Topology says which region is the home of each slot. It is a small immutable
// value: copy it freely. The zero Topology has epoch 0 and no regions; every
// other one comes from NewTopology.
type Topology struct {
	// Epoch goes up by one each time the database's topology changes. Of two
	// topologies the one with the higher epoch is right.
	Epoch int64

	homes *[Slots]Region // never written after NewTopology
	hash  uint64         // of all of it, and of where it comes from
}

// NewTopology returns the topology that the database holds under epoch, where
// regions[slot] is the slot's home. Its error names every slot without a valid
// home.
func NewTopology(epoch int64, regions [Slots]Region) (Topology, error) {
	var errs []error
	if epoch < 1 {
		errs = append(errs, fmt.Errorf("epoch is %d: must be 1 or more", epoch))
	}
	for slot := 0; slot < Slots; {
		end := runEnd(&regions, slot)
		if err := regions[slot].Validate(); err != nil {
			errs = append(errs, fmt.Errorf("slots %d to %d: %w", slot, end-1, err))
		}
		slot = end
	}
	if err := errors.Join(errs...); err != nil {
		return Topology{}, fmt.Errorf("invalid topology: %w", err)
	}
	t := Topology{Epoch: epoch, homes: &regions}
	return t.From(""), nil
}

// From returns the topology as one that comes from a certain database. origin is
// anything that tells this database from others, and is the same wherever and
// whenever it is read. Nodes that go by one epoch and do not agree in homes and
// origin use different databases, and notice it.
func (t Topology) From(origin string) Topology {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %q", t.Epoch, origin)
	for s := range Slots {
		fmt.Fprintf(h, " %q", t.Home(Slot(s)))
	}
	t.hash = max(h.Sum64(), 1) // 0 says nothing
	return t
}

// Hash tells the topology from others of the same epoch, as From says. It is not
// 0.
func (t Topology) Hash() uint64 { return t.hash }

// runEnd returns the first slot after start whose region is another.
func runEnd(regions *[Slots]Region, start int) int {
	end := start + 1
	for end < Slots && regions[end] == regions[start] {
		end++
	}
	return end
}

// Contiguous gives each region one range of slots, in the order given. The
// ranges differ by at most one slot: region i of n starts at slot i·256/n,
// rounded down. Without regions every home is empty, which NewTopology refuses.
func Contiguous(regions []Region) [Slots]Region {
	var homes [Slots]Region
	for i, region := range regions {
		for slot := i * Slots / len(regions); slot < (i+1)*Slots/len(regions); slot++ {
			homes[slot] = region
		}
	}
	return homes
}

// Home returns the region in which the slot's rows lie. It is empty only in the
// zero Topology.
func (t Topology) Home(s Slot) Region {
	if t.homes == nil {
		return ""
	}
	return t.homes[s]
}

// Regions returns every region that is home to a slot, sorted by name.
func (t Topology) Regions() []Region {
	if t.homes == nil {
		return nil
	}
	regions := slices.Clone(t.homes[:])
	slices.Sort(regions)
	return slices.Compact(regions)
}

// LowestSlot returns the first slot whose home is r. It reports false if r is
// home to none.
func (t Topology) LowestSlot(r Region) (Slot, bool) {
	if t.homes == nil {
		return 0, false
	}
	i := slices.Index(t.homes[:], r)
	return Slot(max(i, 0)), i >= 0 //nolint:gosec // an index of 256 slots
}

// validName reports whether s is 1 to limit of the characters that names of
// regions and nodes are made of. They stand in SQL, in metrics and in addresses,
// so the set is small.
func validName(s string, limit int) bool {
	if s == "" || len(s) > limit {
		return false
	}
	for i := range len(s) {
		if !nameByte(s[i]) {
			return false
		}
	}
	return true
}

func nameByte(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return true
	default:
		return c == '-' || c == '_' || c == '.'
	}
}
