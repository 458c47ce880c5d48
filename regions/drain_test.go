package regions

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	peerv1 "likewise/proto/likewise/peer/v1"
	likewisev1 "likewise/proto/likewise/v1"
	"likewise/proto/likewise/v1/likewisev1connect"
	"likewise/storage"
)

// slowNode has one call of a user and one of another node in flight.
type slowNode struct {
	*node
	announced chan struct{}
	finish    chan struct{}
	user      chan error
	peer      chan error
}

func startSlowNode(t *testing.T, options ...nodeOption) slowNode {
	t.Helper()
	ca := newTestCA(t)
	s := slowNode{
		announced: make(chan struct{}), finish: make(chan struct{}),
		user: make(chan error, 1), peer: make(chan error, 1),
	}
	options = append([]nodeOption{func(cfg *Config, deps *Deps) {
		cfg.Peers = ca.peersConfig(t)
		deps.AnnounceLeaving = func(context.Context) error { close(s.announced); return nil }
	}}, options...)
	s.node = startNode(t, "n1", options...)
	began := make(chan struct{}, 2)
	s.store.beforeSet = func(context.Context, storage.Set) error {
		began <- struct{}{}
		<-s.finish
		return nil
	}
	user, peer := s.as(t, "alice"), s.peers.to(s.routingNode())
	go func() {
		_, err := user.SetReaction(t.Context(), like("cat"))
		s.user <- err
	}()
	go func() {
		_, err := peer.Set(t.Context(), peerSet())
		s.peer <- err
	}()
	<-began
	<-began
	return s
}

// R44
func TestDrainFinishesWhatWasBegun(t *testing.T) {
	t.Parallel()
	s := startSlowNode(t)
	health := healthv1.NewHealthClient(dialGRPC(t, s.FrontAddr()))
	watch, err := health.Watch(t.Context(), &healthv1.HealthCheckRequest{})
	require.NoError(t, err)
	first, err := watch.Recv()
	require.NoError(t, err)
	require.Equal(t, healthv1.HealthCheckResponse_SERVING, first.GetStatus())

	reflection := reflect(t, s.FrontAddr())
	_, err = reflection.ListServices()
	require.NoError(t, err)

	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	<-s.announced
	next, err := watch.Recv()
	require.NoError(t, err)
	require.Equal(t, healthv1.HealthCheckResponse_NOT_SERVING, next.GetStatus())
	require.Eventually(t, func() bool { return refuses(s.FrontAddr()) && refuses(s.PeerAddr()) },
		10*time.Second, 10*time.Millisecond, "no new connections")
	require.Empty(t, stopped, "it waits for the calls in flight")

	close(s.finish)
	require.NoError(t, <-s.user)
	require.NoError(t, <-s.peer)
	require.NoError(t, <-stopped)
	_, err = watch.Recv()
	require.Error(t, err, "streams do not hold up the drain")
	_, err = reflection.ListServices()
	require.Error(t, err)
}

func refuses(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err == nil {
		_ = conn.Close()
	}
	return err != nil
}

func TestWhileDraining(t *testing.T) {
	t.Parallel()
	s := startNode(t, "n1", func(cfg *Config, _ *Deps) { cfg.Peers = newTestCA(t).peersConfig(t) })
	s.leaving.Store(true)
	require.Equal(t, http.StatusServiceUnavailable, status(t, s.url("/healthz")))

	peer := s.peers.to(s.routingNode())
	_, err := peer.Set(t.Context(), peerSet())
	detailOf[*peerv1.Leaving](t, requireCode(t, connect.CodeUnavailable, err))
	_, err = peer.Get(t.Context(), &peerv1.GetRequest{TopologyEpoch: 1, UserId: "alice", VideoId: "cat"})
	detailOf[*peerv1.Leaving](t, requireCode(t, connect.CodeUnavailable, err))
	probe, err := peer.Probe(t.Context(), &peerv1.ProbeRequest{})
	require.NoError(t, err)
	require.True(t, probe.GetLeaving())

	_, err = s.as(t, "alice").SetReaction(t.Context(), like("cat"))
	require.NoError(t, err, "users who are still here are served")
}

func TestDrainIsBounded(t *testing.T) {
	t.Parallel()
	s := startSlowNode(t, func(cfg *Config, _ *Deps) { cfg.DrainTimeout = 100 * time.Millisecond })
	err := s.stop()
	require.ErrorIs(t, err, errDrainTimeout)
	require.ErrorContains(t, err, "calls of users")
	require.Error(t, <-s.user)
	require.Error(t, <-s.peer)
	close(s.finish)
}

func TestAnAnnouncementThatHangsDelaysALittle(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1", func(cfg *Config, deps *Deps) {
		cfg.DrainTimeout = 10 * time.Second
		deps.AnnounceLeaving = func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
	})
	require.NoError(t, n.stop())
	require.Len(t, n.logs.FilterMessage("leaving unannounced").All(), 1)
}

func TestASpareConnectionDoesNotHoldUpTheDrain(t *testing.T) {
	t.Parallel()
	s := startNode(t, "n1", func(cfg *Config, _ *Deps) { cfg.DrainTimeout = 4 * time.Second })
	conn, err := net.Dial("tcp", s.FrontAddr())
	require.NoError(t, err)
	defer conn.Close()
	require.Eventually(t, func() bool {
		s.fresh.mu.Lock()
		defer s.fresh.mu.Unlock()
		return len(s.fresh.conns) == 1
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, s.stop(), "net/http itself waits for it for 5 s")
}

func TestRunEndsWhenAListenerDoes(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	n := startNode(t, "n1", func(cfg *Config, _ *Deps) { cfg.Listener = l })
	_, err = n.as(t, "alice").GetCounts(t.Context(), &likewisev1.GetCountsRequest{VideoId: "cat"})
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.ErrorIs(t, n.stop(), net.ErrClosed)
}

func TestCallersWhoLeaveAreNoTrouble(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	began := make(chan struct{})
	n.store.beforeGet = func(ctx context.Context) error { close(began); <-ctx.Done(); return context.Cause(ctx) }
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-began
		leave()
	}()
	_, err := n.as(t, "alice").GetReaction(ctx, &likewisev1.GetReactionRequest{VideoId: "cat"})
	requireOnlyCode(t, connect.CodeCanceled, err)
	want := `likewise_regions_calls_total{code="canceled",procedure="` + likewisev1connect.ReactionServiceGetReactionProcedure + `"} 1`
	require.Eventually(t, func() bool { return containsLine(page(t, n.url("/metrics")), want) }, 10*time.Second, 20*time.Millisecond)
}
