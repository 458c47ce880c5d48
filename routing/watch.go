package routing

import (
	"context"
	"fmt"
	"sync"
)

// version is a map, and a channel that is closed when there is a newer one.
type version struct {
	m        *Map
	replaced chan struct{}
}

// Map returns the newest map. It never blocks.
func (g *Gossip) Map() *Map { return g.latest.Load().m }

// Await returns the first map, from the present one on, that satisfies ok.
func (g *Gossip) Await(ctx context.Context, ok func(*Map) bool) (*Map, error) {
	for {
		v := g.latest.Load()
		if ok(v.m) {
			return v.m, nil
		}
		select {
		case <-v.replaced:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the map: %w", context.Cause(ctx))
		}
	}
}

// Refresh is for a caller who was told, by a peer's answer, of a topology epoch:
// it returns a map that goes by this epoch or a higher one, reading the topology
// if need be. Any number of callers share one read.
func (g *Gossip) Refresh(ctx context.Context, epoch int64) (*Map, error) {
	g.update(func(known *members) bool {
		known.epoch = max(known.epoch, epoch)
		return false
	})
	return g.Await(ctx, func(m *Map) bool { return m.Topology().Epoch >= epoch })
}

// Addr returns the IP:port that others reach this node's gossip at. It waits
// until Run has bound it.
func (g *Gossip) Addr(ctx context.Context) (string, error) {
	select {
	case <-g.bound:
		return g.addr, nil
	case <-ctx.Done():
		return "", fmt.Errorf("waiting for the gossip address: %w", context.Cause(ctx))
	}
}

// SetState changes what the node says of itself: Joining, Ready or Leaving. The
// node's own map has it when SetState returns; others hear it within a second.
func (g *Gossip) SetState(s State) { g.setState(s, nil) }

func (g *Gossip) setState(s State, sent func()) {
	if s > Leaving {
		panic("routing: no node says " + s.String() + " of itself") //nolint:forbidigo // the owner passes one of three constants
	}
	g.update(func(known *members) bool {
		g.say(known, func(n *Node) { n.State = s }, sent)
		return true
	})
}

// say changes what the node says of itself, and tells the others unless it is
// quiet: then they hear it with its first word. It needs mu.
func (g *Gossip) say(known *members, change func(*Node), sent func()) {
	n := known.say(change)
	if !known.quiet {
		g.broadcast(n, sent)
	} else if sent != nil {
		sent()
	}
}

// Leave tells the others to send nothing new. It returns when that was sent to
// enough of them to spread, when there is nobody to tell, or with ctx. The node
// goes on gossiping until Run's context ends: leave first, then stop accepting
// calls, finish them, stop Run.
func (g *Gossip) Leave(ctx context.Context) error {
	sent := make(chan struct{})
	g.setState(Leaving, sync.OnceFunc(func() { close(sent) }))
	for {
		v := g.latest.Load()
		if g.others.Load() == 0 {
			return nil
		}
		select {
		case <-sent:
			return nil
		case <-v.replaced: // perhaps the last of the others left, too
		case <-ctx.Done():
			return fmt.Errorf("announcing that the node leaves: %w", context.Cause(ctx))
		}
	}
}

// update changes what the node knows, publishes a new map if change says that
// something is new, and wakes the reader of the topology if the node is behind.
func (g *Gossip) update(change func(*members) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if change(g.known) {
		g.publish()
	}
	if g.known.behind() {
		select {
		case g.reread <- struct{}{}:
		default: // it is awake already
		}
	}
}

// publish swaps in a new map. It needs mu.
func (g *Gossip) publish() {
	m := g.known.snapshot()
	g.metrics.observe(g.known, m)
	g.others.Store(int64(len(g.known.live)))
	old := g.latest.Swap(&version{m: m, replaced: make(chan struct{})})
	close(old.replaced)
}

// state returns what the node says of itself.
func (g *Gossip) state() State {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known.self.State
}

// tell returns what the node tells a peer that asks for everything.
func (g *Gossip) tell() []Node {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known.tell()
}
