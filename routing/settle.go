package routing

import (
	"cmp"
	"context"
	"net"
	"time"

	"github.com/hashicorp/memberlist"
	"golang.org/x/sync/errgroup"
)

const (
	// settleAfter is how long a node looks whether it fits to the others: longer
	// than the failure detector takes to notice that the process before a restart
	// is dead, or than a dozen nodes that start together need to meet.
	settleAfter = 8 * time.Second
	// hearFor is how long a node that has met others waits for a word of theirs
	// before it speaks. The word comes right behind, unless they are quiet, too.
	hearFor = 500 * time.Millisecond
	// lookEvery is the time between two looks.
	lookEvery = 100 * time.Millisecond
	// askedAtOnce is how many pings ask whether a process lives: one may be lost.
	askedAtOnce = 3
	// dialTimeout bounds a connection that is opened only to see who answers.
	dialTimeout = 500 * time.Millisecond
)

// settle looks, while the node is young, whether it fits to those that are there
// before. It lets the node speak as soon as it has met others and found nothing,
// and returns when the node has settled, or with a NameTakenError or an
// OtherTopologyError.
func (g *Gossip) settle(ctx context.Context, c cluster) error {
	end := time.NewTimer(g.settleAfter)
	defer end.Stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var met time.Time
	for {
		v := g.latest.Load()
		if met.IsZero() && g.others.Load() > 0 {
			met = time.Now()
		}
		if g.twin.Load() != nil || !met.IsZero() && (len(v.m.Nodes()) > 1 || time.Since(met) > hearFor) {
			if err := g.misfit(ctx, c); err != nil {
				return err
			}
			g.speak()
		}
		select {
		case <-v.replaced:
		case <-tick.C:
		case <-end.C:
			return g.grow()
		case <-ctx.Done():
			return nil
		}
	}
}

// speak tells the others of the node, once.
func (g *Gossip) speak() {
	g.update(func(known *members) bool {
		if known.quiet {
			known.quiet = false
			g.broadcast(known.self, nil)
		}
		return false
	})
}

// grow makes the node a settled one, unless the others agree on another
// topology. Of nodes that all are young the more numerous stay, or those of the
// lesser hash: both sides decide alike.
func (g *Gossip) grow() error {
	g.mu.Lock()
	agree, disagree, other := g.known.dissent()
	self := g.known.self
	g.mu.Unlock()
	outvoted := cmp.Or(
		cmp.Compare(disagree.settled, agree.settled),
		cmp.Compare(disagree.all, agree.all),
		cmp.Compare(self.TopologyHash, other.TopologyHash))
	if disagree.all > 0 && outvoted > 0 {
		return otherTopology(self, other)
	}
	g.speak()
	g.update(func(known *members) bool {
		g.say(known, func(n *Node) { n.Settled = true }, nil)
		return true
	})
	return nil
}

func otherTopology(self, other Node) error {
	return &OtherTopologyError{Node: other.Name, PeerAddr: other.PeerAddr, Epoch: self.TopologyEpoch}
}

// misfit says why the node cannot stay.
func (g *Gossip) misfit(ctx context.Context, c cluster) error {
	g.mu.Lock()
	agree, disagree, other := g.known.dissent()
	self, claimed := g.known.self, g.known.heard[identityOf(g.known.self)]
	g.mu.Unlock()
	if disagree.settled > agree.settled {
		return otherTopology(self, other)
	}
	for _, namesake := range c.earlier(identityOf(self)) {
		if c.answers(ctx, namesake) {
			return g.nameTaken(namesake)
		}
	}
	twin := g.twin.Load()
	if twin == nil || !claimed.Settled && twin.Address() > c.ml.LocalNode().Address() {
		return nil // of two young twins one stays
	}
	if c.answers(ctx, twin) {
		return g.nameTaken(twin)
	}
	return nil
}

// nameTaken says who has the node's name.
func (g *Gossip) nameTaken(by *memberlist.Node) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	taken := &NameTakenError{Name: g.known.self.Name, GossipAddr: by.Address()}
	if id, ok := parseIdentity(by.Name); ok {
		taken.PeerAddr = g.known.heard[id].PeerAddr
	}
	return taken
}

// earlier returns the members under the name of id that started before it.
func (c cluster) earlier(id identity) []*memberlist.Node {
	var found []*memberlist.Node
	for _, n := range c.ml.Members() {
		if other, ok := parseIdentity(n.Name); ok && other.name == id.name && other.incarnation < id.incarnation {
			found = append(found, n)
		}
	}
	return found
}

// answers asks a process, where gossip says that it is, whether it lives. The
// failure detector's word is a few seconds old: a process that was killed a
// moment ago is live in it. Only the very process answers a ping: whoever else
// has its address by now does not.
func (c cluster) answers(ctx context.Context, n *memberlist.Node) bool {
	if n.Address() == c.ml.LocalNode().Address() {
		return false // it was where we are
	}
	if !reachable(ctx, n.Address()) {
		return false
	}
	addr := &net.UDPAddr{IP: n.Addr, Port: int(n.Port)}
	answers := make([]error, askedAtOnce)
	var group errgroup.Group
	for i := range answers {
		group.Go(func() error {
			_, answers[i] = c.ml.Ping(n.Name, addr)
			return nil
		})
	}
	_ = group.Wait() // answers holds the errors
	for _, err := range answers {
		if err == nil {
			return true
		}
	}
	return false
}

// reachable reports whether anything takes TCP connections at addr.
func reachable(ctx context.Context, addr string) bool {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	_ = conn.Close() // it said all that was asked
	return true
}

// alone reports whether the node has not met any other.
func (g *Gossip) alone() bool { return g.others.Load() == 0 && len(g.Map().Nodes()) == 1 }
