package routing

import (
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
	heard    roster // others' entries and our own
	live     map[identity]struct{}
	gone     map[string]time.Time // since when an entry's process is not live
	epoch    int64                // highest topology epoch heard
}

func newMembers(self Node, t Topology) *members {
	self.Seq = 1
	self.TopologyEpoch = t.Epoch
	return &members{
		self:     self,
		topology: t,
		heard:    roster{self.Name: self},
		live:     make(map[identity]struct{}),
		gone:     make(map[string]time.Time),
		epoch:    t.Epoch,
	}
}

// say changes what the node says of itself, and returns it under a new stamp.
func (m *members) say(change func(*Node)) Node {
	change(&m.self)
	m.self.Seq++
	m.heard, _ = merge(m.heard, roster{m.self.Name: m.self})
	return m.self
}

// hear merges what others said and returns what was news. Entries that do not
// fit any more are not accepted; their number comes back as rejected.
func (m *members) hear(nodes []Node) (news []Node, rejected int) {
	said := rosterOf(nodes)
	for name, n := range said {
		m.epoch = max(m.epoch, n.TopologyEpoch)
		if _, known := m.heard[name]; !known && len(m.heard)+len(said) > maxNodes {
			delete(said, name)
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

// forget drops the entries whose processes were not live for forgetAfter.
func (m *members) forget(now time.Time) (forgotten int) {
	for name, n := range m.heard {
		if m.seen(n) {
			delete(m.gone, name)
			continue
		}
		since, noted := m.gone[name]
		if !noted {
			m.gone[name] = now
		} else if now.Sub(since) >= forgetAfter {
			delete(m.gone, name)
			delete(m.heard, name)
			forgotten++
		}
	}
	if _, known := m.heard[m.self.Name]; !known {
		m.heard[m.self.Name] = m.self // a process that took our name is gone for good
	}
	return forgotten
}

// snapshot returns the map. An entry whose process is not live is Dead in it,
// until that process is seen again or another takes over its name.
func (m *members) snapshot() *Map {
	nodes := make([]Node, 0, len(m.heard))
	for _, n := range m.heard {
		if !m.seen(n) {
			n.State = Dead
		}
		nodes = append(nodes, n)
	}
	return NewMap(m.topology, nodes)
}

// tell returns what the node tells a peer that asks for everything: itself
// first, and the live. The dead are left out, or two nodes could keep an entry
// from being forgotten by telling it to each other.
func (m *members) tell() []Node {
	nodes := []Node{m.self}
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

// rival returns the entry under the node's own name that the node did not say.
// Then another process runs under that name.
func (m *members) rival() (Node, bool) {
	n := m.heard[m.self.Name]
	return n, n != m.self
}
