package regions

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"likewise/routing"
)

// peerHealth knows the nodes that gave no answer, until a probe gets one. The
// map hears of a dead node after seconds, and of one that hangs for this node
// alone never; a call that would wait for it should not. It is safe for
// concurrent use.
type peerHealth struct {
	wake chan struct{} // holds one

	mu      sync.Mutex
	avoided map[string]routing.Node // guarded by mu; by address
	size    atomic.Int64            // of avoided, so that the usual case takes no lock
}

const (
	// probeEvery is the pause between two rounds of probes.
	probeEvery = 250 * time.Millisecond
	// maxProbes bounds the probes that run at once.
	maxProbes = 16
)

func newPeerHealth() *peerHealth {
	return &peerHealth{wake: make(chan struct{}, 1), avoided: make(map[string]routing.Node)}
}

func (h *peerHealth) count() int64 { return h.size.Load() }

func (h *peerHealth) avoids(node routing.Node) bool {
	if h.count() == 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.avoided[node.PeerAddr]
	return ok
}

func (h *peerHealth) avoid(node routing.Node) {
	h.mu.Lock()
	h.avoided[node.PeerAddr] = node
	h.size.Store(int64(len(h.avoided)))
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *peerHealth) clear(node routing.Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.avoided, node.PeerAddr)
	h.size.Store(int64(len(h.avoided)))
}

func (h *peerHealth) list() []routing.Node {
	h.mu.Lock()
	defer h.mu.Unlock()
	nodes := make([]routing.Node, 0, len(h.avoided))
	for _, node := range h.avoided {
		nodes = append(nodes, node)
	}
	return nodes
}

// run probes the nodes that are avoided, until ctx ends. It sleeps while there
// are none.
func (h *peerHealth) run(ctx context.Context, peers *peerClient, table routes) error {
	timer := time.NewTimer(probeEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.wake:
		case <-timer.C:
		}
		peers.forget(table.Map())
		h.probeAll(ctx, peers, table.Map())
		if h.count() > 0 {
			timer.Reset(probeEvery)
		}
	}
}

// probeAll probes each avoided node once, and forgets those that the map does
// not know any more: their addresses may never answer again.
func (h *peerHealth) probeAll(ctx context.Context, peers *peerClient, m *routing.Map) {
	known := make(map[string]string)
	for _, node := range m.Nodes() {
		known[node.PeerAddr] = node.Name
	}
	var g errgroup.Group
	g.SetLimit(maxProbes)
	for _, node := range h.list() {
		if known[node.PeerAddr] != node.Name {
			h.clear(node)
			continue
		}
		g.Go(func() error {
			if peers.probe(ctx, node) == nil {
				h.clear(node)
			}
			return nil
		})
	}
	_ = g.Wait() // probes return no errors
}
