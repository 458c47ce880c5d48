package regions

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"google.golang.org/protobuf/reflect/protoreflect"

	"likewise/proto/likewise/peer/v1/peerv1connect"
	"likewise/proto/likewise/v1/likewisev1connect"
	"likewise/proto/openapi"
)

const (
	headerTimeout = 5 * time.Second
	maxHeader     = 16 << 10
	// maxStreams bounds the calls at once of one connection: all that another
	// node forwards comes over few.
	maxStreams = 1000
)

// frontServer speaks REST, Connect, gRPC and gRPC-Web over HTTP/1.1 and HTTP/2:
// over TLS if it has a certificate, and otherwise in plaintext.
func (s *Server) frontServer() (*http.Server, error) {
	handler, err := s.frontHandler()
	if err != nil {
		return nil, err
	}
	server := s.httpServer(withCORS(s.cfg.HTTP.CORSOrigins, handler))
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	certificates, err := s.cfg.HTTP.certificates()
	if err != nil {
		return nil, err
	}
	if len(certificates) > 0 {
		server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: certificates}
		server.Protocols.SetHTTP2(true)
	} else {
		server.Protocols.SetUnencryptedHTTP2(true)
	}
	return server, nil
}

// serveFront serves users until the server is shut down.
func (s *Server) serveFront(l net.Listener) error {
	if s.front.TLSConfig != nil {
		return s.front.ServeTLS(l, "", "")
	}
	return s.front.Serve(l)
}

func (s *Server) frontHandler() (http.Handler, error) {
	// The body is bounded by rpcEdge, whose words are better.
	calls := connect.WithHandlerOptions(connect.WithCompressMinBytes(minCompress), withCodecs(), withGzip(), s.frontChain())
	handlers := make(map[string]http.Handler)
	mount := func(path string, handler http.Handler) { handlers[path] = handler }
	mount(likewisev1connect.NewReactionServiceHandler(
		&reactionService{router: s.router, counts: s.counts, log: s.log, metrics: s.metrics}, calls))
	mount(likewisev1connect.NewAdminServiceHandler(
		&adminService{store: s.deps.Store, counts: s.counts, log: s.log}, calls))

	writer := connect.NewErrorWriter()
	rest, err := newRESTEdge(handlers, publicServices(), s.metrics)
	if err != nil {
		return nil, err
	}
	return &front{
		rpcs:     rpcEdges(handlers, publicServices(), writer, s.metrics),
		services: s.otherServices(),
		pages:    s.pages(),
		rest:     rest,
		unknown:  unknownPath(s.metrics, writer),
		log:      s.log,
		metrics:  s.metrics,
	}, nil
}

// rpcEdges has one edge for each procedure.
func rpcEdges(handlers map[string]http.Handler, services []protoreflect.ServiceDescriptor, writer *connect.ErrorWriter, m *metrics) map[string]http.Handler {
	edges := make(map[string]http.Handler)
	for _, service := range services {
		for i := range service.Methods().Len() {
			method := service.Methods().Get(i)
			edges[procedureOf(method)] = &rpcEdge{
				procedure: procedureOf(method),
				pure:      isPure(method),
				empty:     "send " + methodsOf(method) + " with the content type " + contentTypes,
				handler:   handlers["/"+string(service.FullName())+"/"],
				errors:    writer,
				metrics:   m,
			}
		}
	}
	return edges
}

// otherServices are those of gRPC itself, which stream.
func (s *Server) otherServices() map[string]http.Handler {
	limited := connect.WithHandlerOptions(connect.WithReadMaxBytes(maxBody), connect.WithCompressMinBytes(minCompress))
	reflector := grpcreflect.NewStaticReflector(
		likewisev1connect.ReactionServiceName, likewisev1connect.AdminServiceName, grpchealth.HealthV1ServiceName)
	services := make(map[string]http.Handler)
	mount := func(path string, handler http.Handler) { services[path] = s.untilLeft(handler) }
	mount(grpchealth.NewHandler(s.health, limited))
	mount(grpcreflect.NewHandlerV1(reflector, limited))
	mount(grpcreflect.NewHandlerV1Alpha(reflector, limited))
	return services
}

func (s *Server) pages() map[string]http.Handler {
	pages := map[string]http.Handler{
		"/healthz":      readable(http.HandlerFunc(s.healthz)),
		"/openapi.yaml": document("application/yaml", openapi.YAML),
		"/openapi.json": document("application/json", openapi.JSON),
	}
	if s.deps.Gatherer != nil {
		pages["/metrics"] = readable(promhttp.HandlerFor(s.deps.Gatherer, promhttp.HandlerOpts{}))
	}
	return pages
}

// untilLeft ends the streams of a handler when the node leaves: they would hold
// up the drain for as long as their callers like.
func (s *Server) untilLeft(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // a stream has no end of its own
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
		ReadTimeout: s.cfg.MaxDeadline + headerTimeout,
		// From the header on: for the body, the call, and a caller who reads slowly.
		WriteTimeout:   2 * (s.cfg.MaxDeadline + headerTimeout),
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: maxHeader,
		HTTP2:          &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog:       errorLog,
		ConnState:      s.fresh.track,
	}
}
