package regions

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"likewise/proto/likewise/peer/v1/peerv1connect"
	"likewise/proto/likewise/v1/likewisev1connect"
)

const (
	headerTimeout = 5 * time.Second
	maxHeader     = 16 << 10
	// maxStreams bounds the calls at once of one connection: all that another
	// node forwards comes over few.
	maxStreams = 1000
)

// frontServer speaks Connect, gRPC and gRPC-Web over HTTP/1.1 and HTTP/2, all in
// plaintext: TLS ends before it.
func (s *Server) frontServer() *http.Server {
	server := s.httpServer(s.frontMux())
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	return server
}

func (s *Server) frontMux() *http.ServeMux {
	mux := http.NewServeMux()
	common := connect.WithHandlerOptions(
		connect.WithReadMaxBytes(maxBody),
		connect.WithCompressMinBytes(minCompress),
		withJSON(),
	)
	mux.Handle(likewisev1connect.NewReactionServiceHandler(
		&reactionService{router: s.router, counts: s.counts, log: s.log, metrics: s.metrics}, common, s.frontChain()))
	mux.Handle(likewisev1connect.NewAdminServiceHandler(
		&adminService{store: s.deps.Store, counts: s.counts, log: s.log}, common, s.frontChain()))
	mux.Handle(s.untilLeft(grpchealth.NewHandler(s.health, common)))
	reflector := grpcreflect.NewStaticReflector(likewisev1connect.ReactionServiceName, grpchealth.HealthV1ServiceName)
	mux.Handle(s.untilLeft(grpcreflect.NewHandlerV1(reflector, connect.WithReadMaxBytes(maxBody))))
	mux.Handle(s.untilLeft(grpcreflect.NewHandlerV1Alpha(reflector, connect.WithReadMaxBytes(maxBody))))
	mux.HandleFunc("GET /healthz", s.healthz)
	if s.deps.Gatherer != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(s.deps.Gatherer, promhttp.HandlerOpts{}))
	}
	return mux
}

// untilLeft ends the streams of a handler when the node leaves: they would hold
// up the drain for as long as their callers like.
func (s *Server) untilLeft(path string, handler http.Handler) (string, http.Handler) {
	return path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		var watch sync.WaitGroup
		defer watch.Wait()
		defer cancel()
		watch.Go(func() {
			select {
			case <-s.left:
				cancel()
				// It may be waiting for the caller's next message. An error would mean
				// that it is not.
				_ = http.NewResponseController(w).SetReadDeadline(time.Now())
			case <-ctx.Done():
			}
		})
		handler.ServeHTTP(w, r.WithContext(ctx))
	})
}

// healthz is for load balancers that do not speak gRPC.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	if s.leaving.Load() {
		http.Error(w, "draining", http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "serving\n") // whoever asked has gone
}

// backServer speaks Connect over HTTP/2 and mutual TLS, and nothing else.
func (s *Server) backServer() (*http.Server, error) {
	config, err := peerTLS(s.cfg.Peers)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle(peerv1connect.NewPeerServiceHandler(
		&peerService{
			node:    s.cfg.Node,
			routes:  s.deps.Routes,
			store:   s.deps.Store,
			counts:  s.counts,
			leaving: &s.leaving,
		},
		connect.WithReadMaxBytes(maxBody),
		connect.WithCompressMinBytes(minCompress),
		s.peerChain()))
	server := s.httpServer(mux)
	server.TLSConfig = config
	server.Protocols = onlyHTTP2()
	return server, nil
}

func (s *Server) httpServer(handler http.Handler) *http.Server {
	// What net/http has to say is mostly of callers that break off or do not speak
	// TLS. The error is for levels that do not exist.
	errorLog, _ := zap.NewStdLogAt(s.log, zap.DebugLevel)
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		// No call may last longer than MaxDeadline, so none is cut off by this.
		ReadTimeout:    s.cfg.MaxDeadline + headerTimeout,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: maxHeader,
		HTTP2:          &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog:       errorLog,
		ConnState:      s.fresh.track,
	}
}
