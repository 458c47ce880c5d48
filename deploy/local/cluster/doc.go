// Package cluster runs regions of nodes on this machine, as child processes of
// the likewise binary.
//
// Start prepares the database, gives every node its ports, certificate and
// log, puts a wan.Network between the regions, and returns once all nodes
// serve. Calls between nodes of different regions take the network's round
// trip; gossip and the way to the database are not delayed.
//
// A node can be killed, paused, drained and started again at the same
// addresses. Close drains all of them; no process outlives the caller, and no
// file does that the caller did not ask for.
package cluster
