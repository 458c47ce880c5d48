// Package routing decides where a reaction is written:
//
//	(video, user) → slot → home region → serving region → home node
//
// The first step, SlotOf, is a pure function that never changes. The second is
// the Topology, which is stored in the database and has an epoch. The other two
// depend on who is ready at the moment: rendezvous hashing over the living
// regions, then over the ready nodes of one. All of it is in a Map, an immutable
// snapshot that every request reads once. Nothing here reads a clock to decide
// which news is newer, and nothing reads the database but through the function
// that the owner passes in.
//
// # What a map promises
//
// A map is a hint. The database orders the writes of a slot, so nodes with
// different maps cost time, never a count, and nothing may be fenced or leased
// by a map. What holds:
//
//   - Nodes that heard the same things hold the same map, in whatever order and
//     however often they heard them: entries are merged by a maximum in a total
//     order (see merge), and all nodes compute the same rendezvous order.
//   - What a node says of itself is ordered by (incarnation, sequence). A restart
//     has a higher incarnation, so it takes over its name at once, at any address,
//     and the late death of the earlier process does not harm it.
//   - When a node comes or goes, only the slots that it wins move.
//   - A node's own state is in its own map when SetState returns.
//   - A map that is behind the topology's epoch is found out: nodes tell their
//     epoch in gossip, the owner tells it in calls, and who hears of a higher one
//     reads the topology until it has one as high.
//
// # How stale a map may be
//
// With memberlist's LAN profile and round trips up to 220 ms, on six nodes:
//
//	a node joins, or says something new        0.15 to 0.7 s
//	a node leaves                              0.25 s after it said so
//	a node is killed                           5 to 6 s
//	a region is cut off, seen by the majority  5 to 9 s
//	the same, seen by the region               12 to 50 s
//	a cut heals                                3 to 5 s
//	a broadcast is lost: repaired by push/pull 15 s and more
//
// A partial cut, in which two nodes cannot talk but a third reaches both, looks
// healthy: everybody is alive in every map. Callers therefore watch their own
// calls too, and try the next node of Route when one is refused.
//
// # Gossip
//
// Gossip is encrypted with a shared key, and joins its missing seeds for as long
// as it runs, because memberlist forgets the dead after half a minute and would
// never look for them again. memberlist's member is a process, named
// "name#incarnation"; the map's node is a name. An entry whose process the
// failure detector does not see is Dead in the map; after ten minutes it is
// forgotten.
//
// # Who does not fit
//
// A node that starts is quiet: memberlist has it, and nobody's map does, until
// it has met others and found that it fits to them. It ends (see Gossip.Run) if
// its name is taken by a process that answers a ping under its own identity, if
// its seeds answer and turn it away, or if the settled nodes go by another
// topology of the same epoch. A process that was killed a moment ago answers
// nothing, so a restart takes over its name before anybody has noticed the
// death. After a few seconds a node has settled, and ends for none of this: the
// newcomer gives way, never the node that serves.
//
// Two settled processes with one name can still meet, after a cut. Then the one
// with the higher incarnation has the name, for as long as it is live; the other
// logs an error, and the metric likewise_routing_name_conflicts shows it
// everywhere. likewise_routing_topology_conflicts does so for two databases.
//
// A node that runs alone needs no gossip: SingleNode and Static are its map.
package routing
