package regions

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/routing"
	"likewise/storage"
)

// cluster is nodes with mutual TLS between them and one database behind them.
// Users call the front node; the route of home's slot leads to home first, then
// to second, then to front.
type cluster struct {
	front, home, second *node
	user                storage.UserID
}

// patientHop is more than a first call takes on a machine that has much to do.
const patientHop = 4 * time.Second

func startCluster(t *testing.T, options ...nodeOption) cluster {
	t.Helper()
	ca := newTestCA(t)
	nodes := make(map[string]*node)
	var entries []routing.Node
	for _, name := range []string{"a", "b", "c"} {
		options := append([]nodeOption{func(cfg *Config, _ *Deps) {
			cfg.Peers = ca.peersConfig(t)
			cfg.Peers.HopTimeout, cfg.Deadline = patientHop, 5*patientHop
		}}, options...)
		nodes[name] = startNode(t, name, options...)
		entries = append(entries, nodes[name].routingNode())
	}
	m := routing.NewMap(topology(t, 1), entries)
	c := cluster{}
	for i := 0; c.user == ""; i++ { // a user whose route ends at "a"
		user := storage.UserID(fmt.Sprint("user", i))
		if route := m.Route(routing.Slot(slotOf("cat", user))); route[2].Name == "a" {
			c = cluster{user: user, home: nodes[route[0].Name], second: nodes[route[1].Name], front: nodes["a"]}
		}
	}
	for _, n := range nodes {
		n.store.db = c.home.store.db
		n.routes.m.Store(m)
	}
	t.Cleanup(func() { // before they stop: a server gives an idle connection a second to go
		for _, n := range nodes {
			n.peers.close()
		}
	})
	return c
}

func (c cluster) set(t *testing.T, req *likewisev1.SetReactionRequest) (*likewisev1.SetReactionResponse, error) {
	t.Helper()
	return c.front.as(t, c.user).SetReaction(t.Context(), req)
}

func (c cluster) requireSets(t *testing.T, home, second, front int64) {
	t.Helper()
	require.Equal(t, []int64{home, second, front},
		[]int64{c.home.store.sets.Load(), c.second.store.sets.Load(), c.front.store.sets.Load()}, "sets at home, second, front")
}

// move gives the home node another address in everyone's map.
func (c cluster) move(t *testing.T, addr string) {
	t.Helper()
	entries := []routing.Node{c.home.routingNode(), c.second.routingNode(), c.front.routingNode()}
	entries[0].PeerAddr = addr
	c.front.routes.put(t, 1, entries...)
}

// R40: any front door takes the call, and the home node commits it.
func TestAForwardedWrite(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	for _, n := range []*node{c.front, c.home} { // both have the video in their cache
		_, err := n.as(t, c.user).GetCounts(t.Context(), &likewisev1.GetCountsRequest{VideoId: "cat"})
		require.NoError(t, err)
	}
	resp, err := c.set(t, withKey(like("cat"), "k1"))
	require.NoError(t, err)
	require.True(t, resp.GetChanged())
	require.EqualValues(t, 1, resp.GetVersion())
	require.EqualValues(t, 1, resp.GetCounts().GetLikes())
	require.True(t, resp.GetCountsIncludeChange())
	c.requireSets(t, 1, 0, 0)
	for _, n := range []*node{c.front, c.home} {
		e, ok := n.Server.counts.lookup("cat")
		require.True(t, ok)
		require.EqualValues(t, 1, e.read().likes, "the shard is in the cache of home node and front door")
	}

	got, err := c.second.as(t, c.user).GetReaction(t.Context(), &likewisev1.GetReactionRequest{VideoId: "cat"})
	require.NoError(t, err)
	require.Equal(t, likewisev1.Reaction_LIKE, got.GetReaction())

	resp, err = c.set(t, withKey(like("cat"), "k1"))
	require.NoError(t, err)
	require.True(t, resp.GetChanged(), "the stored result, by way of another node")
	require.Contains(t, page(t, c.front.url("/metrics")), `likewise_regions_forwarded_total{call="set",outcome="served"} 2`)
}

func TestARefusedConnectionCostsOneTry(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.move(t, closedPort(t))
	_, err := c.set(t, like("cat"))
	require.NoError(t, err)
	c.requireSets(t, 0, 1, 0)
	require.EqualValues(t, 1, c.front.router.health.count(), "and none later")
}

func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

func TestWithNoOtherNodeThisOneCommits(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	require.NoError(t, c.home.stop())
	require.NoError(t, c.second.stop())
	_, err := c.set(t, like("cat"))
	require.NoError(t, err)
	c.requireSets(t, 0, 0, 1)
}

func TestALeavingNodeIsPassedBy(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.home.leaving.Store(true)
	_, err := c.set(t, like("cat"))
	require.NoError(t, err)
	c.requireSets(t, 0, 1, 0)
	require.Zero(t, c.front.router.health.count(), "it answers")
}

func TestANodeWhoseStoreWillNotIsPassedBy(t *testing.T) {
	t.Parallel()
	for _, refusal := range []error{storage.ErrClosing, storage.ErrStaleMap} {
		t.Run(refusal.Error(), func(t *testing.T) {
			t.Parallel()
			c := startCluster(t)
			will := func(context.Context, storage.Set) error { return refusal }
			c.home.store.beforeSet = will
			_, err := c.set(t, like("cat"))
			require.NoError(t, err)
			c.requireSets(t, 1, 1, 0)

			c.second.store.beforeSet, c.front.store.beforeSet = will, will
			_, err = c.set(t, like("cat"))
			detailOf[*likewisev1.RetryAfter](t, requireCode(t, connect.CodeUnavailable, err))
		})
	}
}

// refreshingRoutes read the topology when they are told of a newer one.
type refreshingRoutes struct {
	fakeRoutes
	newer *routing.Map
}

func (r *refreshingRoutes) Refresh(context.Context, int64) (*routing.Map, error) {
	r.m.Store(r.newer)
	return r.newer, nil
}

func TestAStaleMap(t *testing.T) {
	t.Parallel()

	t.Run("is read anew, and the call goes on by it", func(t *testing.T) {
		t.Parallel()
		c := startCluster(t)
		newer := routing.NewMap(topology(t, 2), c.front.routes.Map().Nodes())
		c.home.routes.m.Store(newer)
		routes := &refreshingRoutes{newer: newer}
		routes.m.Store(c.front.routes.Map())
		c.front.router.routes = routes
		_, err := c.set(t, like("cat"))
		require.NoError(t, err)
		c.requireSets(t, 1, 0, 0)
	})

	t.Run("that cannot be read anew leads to another node", func(t *testing.T) {
		t.Parallel()
		c := startCluster(t)
		c.home.routes.m.Store(routing.NewMap(topology(t, 2), nil))
		_, err := c.set(t, like("cat"))
		require.NoError(t, err)
		c.requireSets(t, 0, 1, 0)
	})

	t.Run("of the node that is asked is no reason to refuse", func(t *testing.T) {
		t.Parallel()
		c := startCluster(t)
		c.front.routes.m.Store(routing.NewMap(topology(t, 2), c.front.routes.Map().Nodes()))
		_, err := c.set(t, like("cat"))
		require.NoError(t, err)
		c.requireSets(t, 1, 0, 0)
	})
}

func TestRefusalsPassThrough(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]error{
		"overload":         &storage.OverloadedError{RetryAfter: time.Second},
		"version mismatch": &storage.VersionMismatchError{Current: storage.State{Reaction: storage.Like, Version: 3}},
		"something broken": errDriver,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t)
			c.home.store.beforeSet = func(context.Context, storage.Set) error { return refusal }
			_, err := c.set(t, withKey(like("cat"), "k1"))
			want := toConnect(&nothingAppliedError{refusal})
			got := requireCode(t, want.Code(), err)
			require.Equal(t, want.Message(), got.Message())
			require.Equal(t, want.Meta().Get("Retry-After"), got.Meta().Get("Retry-After"))
			require.Len(t, got.Details(), 1)
			c.requireSets(t, 1, 0, 0)
		})
	}
}

func TestANodeWithoutItsDatabaseIsPassedByOnce(t *testing.T) {
	t.Parallel()
	away := func(context.Context, storage.Set) error {
		return &storage.UnavailableError{RetryAfter: time.Second, Cause: errDriver}
	}

	t.Run("the next one serves", func(t *testing.T) {
		t.Parallel()
		c := startCluster(t)
		c.home.store.beforeSet = away
		_, err := c.set(t, like("cat"))
		require.NoError(t, err)
		c.requireSets(t, 1, 1, 0)
	})

	t.Run("a database that is away for all is not asked by all", func(t *testing.T) {
		t.Parallel()
		c := startCluster(t)
		c.home.store.beforeSet, c.second.store.beforeSet = away, away
		_, err := c.set(t, like("cat"))
		got := requireCode(t, connect.CodeUnavailable, err)
		require.Equal(t, time.Second, detailOf[*likewisev1.RetryAfter](t, got).GetDelay().AsDuration())
		c.requireSets(t, 1, 1, 0)
	})
}

func TestANodeThatHadNoTimeIsPassedBy(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.home.store.beforeSet = func(context.Context, storage.Set) error { return context.DeadlineExceeded }
	_, err := c.set(t, like("cat"))
	require.NoError(t, err, "it says that it changed nothing")
	c.requireSets(t, 1, 1, 0)
}

func TestGetReactionAcrossRegions(t *testing.T) {
	t.Parallel()

	t.Run("goes through the serving region", func(t *testing.T) {
		t.Parallel()
		c := startCluster(t, away)
		_, err := c.front.as(t, c.user).GetReaction(t.Context(), &likewisev1.GetReactionRequest{VideoId: "cat"})
		require.NoError(t, err)
		require.EqualValues(t, 1, c.home.store.gets.Load())
	})

	t.Run("is repeated at will", func(t *testing.T) {
		t.Parallel()
		c := startCluster(t, away)
		c.home.store.beforeGet = func(context.Context) error { panic(http.ErrAbortHandler) }
		_, err := c.front.as(t, c.user).GetReaction(t.Context(), &likewisev1.GetReactionRequest{VideoId: "cat"})
		require.NoError(t, err)
		require.EqualValues(t, 1, c.second.store.gets.Load())
	})

	t.Run("ends with its deadline", func(t *testing.T) {
		t.Parallel()
		c := startCluster(t, away, func(cfg *Config, _ *Deps) { cfg.Deadline = 100 * time.Millisecond })
		c.home.store.beforeGet = func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
		_, err := c.front.as(t, c.user).GetReaction(t.Context(), &likewisev1.GetReactionRequest{VideoId: "cat"})
		requireOnlyCode(t, connect.CodeDeadlineExceeded, err)
	})
}

// away puts the front node "a" into a region that is home to no slot, and so
// last in every route.
func away(cfg *Config, _ *Deps) {
	if cfg.Node == "a" {
		cfg.Region = "there"
	}
}
