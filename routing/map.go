package routing

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// Map is what one node believes about the others at one moment: the topology,
// and who is ready in which region. It is an immutable snapshot, safe for
// concurrent use; it does no I/O and knows no clock. Take it once per request,
// so that all of the request sees one map.
//
// The slices that it returns are shared. Callers must not modify them.
type Map struct {
	topology Topology
	nodes    []Node // sorted by name
	ready    map[Region][]Node
	ranked   []Region // regions that are home to a slot
	others   []Region // regions of ready nodes that are home to none

	routes [Slots]atomic.Pointer[[]Node] // filled on first use, then fixed
}

// NewMap returns the map of nodes under t. Names must be unique. It keeps no
// reference to nodes.
func NewMap(t Topology, nodes []Node) *Map {
	m := &Map{
		topology: t,
		nodes:    slices.SortedFunc(slices.Values(nodes), func(a, b Node) int { return cmp.Compare(a.Name, b.Name) }),
		ready:    make(map[Region][]Node),
		ranked:   t.Regions(),
	}
	for _, n := range m.nodes {
		if n.State == Ready {
			m.ready[n.Region] = append(m.ready[n.Region], n)
		}
	}
	for r := range m.ready {
		if !slices.Contains(m.ranked, r) {
			m.others = append(m.others, r)
		}
	}
	slices.Sort(m.others)
	return m
}

// SingleNode returns the map of a node that runs alone: whatever its state, it
// is the home node of every slot.
func SingleNode(t Topology, self Node) *Map {
	self.State = Ready
	return NewMap(t, []Node{self})
}

// Topology returns the topology that the map goes by.
func (m *Map) Topology() Topology { return m.topology }

// Nodes returns every node that the map knows, whatever its state, by name.
func (m *Map) Nodes() []Node { return m.nodes }

// Alive reports whether any node of the region is ready.
func (m *Map) Alive(r Region) bool { return len(m.ready[r]) > 0 }

// Serving returns the region that should write the slot: its home while any
// node there is ready, otherwise the next living region in the slot's rendezvous
// order. With no node ready anywhere it is the home region.
func (m *Map) Serving(s Slot) Region {
	if route := m.Route(s); len(route) > 0 {
		return route[0].Region
	}
	return m.topology.Home(s)
}

// HomeNode returns the node that should batch the slot's writes at present. It
// is a hint, not a lease: any node can commit any slot. It reports false if no
// node is ready.
func (m *Map) HomeNode(s Slot) (Node, bool) {
	route := m.Route(s)
	if len(route) == 0 {
		return Node{}, false
	}
	return route[0], true
}

// Route returns the ready nodes in the order in which to try them for the slot:
// those of the home region, then those of the other regions in the slot's
// rendezvous order, and last those of regions that are home to no slot. Within a
// region the order is the slot's rendezvous order of nodes. The first is the
// home node.
func (m *Map) Route(s Slot) []Node {
	if route := m.routes[s].Load(); route != nil {
		return *route
	}
	route := m.route(s)
	m.routes[s].Store(&route)
	return route
}

func (m *Map) route(s Slot) []Node {
	home := m.topology.Home(s)
	route := nodesByWeight(m.ready[home], s)
	for _, tier := range [][]Region{m.ranked, m.others} {
		for _, r := range regionsByWeight(tier, s) {
			if r != home {
				route = append(route, nodesByWeight(m.ready[r], s)...)
			}
		}
	}
	return slices.Clip(route)
}

// Static is a map that never changes: that of a node without gossip.
type Static struct{ m *Map }

// NewStatic returns a Static that answers m.
func NewStatic(m *Map) Static { return Static{m: m} }

// Map returns the map.
func (s Static) Map() *Map { return s.m }
