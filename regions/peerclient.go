package regions

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	peerv1 "likewise/proto/likewise/peer/v1"
	"likewise/proto/likewise/peer/v1/peerv1connect"
	"likewise/routing"
	"likewise/storage"
)

// peerClient calls other nodes, over HTTP/2 and mutual TLS. It is safe for
// concurrent use.
//
// It must tell whether a call that failed was surely not sent. It knows from
// net/http's trace: as long as a call was given no connection, not one byte of
// it was written. Whatever fails before that, a refused connection, a proxy that
// cannot connect, a handshake, is definite; whatever fails later is not.
//
// net/http repeats some requests by itself, and tells through the same trace.
// Over HTTP/2 it does so only for streams that the other side, by GOAWAY or
// REFUSED_STREAM, declares not to have begun, and for PROTOCOL_ERROR, which a Go
// server answers only before it has the whole of a request, and our handlers
// begin after that. HTTP/1, where a lost connection may lead to a repeat, is off;
// so is the header Idempotency-Key, which net/http takes as leave to repeat.
type peerClient struct {
	http       *http.Client
	transport  *http.Transport
	hopTimeout time.Duration
	health     *peerHealth
	metrics    *metrics

	mu      sync.Mutex
	clients map[string]peerv1connect.PeerServiceClient // guarded by mu; by address
}

const (
	dialTimeout = time.Second
	// A connection on which nothing comes back within pingAfter + pingTimeout is
	// given up. Until then a node behind it is avoided, as calls to it time out.
	pingAfter   = 2 * time.Second
	pingTimeout = 2 * time.Second
	idleTimeout = 90 * time.Second
)

func newPeerClient(cfg *PeersConfig, health *peerHealth, m *metrics) (*peerClient, error) {
	cert, err := cfg.certificate()
	if err != nil {
		return nil, err
	}
	authority, err := cfg.authority()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig: &tls.Config{
			MinVersion:   tls.VersionTLS13,
			Certificates: []tls.Certificate{cert},
			RootCAs:      authority,
			ServerName:   PeerName,
		},
		Protocols:       onlyHTTP2(),
		HTTP2:           &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		IdleConnTimeout: idleTimeout,
	}
	if cfg.Proxy != nil {
		transport.Proxy = http.ProxyURL(cfg.Proxy)
	}
	return &peerClient{
		http:       &http.Client{Transport: transport},
		transport:  transport,
		hopTimeout: cfg.HopTimeout,
		health:     health,
		metrics:    m,
		clients:    make(map[string]peerv1connect.PeerServiceClient),
	}, nil
}

func onlyHTTP2() *http.Protocols {
	var p http.Protocols
	p.SetHTTP2(true)
	return &p
}

func (c *peerClient) close() { c.transport.CloseIdleConnections() }

func (c *peerClient) to(node routing.Node) peerv1connect.PeerServiceClient {
	c.mu.Lock()
	defer c.mu.Unlock()
	client, ok := c.clients[node.PeerAddr]
	if !ok {
		client = peerv1connect.NewPeerServiceClient(c.http, "https://"+node.PeerAddr,
			connect.WithReadMaxBytes(maxBody),
			connect.WithAcceptCompression("gzip", nil, nil)) // answers are small
		c.clients[node.PeerAddr] = client
	}
	return client
}

// forget drops clients of nodes that are no more.
func (c *peerClient) forget(m *routing.Map) {
	known := make(map[string]bool)
	for _, node := range m.Nodes() {
		known[node.PeerAddr] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for addr := range c.clients {
		if !known[addr] {
			delete(c.clients, addr)
		}
	}
}

// set sends a write to another node, once. The error is a domain error, as if
// the write had been tried here; a notSentError if it was surely not sent; or
// ErrOutcomeUnknown.
func (c *peerClient) set(ctx context.Context, node routing.Node, by routing.Topology, set storage.Set) (storage.Result, error) {
	resp, err := hop(ctx, c, "set", node, func(ctx context.Context) (*peerv1.SetResponse, error) {
		return c.to(node).Set(ctx, setToPeer(by, set))
	})
	if err != nil {
		return storage.Result{}, err
	}
	result, err := resultFromPeer(resp)
	if err != nil { // it was applied, and the other node speaks of something newer than we know
		return storage.Result{}, fmt.Errorf("%w: node %q: %w", storage.ErrOutcomeUnknown, node.Name, err)
	}
	return result, nil
}

func (c *peerClient) get(ctx context.Context, node routing.Node, by routing.Topology, video storage.VideoID, user storage.UserID) (storage.State, error) {
	resp, err := hop(ctx, c, "get", node, func(ctx context.Context) (*peerv1.GetResponse, error) {
		return c.to(node).Get(ctx, &peerv1.GetRequest{TopologyEpoch: by.Epoch, TopologyHash: by.Hash(), UserId: string(user), VideoId: string(video)})
	})
	if err != nil {
		return storage.State{}, err
	}
	reaction, err := reactionFromProto(resp.GetReaction())
	return storage.State{Reaction: reaction, Version: resp.GetVersion()}, err
}

// getMany reads reactions of one user, in the order of places.
func (c *peerClient) getMany(ctx context.Context, node routing.Node, by routing.Topology, user storage.UserID, places []storage.Place) ([]storage.Reading, error) {
	resp, err := hop(ctx, c, "batch_get", node, func(ctx context.Context) (*peerv1.BatchGetResponse, error) {
		return c.to(node).BatchGet(ctx, batchToPeer(by, user, places))
	})
	if err != nil {
		return nil, err
	}
	readings, err := readingsFromPeer(resp, len(places))
	if err != nil {
		return nil, fmt.Errorf("node %q: %w", node.Name, err)
	}
	return readings, nil
}

var (
	errWrongNode = errors.New("another node answers at this address")
	errNoProbe   = fmt.Errorf("%w: the node does not answer", context.DeadlineExceeded)
)

// probe returns nil if the node answers.
func (c *peerClient) probe(ctx context.Context, node routing.Node) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.hopTimeout, errNoProbe)
	defer cancel()
	resp, err := c.to(node).Probe(ctx, &peerv1.ProbeRequest{})
	if err != nil {
		return fmt.Errorf("probe node %q: %w", node.Name, err)
	}
	if resp.GetNode() != node.Name {
		return errWrongNode
	}
	return nil
}

var errHopTimeout = fmt.Errorf("%w: the other node took too long", context.DeadlineExceeded)

// fairTime is how long a node may take before a caller's leaving or short
// deadline says anything about the node.
const fairTime = 250 * time.Millisecond

// hop makes one call to another node within the hop's own timeout. A node that
// gives no answer is avoided from then on, unless the caller gave it no time.
func hop[T any](ctx context.Context, c *peerClient, call string, node routing.Node, do func(context.Context) (*T, error)) (*T, error) {
	began := time.Now()
	limited, cancel := context.WithTimeoutCause(ctx, c.hopTimeout, errHopTimeout)
	defer cancel()
	traced, sent := traceSending(limited)
	resp, err := do(traced)
	err = hopError(err, sent, node)
	if err != nil && !answered(err) && (ctx.Err() == nil || time.Since(began) >= fairTime) {
		c.health.avoid(node)
	}
	c.metrics.hops.WithLabelValues(call, hopOutcome(err)).Inc()
	return resp, err
}

// traceSending returns a context for one call, and whether the call has been
// given a connection. If net/http repeats it, because the first connection did
// not begin it, the last attempt counts.
func traceSending(ctx context.Context) (context.Context, *atomic.Bool) {
	var sent atomic.Bool
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { sent.Store(false) },
		GotConn: func(httptrace.GotConnInfo) { sent.Store(true) },
	}), &sent
}

// noAnswerError means that the other node did not say how the call ended.
type noAnswerError struct {
	node string
	err  error
}

func (e *noAnswerError) Error() string {
	return fmt.Sprintf("no answer from node %q: %v", e.node, e.err)
}
func (e *noAnswerError) Unwrap() error { return e.err }

func hopError(err error, sent *atomic.Bool, node routing.Node) error {
	if err == nil {
		return nil
	}
	if answer, ok := errors.AsType[*connect.Error](err); ok && connect.IsWireError(answer) {
		return fmt.Errorf("node %q: %w", node.Name, fromPeer(answer))
	}
	lost := &noAnswerError{node: node.Name, err: err}
	if !sent.Load() {
		return &notSentError{Cause: lost}
	}
	return fmt.Errorf("%w: %w", storage.ErrOutcomeUnknown, lost)
}

func answered(err error) bool {
	_, lost := errors.AsType[*noAnswerError](err)
	return !lost
}

func hopOutcome(err error) string {
	switch judge(err) {
	case served:
		return "served"
	case refused:
		return "refused"
	case elsewhere:
		return "elsewhere"
	default:
		return "unknown"
	}
}
