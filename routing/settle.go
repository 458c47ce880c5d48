package routing

import (
	"cmp"
	"context"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
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
	var l look
	for {
		v := g.latest.Load()
		if err := l.again(ctx, g, c); err != nil {
			return err
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

// look is what a young node remembers between two looks at the others.
type look struct {
	met      time.Time // when others were met; zero: there is nobody yet
	outvoted time.Time // since when the settled nodes go by another topology; zero: they do not
}

// again looks once more. It lets the node speak, or says why it must not run.
func (l *look) again(ctx context.Context, g *Gossip, c cluster) error {
	if l.met.IsZero() && g.others.Load() == 0 && g.twin.Load() == nil {
		return nil
	}
	if l.met.IsZero() {
		l.met = time.Now()
	}
	if len(g.Map().Nodes()) == 1 && time.Since(l.met) < hearFor {
		return nil // their word comes right behind
	}
	if err := g.nameTaken(ctx, c); err != nil {
		return err
	}
	err := g.outvoted()
	switch {
	case err == nil:
		l.outvoted = time.Time{}
		g.speak()
	case l.outvoted.IsZero():
		l.outvoted = time.Now()
	case time.Since(l.outvoted) > hearFor: // so it is not for want of hearing the others
		return err
	}
	return nil
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
	g.log.Info("settled", zap.Int64("others", g.others.Load()))
	return nil
}

func otherTopology(self, other Node) error {
	return &OtherTopologyError{Node: other.Name, PeerAddr: other.PeerAddr, Epoch: self.TopologyEpoch}
}

// outvoted returns an OtherTopologyError if more of the settled nodes go by
// another topology than by the node's own.
func (g *Gossip) outvoted() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if agree, disagree, other := g.known.dissent(); disagree.settled > agree.settled {
		return otherTopology(g.known.self, other)
	}
	return nil
}

// nameTaken returns a NameTakenError if an earlier process under the node's name
// lives.
func (g *Gossip) nameTaken(ctx context.Context, c cluster) error {
	self := identityOf(g.cfg.Self)
	for _, namesake := range c.earlier(self) {
		if c.answers(ctx, namesake) {
			return g.takenBy(namesake)
		}
	}
	// A node that looks is not settled: if our entry says so, the twin wrote it.
	twin := g.twin.Load()
	if twin == nil || !g.heard(self).Settled && twin.addr.Compare(c.self()) > 0 {
		return nil // of two young twins one stays
	}
	if c.answers(ctx, *twin) {
		return g.takenBy(*twin)
	}
	return nil
}

// takenBy says who has the node's name.
func (g *Gossip) takenBy(p process) error {
	taken := &NameTakenError{Name: g.cfg.Self.Name, GossipAddr: p.addr.String()}
	if p.id != identityOf(g.cfg.Self) {
		taken.PeerAddr = g.heard(p.id).PeerAddr
	}
	return taken
}

// heard returns what was heard of a process.
func (g *Gossip) heard(id identity) Node {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known.heard[id]
}

// process is an identity, and where its gossip is.
type process struct {
	id   identity
	addr netip.AddrPort
}

// processes are the members that the failure detector takes for live. They are
// noted as memberlist tells of them: what its Members returns it goes on writing
// to, without a lock that others could take.
type processes struct {
	mu     sync.Mutex
	byName map[string]process // guarded by mu
}

func (p *processes) add(member string, one process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byName == nil {
		p.byName = make(map[string]process)
	}
	p.byName[member] = one
}

func (p *processes) remove(member string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byName, member)
}

func (p *processes) all() []process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.byName))
}

// earlier returns the live processes under the name of id that started before it.
func (c cluster) earlier(id identity) []process {
	return slices.DeleteFunc(c.reached.all(), func(p process) bool {
		return p.id.name != id.name || p.id.incarnation >= id.incarnation
	})
}

// answers asks a process, where gossip says that it is, whether it lives. The
// failure detector's word is a few seconds old: a process that was killed a
// moment ago is live in it.
func (c cluster) answers(ctx context.Context, p process) bool {
	if p.addr == c.self() {
		return false // it was where we are
	}
	if !reachable(ctx, p.addr.String()) {
		return false
	}
	answers := make([]error, askedAtOnce)
	var group errgroup.Group
	for i := range answers {
		group.Go(func() error {
			answers[i] = c.ping(p)
			return nil
		})
	}
	_ = group.Wait() // answers holds the errors
	return slices.Contains(answers, nil)
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
