package routing

import (
	"errors"
	"fmt"
	"strconv"
)

// State is what a node says of itself, except for Dead.
type State uint8

// The states of a node. The numbers travel between nodes; of two entries with
// the same stamp the later state wins.
const (
	// Joining is a node that runs and does not yet take calls.
	Joining State = iota
	// Ready is a node that takes calls.
	Ready
	// Leaving is a node that finishes what it has and wants nothing new.
	Leaving
	// Dead is a node that the failure detector of this node does not see. No
	// node says it of itself, and it never travels.
	Dead
)

// String returns the state's name, as it stands in metrics and logs.
func (s State) String() string {
	switch s {
	case Joining:
		return "joining"
	case Ready:
		return "ready"
	case Leaving:
		return "leaving"
	case Dead:
		return "dead"
	default:
		return "State(" + strconv.Itoa(int(s)) + ")"
	}
}

// Bounds of what a node says of itself, in bytes. They keep one entry well
// below the size of a gossip packet, which is 1400 bytes.
const (
	maxNodeName = 63
	maxAddr     = 255
)

// Node is what one node says of itself, as far as another has heard. It is a
// comparable value.
type Node struct {
	// Name is unique among the nodes that run, and stays the same over
	// restarts: slots follow it. 1 to 63 of the characters a–z A–Z 0–9 - _ .
	Name   string
	Region Region
	// PeerAddr is the host:port where the node takes calls of other nodes.
	PeerAddr string
	// FrontAddr is the host:port where the node takes calls of users.
	FrontAddr string

	// Incarnation goes up by one each time a process starts under the name. It
	// is drawn from a counter in the database, never from a clock.
	Incarnation uint64
	// Seq goes up by one each time the process says something new of itself.
	Seq uint64

	State State
	// TopologyEpoch is the epoch of the topology that the node goes by, and
	// TopologyHash tells that topology from another one of the same epoch. 0:
	// the node does not say.
	TopologyEpoch int64
	TopologyHash  uint64
	// Settled is said by a process that has run for a while: whoever comes later
	// and does not fit to it is the one to give way.
	Settled bool
}

// Validate says everything that is wrong with the entry, by field. Addresses
// are not looked into: only their length is bounded.
func (n Node) Validate() error {
	var errs []error
	if !validName(n.Name, maxNodeName) {
		errs = append(errs, fmt.Errorf("name %q: must be 1 to %d of the characters a-z A-Z 0-9 - _ .", n.Name, maxNodeName))
	}
	if err := n.Region.Validate(); err != nil {
		errs = append(errs, err)
	}
	if len(n.PeerAddr) > maxAddr || len(n.FrontAddr) > maxAddr {
		errs = append(errs, fmt.Errorf("an address is longer than %d bytes", maxAddr))
	}
	if n.Incarnation == 0 {
		errs = append(errs, errors.New("incarnation is 0: draw one from the database at every start"))
	}
	if n.State > Leaving {
		errs = append(errs, fmt.Errorf("state %s is not one that a node says of itself", n.State))
	}
	if n.TopologyEpoch < 0 {
		errs = append(errs, fmt.Errorf("topology epoch is %d: must not be negative", n.TopologyEpoch))
	}
	return errors.Join(errs...)
}
