package routing

import (
	"fmt"
	"strings"
)

// The errors of this file say that a node which starts does not fit into the
// map that it would join. Gossip.Run ends with one of them only within its first
// seconds (see settleAfter): a node that has settled never ends for what others
// say.

// NameTakenError means that another living process runs under the node's name,
// and that it was there first.
type NameTakenError struct {
	Name string
	// GossipAddr is where the other process answered.
	GossipAddr string
	// PeerAddr is where it takes calls of other nodes; empty if that was not heard.
	PeerAddr string
}

func (e *NameTakenError) Error() string {
	where := "gossip at " + e.GossipAddr
	if e.PeerAddr != "" {
		where += ", calls at " + e.PeerAddr
	}
	return fmt.Sprintf("another process runs under the name %q (%s)", e.Name, where)
}

// SeedsRefusedError means that seeds answer and turn the node away, and that
// none could be joined: their gossip has another key, or what answers there is
// no gossip.
type SeedsRefusedError struct {
	// Seeds are the host:port addresses that answered.
	Seeds []string
}

func (e *SeedsRefusedError) Error() string {
	return "seeds answer and cannot be joined: another gossip key, or no gossip address: " + strings.Join(e.Seeds, ", ")
}

// OtherTopologyError means that the nodes which are there go by another
// topology of the same epoch: they use another database.
type OtherTopologyError struct {
	// Node is the name of one of them, and PeerAddr its address.
	Node, PeerAddr string
	// Epoch is the epoch that both go by.
	Epoch int64
}

func (e *OtherTopologyError) Error() string {
	return fmt.Sprintf("node %q (%s) goes by another topology of epoch %d: the two use different databases", e.Node, e.PeerAddr, e.Epoch)
}
