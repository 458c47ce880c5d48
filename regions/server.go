package regions

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"connectrpc.com/grpchealth"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"likewise/proto/likewise/v1/likewisev1connect"
	"likewise/storage"
)

// Server is the front door of one node, and, if the node has peers, the door
// through which they come.
type Server struct {
	cfg     Config
	deps    Deps
	log     *zap.Logger
	metrics *metrics
	auth    *authenticator
	counts  *countCache
	router  *router
	peers   *peerClient // nil: this node runs alone
	health  *grpchealth.StaticChecker
	leaving atomic.Bool
	left    chan struct{} // closed when streams must end

	fresh         freshConns
	frontListener net.Listener
	front         *http.Server
	peerListener  net.Listener // nil: this node runs alone
	back          *http.Server // nil: this node runs alone
}

// New checks cfg, opens the listeners that it was not given, and starts nothing.
// From then on the addresses are known. Whoever does not call Run calls Close.
func New(cfg Config, deps Deps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure the front door:\n%w", err)
	}
	if deps.Store == nil || deps.Routes == nil {
		return nil, errors.New("configure the front door: Store and Routes are required")
	}
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	s := &Server{cfg: cfg.withDefaults(), deps: deps, log: deps.Log, metrics: newMetrics(), left: make(chan struct{})}
	if err := errors.Join(s.assemble(), s.listen()); err != nil {
		s.Close()
		return nil, fmt.Errorf("open the front door: %w", err)
	}
	return s, nil
}

// assemble makes everything but the listeners.
func (s *Server) assemble() error {
	s.health = grpchealth.NewStaticChecker(likewisev1connect.ReactionServiceName)
	avoided := newPeerHealth()
	var authErr, countsErr, peersErr, backErr, frontErr error
	s.auth, authErr = newAuthenticator(s.cfg.Auth, s.log, s.metrics)
	s.counts, countsErr = newCountCache(s.deps.Store, &storage.Clock{}, s.cfg.Counts, s.metrics)
	if s.cfg.Peers != nil {
		s.peers, peersErr = newPeerClient(s.cfg.Peers, avoided, s.metrics)
		s.back, backErr = s.backServer()
	}
	s.router = &router{
		node:   s.cfg.Node,
		region: s.cfg.Region,
		routes: s.deps.Routes,
		store:  s.deps.Store,
		peers:  s.peers,
		health: avoided,
	}
	s.front, frontErr = s.frontServer()
	return errors.Join(authErr, countsErr, peersErr, backErr, frontErr, s.metrics.register(s.deps.Registerer, s.deps.Routes, avoided))
}

func (s *Server) listen() error {
	var frontErr, peerErr error
	s.frontListener, frontErr = orListen(s.cfg.Listener, s.cfg.Listen, "Listen")
	if s.cfg.Peers != nil {
		s.peerListener, peerErr = orListen(s.cfg.Peers.Listener, s.cfg.Peers.Listen, "Peers.Listen")
	}
	return errors.Join(frontErr, peerErr)
}

func orListen(given net.Listener, addr, field string) (net.Listener, error) {
	if given != nil {
		return given, nil
	}
	opened, err := net.Listen("tcp", addr) //nolint:noctx // binding a port does not block
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", field, addr, err)
	}
	return opened, nil
}

// FrontAddr is the host:port where users call.
func (s *Server) FrontAddr() string { return s.frontListener.Addr().String() }

// PeerAddr is the host:port where other nodes call. It is empty if this node
// runs alone.
func (s *Server) PeerAddr() string {
	if s.peerListener == nil {
		return ""
	}
	return s.peerListener.Addr().String()
}

// Close closes the listeners of a Server that never ran.
func (s *Server) Close() {
	for _, l := range []net.Listener{s.frontListener, s.peerListener} {
		if l != nil {
			_ = l.Close() // nothing was ever accepted
		}
	}
}

// Run serves until ctx ends or a listener fails, and then drains. It returns
// after everything that it started has stopped. If ctx ended and all calls in
// flight could be finished, it returns nil. Call it once; the Store must work
// until it returns.
func (s *Server) Run(ctx context.Context) error {
	g, stopping := errgroup.WithContext(ctx)
	g.Go(func() error { return serve(s.serveFront, s.frontListener) })
	g.Go(func() error { return s.auth.keys.run(stopping) })
	if s.peers != nil {
		g.Go(func() error {
			return serve(func(l net.Listener) error { return s.back.ServeTLS(l, "", "") }, s.peerListener)
		})
		g.Go(func() error { return s.router.health.run(stopping, s.peers, s.deps.Routes) })
	}
	g.Go(func() error {
		<-stopping.Done()
		return s.drain(context.WithoutCancel(ctx))
	})
	err := g.Wait()
	s.counts.close()
	if s.peers != nil {
		s.peers.close()
	}
	return err
}

func serve(run func(net.Listener) error, l net.Listener) error {
	if err := run(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// watchersHear is how long streams go on after the health has changed.
const watchersHear = 200 * time.Millisecond

var errDrainTimeout = errors.New("drain timed out")

// drain lets the node go without a failed call: others stop choosing it before
// it stops answering, and what it has begun it finishes.
func (s *Server) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.DrainTimeout, errDrainTimeout)
	defer cancel()
	s.announce(ctx)
	s.leaving.Store(true)
	s.health.SetStatus("", grpchealth.StatusNotServing)
	s.health.SetStatus(likewisev1connect.ReactionServiceName, grpchealth.StatusNotServing)
	// Streams have no end of their own: who watches the health hears of the
	// leaving, and is then hung up on.
	// The same grace lets a first call arrive on a connection that was just made.
	defer time.AfterFunc(watchersHear, func() {
		close(s.left)
		s.fresh.close()
	}).Stop()
	var back errgroup.Group
	if s.back != nil {
		back.Go(func() error { return shutdown(ctx, s.back, "calls of other nodes") })
	}
	return errors.Join(shutdown(ctx, s.front, "calls of users"), back.Wait())
}

// announceTimeout bounds the farewell, so that time is left to finish calls.
const announceTimeout = 2 * time.Second

var errAnnounceTimeout = errors.New("announcing that this node leaves took too long")

// announce tells the others, who will notice anyway: that it failed is logged
// and does not fail the drain.
func (s *Server) announce(ctx context.Context) {
	if s.deps.AnnounceLeaving == nil {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, min(announceTimeout, s.cfg.DrainTimeout/2), errAnnounceTimeout)
	defer cancel()
	if err := s.deps.AnnounceLeaving(ctx); err != nil {
		s.log.Warn("leaving unannounced", zap.Error(err))
	}
}

// shutdown stops accepting, finishes what was begun, and, when the time is up,
// breaks off the rest.
func shutdown(ctx context.Context, server *http.Server, what string) error {
	if server.Shutdown(ctx) == nil {
		return nil
	}
	return errors.Join(fmt.Errorf("finish %s: %w", what, context.Cause(ctx)), server.Close())
}
