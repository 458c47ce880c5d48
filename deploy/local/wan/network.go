// Package wan puts distance between regions that run on one machine.
//
// Each region has one HTTP CONNECT proxy. What a node of that region sends
// through it to a node of another region arrives half a round trip later, and
// so does the answer; within a region nothing is delayed. The delay holds back
// each piece of data by itself, so it costs no throughput. Any client that can
// use a forward proxy can be put behind one, with TLS and HTTP/2 end to end.
//
// Only what goes through the proxies is delayed: gossip and the way to the
// database are not.
package wan

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// RTT gives the round trip between two regions. It is asked once per
// direction, with from and to in either order.
type RTT func(from, to string) time.Duration

// Uniform is one round trip between any two regions, and none within one.
func Uniform(rtt time.Duration) RTT {
	return func(from, to string) time.Duration {
		if from == to {
			return 0
		}
		return rtt
	}
}

// Network is the regions, the nodes in them and the links between them. Its
// methods are safe for concurrent use.
type Network struct {
	rtt RTT

	mu      sync.Mutex
	nodes   map[string]string   // address → region; guarded by mu
	links   map[Direction]*link // guarded by mu
	proxies []*proxy            // guarded by mu
}

// New returns a network without nodes.
func New(rtt RTT) *Network {
	return &Network{
		rtt:   rtt,
		nodes: make(map[string]string),
		links: make(map[Direction]*link),
	}
}

// Place says that the node at a host:port lies in region. The proxies reach
// placed nodes only.
func (n *Network) Place(addr, region string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nodes[addr] = region
}

func (n *Network) regionOf(addr string) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	region, ok := n.nodes[addr]
	return region, ok
}

// Listen opens the proxy of a region on a free loopback port and returns its
// URL. It answers once Run runs. All of a network's Listen calls come before
// its Run.
func (n *Network) Listen(ctx context.Context, region string) (proxyURL string, err error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("opening the proxy of region %q: %w", region, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.proxies = append(n.proxies, &proxy{network: n, region: region, ln: ln})
	return "http://" + ln.Addr().String(), nil
}

// Run serves the proxies until ctx ends, and returns after every connection
// was closed. A cancelled ctx is a clean stop: nil.
func (n *Network) Run(ctx context.Context) error {
	n.mu.Lock()
	proxies := n.proxies
	n.mu.Unlock()
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range proxies {
		g.Go(func() error { return p.run(ctx) })
	}
	return g.Wait()
}

// Cut lets nothing pass between two regions, in either direction. Nothing is
// told: what is sent is held, new connections hang, as behind a dead router.
func (n *Network) Cut(a, b string) {
	n.link(a, b).cut()
	n.link(b, a).cut()
}

// Heal ends a cut. What was held arrives now, in order.
func (n *Network) Heal(a, b string) {
	n.link(a, b).heal()
	n.link(b, a).heal()
}

// Reset breaks every open connection between two regions.
func (n *Network) Reset(a, b string) {
	n.link(a, b).reset()
	n.link(b, a).reset()
}

// Direction is one of the two ways between two regions.
type Direction struct{ From, To string }

// Traffic is what passed in one direction so far.
type Traffic struct {
	// Connections were opened by From, refused ones not counted.
	Connections int64
	// Open is how many of them are open now.
	Open int64
	// Bytes arrived at To, whoever opened the connection.
	Bytes int64
}

// Traffic returns what passed in each direction that was used.
func (n *Network) Traffic() map[Direction]Traffic {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make(map[Direction]Traffic, len(n.links))
	for d, l := range n.links {
		out[d] = Traffic{Connections: l.connections.Load(), Open: l.openNow(), Bytes: l.bytes.Load()}
	}
	return out
}

func (n *Network) link(from, to string) *link {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := Direction{From: from, To: to}
	l, ok := n.links[d]
	if !ok {
		l = newLink(n.rtt(from, to) / 2)
		n.links[d] = l
	}
	return l
}

// link is one direction between two regions.
type link struct {
	delay       time.Duration
	connections atomic.Int64
	bytes       atomic.Int64

	mu      sync.Mutex
	passing chan struct{}        // closed while not cut; guarded by mu
	open    map[*tunnel]struct{} // opened in this direction; guarded by mu
}

func newLink(delay time.Duration) *link {
	l := &link{delay: delay, passing: make(chan struct{}), open: make(map[*tunnel]struct{})}
	close(l.passing)
	return l
}

func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.passing:
		l.passing = make(chan struct{})
	default: // cut already
	}
}

func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.passing:
	default:
		close(l.passing)
	}
}

func (l *link) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for t := range l.open {
		t.abort(errReset)
	}
}

var errReset = errors.New("link was reset")

func (l *link) add(t *tunnel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[t] = struct{}{}
}

func (l *link) remove(t *tunnel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, t)
}

func (l *link) openNow() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.open))
}

// pass waits until something that was sent at a time has arrived: until the
// delay is over and the link is not cut.
func (l *link) pass(ctx context.Context, sent time.Time) error {
	if wait := time.Until(sent.Add(l.delay)); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	l.mu.Lock()
	passing := l.passing
	l.mu.Unlock()
	select {
	case <-passing:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
