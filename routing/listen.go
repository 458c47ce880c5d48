package routing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"
)

const (
	// readTimeout bounds one read of the topology.
	readTimeout = 3 * time.Second
	// readAgainAfter and readAgainAtMost are the pauses between reads that did
	// not bring the epoch that was heard: from what a lagging read needs to what
	// a database that is down can bear from every node.
	readAgainAfter  = 100 * time.Millisecond
	readAgainAtMost = 5 * time.Second
)

var (
	errReadTimeout = errors.New("timed out")
	errEpochTooLow = errors.New("the database's topology is older than what a peer goes by")
)

// mergeInbox merges messages until ctx ends.
func (g *Gossip) mergeInbox(ctx context.Context) error {
	var rival uint64       // the incarnation of the last that was reported
	var dissident identity // the last that was reported
	for {
		select {
		case msg := <-g.inbox:
			g.hear(msg)
			rival = g.reportRival(rival)
			dissident = g.reportDissent(dissident)
		case <-ctx.Done():
			return nil
		}
	}
}

// hear merges a message and passes the news on.
func (g *Gossip) hear(msg []byte) {
	nodes, err := decode(msg)
	if err != nil {
		g.metrics.dropped.WithLabelValues(dropUnreadable).Inc()
		g.log.Debug("dropped gossip", zap.Error(err))
		return
	}
	g.update(func(known *members) bool {
		news, rejected := known.hear(nodes)
		g.metrics.dropped.WithLabelValues(dropRosterFull).Add(float64(rejected))
		for _, n := range news {
			g.broadcast(n, nil)
		}
		return len(news) > 0
	})
}

// reportRival logs that another process runs under this node's name, once per
// process. It returns the incarnation of the rival that was reported last.
func (g *Gossip) reportRival(reported uint64) uint64 {
	g.mu.Lock()
	rival, exists := g.known.rival()
	self := g.known.self
	g.mu.Unlock()
	if !exists || rival.Incarnation == reported {
		return reported
	}
	g.log.Error("another process runs under this node's name; stop one of them, or give it a name of its own",
		zap.Uint64("incarnation", self.Incarnation),
		zap.Uint64("other_incarnation", rival.Incarnation),
		zap.String("peer", rival.PeerAddr))
	return rival.Incarnation
}

// reportDissent logs that a node goes by another topology of the same epoch. It
// returns the process that was reported last.
func (g *Gossip) reportDissent(reported identity) identity {
	g.mu.Lock()
	_, _, other := g.known.dissent()
	epoch := g.known.self.TopologyEpoch
	g.mu.Unlock()
	if other.Name == "" || identityOf(other) == reported {
		return reported
	}
	g.log.Error("a node goes by another topology of the same epoch; give all nodes the URL of one database",
		zap.String("peer_node", other.Name),
		zap.String("peer", other.PeerAddr),
		zap.Int64("epoch", epoch))
	return identityOf(other)
}

// followTopology reads the topology whenever a higher epoch was heard, until it
// has one as high.
func (g *Gossip) followTopology(ctx context.Context) error {
	for {
		select {
		case <-g.reread:
			g.catchUp(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

func (g *Gossip) catchUp(ctx context.Context) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = readAgainAfter, readAgainAtMost
	for g.behind() && ctx.Err() == nil {
		err := g.readTopology(ctx)
		if err == nil && !g.behind() {
			return
		}
		if err != nil {
			g.metrics.readsFailed.Inc()
			g.log.Warn("topology not read", zap.Error(err))
		}
		if !wait(ctx, pause.NextBackOff()) {
			return
		}
	}
}

// behind reports whether a higher epoch was heard than the node goes by.
func (g *Gossip) behind() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known.behind()
}

// readTopology reads the topology once, and adopts it if it is newer.
func (g *Gossip) readTopology(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readTimeout, errReadTimeout)
	defer cancel()
	t, err := g.cfg.Topology(ctx)
	if err != nil {
		return fmt.Errorf("reading the topology: %w", err)
	}
	if !g.adopt(t) {
		return fmt.Errorf("reading the topology: %w", errEpochTooLow)
	}
	return nil
}

// adopt swaps in a newer topology, and tells the others that the node has it.
func (g *Gossip) adopt(t Topology) (adopted bool) {
	g.update(func(known *members) bool {
		adopted = known.adopt(t)
		if adopted {
			g.say(known, func(n *Node) { n.TopologyEpoch, n.TopologyHash = t.Epoch, t.hash }, nil)
		}
		return adopted
	})
	if adopted {
		g.log.Info("topology changed", zap.Int64("epoch", t.Epoch))
	}
	return adopted
}

// wait returns after d, or false once ctx has ended.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
