package regions

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/proto/likewise/v1/likewisev1connect"
	"likewise/routing"
	"likewise/storage"
)

var testSecret = []byte("a secret of at least 32 bytes, for tests")

// node is a running Server with everything that a test may want to touch.
type node struct {
	*Server
	store    *fakeStore
	routes   *fakeRoutes
	registry *prometheus.Registry
	logs     *observer.ObservedLogs
	stop     func() error // ends Run and returns its error; may be called twice
	name     string
}

type nodeOption func(*Config, *Deps)

// startNode runs a server until the test ends. Its map holds itself alone.
func startNode(t *testing.T, name string, options ...nodeOption) *node {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	n := &node{
		name:     name,
		store:    newFakeStore(),
		routes:   &fakeRoutes{},
		registry: prometheus.NewPedanticRegistry(),
		logs:     logs,
	}
	n.routes.put(t, 1, routing.Node{Name: name, Region: "here", State: routing.Ready})
	cfg := Config{Node: name, Region: "here", Listen: "127.0.0.1:0", Auth: AuthConfig{Secret: testSecret}}
	deps := Deps{Store: n.store, Routes: n.routes, Log: zap.New(core), Registerer: n.registry, Gatherer: n.registry}
	for _, option := range options {
		option(&cfg, &deps)
	}
	var err error
	n.Server, err = New(cfg, deps)
	require.NoError(t, err)
	n.run(t)
	return n
}

func (n *node) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		err = n.Run(ctx)
	}()
	n.stop = func() error {
		cancel()
		<-done
		return err
	}
	t.Cleanup(func() { _ = n.stop() })
}

func (n *node) routingNode() routing.Node {
	return routing.Node{Name: n.name, Region: n.cfg.Region, PeerAddr: n.PeerAddr(), FrontAddr: n.FrontAddr(), State: routing.Ready}
}

// as is a client that carries the token of a user.
func (n *node) as(t *testing.T, user storage.UserID, options ...connect.ClientOption) likewisev1connect.ReactionServiceClient {
	t.Helper()
	return clientOf(t, n.FrontAddr(), mint(t, user), options...)
}

func mint(t *testing.T, user storage.UserID) string {
	t.Helper()
	token, err := MintToken(testSecret, Claims{Subject: string(user)}, time.Hour)
	require.NoError(t, err)
	return token
}

func clientOf(t *testing.T, addr, token string, options ...connect.ClientOption) likewisev1connect.ReactionServiceClient {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return likewisev1connect.NewReactionServiceClient(&http.Client{Transport: transport}, "http://"+addr,
		append(options, connect.WithInterceptors(withHeader("Authorization", "Bearer "+token)))...)
}

func withHeader(name, value string) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			req.Header().Add(name, value)
			return next(ctx, req)
		}
	}
}

func like(video string) *likewisev1.SetReactionRequest {
	return &likewisev1.SetReactionRequest{VideoId: video, Reaction: likewisev1.Reaction_LIKE}
}

func withKey(req *likewisev1.SetReactionRequest, key string) *likewisev1.SetReactionRequest {
	req.IdempotencyKey = key
	return req
}

// requireCode asks for a code and returns the error for more.
func requireCode(t *testing.T, want connect.Code, err error) *connect.Error {
	t.Helper()
	var got *connect.Error
	require.ErrorAs(t, err, &got)
	require.Equal(t, want, got.Code(), "%v", err)
	return got
}

// requireOnlyCode asks for a code and no more.
func requireOnlyCode(t *testing.T, want connect.Code, err error) {
	t.Helper()
	_ = requireCode(t, want, err)
}

// detailOf returns the one detail of a type.
func detailOf[T any](t *testing.T, err *connect.Error) T {
	t.Helper()
	for _, detail := range err.Details() {
		message, detailErr := detail.Value()
		require.NoError(t, detailErr)
		if found, ok := message.(T); ok {
			return found
		}
	}
	require.Fail(t, fmt.Sprintf("no detail %T", *new(T)), "%v", err)
	return *new(T)
}
