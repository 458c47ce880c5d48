package routing

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// identity is one process: a node between a start and its end. The failure
// detector watches identities, so that the death of an earlier process says
// nothing about the one that took over its name, and a restart may come back at
// any address at once.
type identity struct {
	name        string
	incarnation uint64
}

func identityOf(n Node) identity { return identity{n.Name, n.Incarnation} }

// String returns the name of the identity in memberlist. Names of nodes hold no
// number sign.
func (id identity) String() string {
	return id.name + "#" + strconv.FormatUint(id.incarnation, 10)
}

func parseIdentity(s string) (identity, bool) {
	name, number, found := strings.Cut(s, "#")
	incarnation, err := strconv.ParseUint(number, 10, 64)
	return identity{name, incarnation}, found && err == nil
}

// forgetAfter is how long an entry is kept whose process nobody sees: long
// enough to show an operator what is missing, short enough that names of pods
// that never come back do not pile up.
const forgetAfter = 10 * time.Minute

// members is what a node knows: what it says of itself, what others said, and
// which processes the failure detector sees. It does no I/O, and knows no clock
// and no lock: Gossip guards it.
type members struct {
	self     Node
	topology Topology
	quiet    bool   // nobody has been told of self yet
	heard    roster // others' entries and our own
	live     map[identity]struct{}
	gone     map[identity]time.Time // since when an entry's process is not live
	epoch    int64                  // highest topology epoch heard
}

func newMembers(self Node, t Topology) *members {
	self.Seq = 1
	self.TopologyEpoch, self.TopologyHash = t.Epoch, t.hash
	return &members{
		self:     self,
		topology: t,
		quiet:    true,
		heard:    roster{identityOf(self): self},
		live:     make(map[identity]struct{}),
		gone:     make(map[identity]time.Time),
		epoch:    t.Epoch,
	}
}

// say changes what the node says of itself, and returns it under a new stamp.
func (m *members) say(change func(*Node)) Node {
	change(&m.self)
	m.self.Seq++
	m.heard, _ = merge(m.heard, roster{identityOf(m.self): m.self})
	return m.self
}

// hear merges what others said and returns what was news. Entries that do not
// fit any more are not accepted; their number comes back as rejected.
func (m *members) hear(nodes []Node) (news []Node, rejected int) {
	said := rosterOf(nodes)
	for id, n := range said {
		m.epoch = max(m.epoch, n.TopologyEpoch)
		if _, known := m.heard[id]; !known && len(m.heard)+len(said) > maxNodes {
			delete(said, id)
			rejected++
		}
	}
	m.heard, news = merge(m.heard, said)
	return news, rejected
}

// see notes that the failure detector sees a process.
func (m *members) see(id identity) { m.live[id] = struct{}{} }

// miss notes that the failure detector does not see a process any more.
func (m *members) miss(id identity) { delete(m.live, id) }

// seen reports whether the process behind n is live. The node itself is.
func (m *members) seen(n Node) bool {
	_, live := m.live[identityOf(n)]
	return live || identityOf(n) == identityOf(m.self)
}

// adopt takes a topology that was read from the database, if it is newer, and
// reports whether it was.
func (m *members) adopt(t Topology) bool {
	if t.Epoch <= m.topology.Epoch {
		return false
	}
	m.topology = t
	m.epoch = max(m.epoch, t.Epoch)
	return true
}

// behind reports whether a higher topology epoch was heard than the one that
// the node goes by.
func (m *members) behind() bool { return m.epoch > m.topology.Epoch }

// forget drops the entries whose processes were not live for forgetAfter, and
// earlier those whose name was taken over.
func (m *members) forget(now time.Time) (forgotten int) {
	current := m.current()
	for id, n := range m.heard {
		if m.seen(n) {
			delete(m.gone, id)
			continue
		}
		since, noted := m.gone[id]
		superseded := current[id.name] != n
		if !noted {
			m.gone[id] = now
		} else if superseded || now.Sub(since) >= forgetAfter {
			delete(m.gone, id)
			delete(m.heard, id)
			forgotten++
		}
	}
	return forgotten
}

// current returns, name by name, the entry that counts: that of the latest
// process which is live, so that a restart takes over at once, and a process that
// came and went under the name of another leaves it to that one. If none is
// live, it is the entry of the latest.
func (m *members) current() map[string]Node {
	current := make(map[string]Node, len(m.heard))
	for _, n := range m.heard {
		cur, ok := current[n.Name]
		if seen := m.seen(n); !ok || seen && !m.seen(cur) || seen == m.seen(cur) && n.Incarnation > cur.Incarnation {
			current[n.Name] = n
		}
	}
	return current
}

// snapshot returns the map. An entry whose process is not live is Dead in it,
// until that process is seen again or another takes over its name.
func (m *members) snapshot() *Map {
	current := m.current()
	nodes := make([]Node, 0, len(current))
	for _, n := range current {
		if !m.seen(n) {
			n.State = Dead
		}
		nodes = append(nodes, n)
	}
	return NewMap(m.topology, nodes)
}

// tell returns what the node tells a peer that asks for everything: itself
// first, unless it is quiet, and the live. The dead are left out, or two nodes could keep an entry
// from being forgotten by telling it to each other.
func (m *members) tell() []Node {
	var nodes []Node
	if !m.quiet {
		nodes = append(nodes, m.self)
	}
	for _, n := range m.heard {
		if m.seen(n) && identityOf(n) != identityOf(m.self) && len(nodes) < maxNodes {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// conflicts returns the names under which more than one process is live, by
// name. For a few seconds after a kill and a restart that is normal.
func (m *members) conflicts() []string {
	processes := make(map[string]int, len(m.live))
	for id := range m.live {
		processes[id.name]++
	}
	var names []string
	for name, n := range processes {
		if n > 1 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// rival returns the entry of a later process under the node's own name, or one
// under its very identity that it did not say.
func (m *members) rival() (Node, bool) {
	if n := m.heard[identityOf(m.self)]; n != m.self {
		return n, true
	}
	for _, n := range m.heard {
		if n.Name == m.self.Name && n.Incarnation > m.self.Incarnation {
			return n, true
		}
	}
	return Node{}, false
}

// votes counts nodes that go by one topology.
type votes struct{ settled, all int }

func (v votes) plus(n Node) votes {
	if n.Settled {
		v.settled++
	}
	v.all++
	return v
}

// dissent compares the node's topology with that of the live nodes which go by
// the same epoch. It returns how many agree, itself among them, how many do
// not, and one of these.
func (m *members) dissent() (agree, disagree votes, other Node) {
	agree = agree.plus(m.self)
	for _, n := range m.current() {
		switch {
		case identityOf(n) == identityOf(m.self), !m.seen(n), n.TopologyEpoch != m.self.TopologyEpoch, n.TopologyHash == 0:
		case n.TopologyHash == m.self.TopologyHash:
			agree = agree.plus(n)
		default:
			disagree = disagree.plus(n)
			if other.Name == "" || compareNames(n, other) < 0 {
				other = n
			}
		}
	}
	return agree, disagree, other
}

// compareNames prefers a settled node as an example, then the first by name.
func compareNames(a, b Node) int {
	return cmp.Or(cmp.Compare(b.flags(), a.flags()), cmp.Compare(a.Name, b.Name))
}
