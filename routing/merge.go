package routing

import (
	"cmp"
	"maps"
)

// roster is what a node has heard of each process.
type roster map[identity]Node

// compare orders two things said under one name. First comes the stamp
// (Incarnation, Seq), which only the node that speaks raises: so no clock
// decides which news is newer.
//
// One stamp names two entries only if two processes got the same incarnation,
// which is a fault (it is logged where it is seen). The order is total all the
// same: the later state wins, so that "leaving" beats "ready", then the rest
// decides, so that every node picks the same entry whatever it hears first.
func compare(a, b Node) int {
	return cmp.Or(
		cmp.Compare(a.Incarnation, b.Incarnation),
		cmp.Compare(a.Seq, b.Seq),
		cmp.Compare(a.State, b.State),
		cmp.Compare(a.TopologyEpoch, b.TopologyEpoch),
		cmp.Compare(a.Region, b.Region),
		cmp.Compare(a.PeerAddr, b.PeerAddr),
		cmp.Compare(a.FrontAddr, b.FrontAddr),
		cmp.Compare(a.TopologyHash, b.TopologyHash),
		cmp.Compare(a.flags(), b.flags()),
	)
}

// merge returns, process by process, the greater entry of a and b, and the entries of
// b that were greater: the news. It changes neither. Because it is a maximum in
// a total order, three laws hold for all rosters:
//
//	merge(a, a) = a                              idempotent
//	merge(a, b) = merge(b, a)                    commutative
//	merge(a, merge(b, c)) = merge(merge(a, b), c) associative
//
// Hence nodes that heard the same things, in any order and any number of times,
// hold the same roster.
func merge(a, b roster) (merged roster, news []Node) {
	merged = maps.Clone(a)
	if merged == nil {
		merged = make(roster, len(b))
	}
	for id, n := range b {
		if cur, ok := merged[id]; !ok || compare(n, cur) > 0 {
			merged[id] = n
			news = append(news, n)
		}
	}
	return merged, news
}

// rosterOf merges nodes, which may hold a process more than once.
func rosterOf(nodes []Node) roster {
	r := make(roster, len(nodes))
	for _, n := range nodes {
		if cur, ok := r[identityOf(n)]; !ok || compare(n, cur) > 0 {
			r[identityOf(n)] = n
		}
	}
	return r
}
