package regions

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	peerv1 "likewise/proto/likewise/peer/v1"
	likewisev1 "likewise/proto/likewise/v1"
	"likewise/routing"
	"likewise/storage"
)

// world is three regions with one database. Users call the front node, which is
// alone in its region; each of the others has two nodes.
type world struct {
	front  *node
	nodes  map[routing.Region][]*node
	videos []string                  // that lie in all three regions
	home   map[string]routing.Region // of alice's reaction to each
}

func startWorld(t *testing.T, options ...nodeOption) world {
	t.Helper()
	ca := newTestCA(t)
	regions := []routing.Region{"here", "near", "far"}
	w := world{nodes: make(map[routing.Region][]*node), home: make(map[string]routing.Region)}
	var entries []routing.Node
	for _, region := range regions {
		for i := range 2 {
			if region == "here" && i > 0 {
				continue
			}
			n := startNode(t, fmt.Sprintf("%s%d", region, i), append([]nodeOption{func(cfg *Config, _ *Deps) {
				cfg.Region, cfg.Peers = region, ca.peersConfig(t)
			}}, options...)...)
			w.nodes[region] = append(w.nodes[region], n)
			entries = append(entries, n.routingNode())
		}
	}
	w.front = w.nodes["here"][0]
	m := routing.NewMap(worldTopology(t, 1), entries)
	for _, n := range w.all() {
		n.store.db = w.front.store.db
		n.routes.m.Store(m)
	}
	t.Cleanup(func() { // before they stop: a server gives an idle connection a second to go
		for _, n := range w.all() {
			n.peers.close()
		}
	})
	for i := range 30 {
		video := fmt.Sprint("video", i)
		w.videos = append(w.videos, video)
		w.home[video] = m.Serving(routing.Slot(slotOf(storage.VideoID(video), "alice")))
	}
	return w
}

func worldTopology(t *testing.T, epoch int64) routing.Topology {
	t.Helper()
	top, err := routing.NewTopology(epoch, routing.Contiguous([]routing.Region{"here", "near", "far"}))
	require.NoError(t, err)
	return top
}

func (w world) all() []*node {
	var nodes []*node
	for _, region := range w.nodes {
		nodes = append(nodes, region...)
	}
	return nodes
}

// likeSome makes alice like every third video.
func (w world) likeSome() {
	for i, video := range w.videos {
		if i%3 == 0 {
			w.front.store.db.set(storage.Set{Video: storage.VideoID(video), User: "alice", Desired: storage.Like})
		}
	}
}

func (w world) batch(t *testing.T, videos ...string) []*likewisev1.ReactionOutcome {
	t.Helper()
	resp, err := w.front.as(t, "alice").BatchGetReactions(t.Context(), &likewisev1.BatchGetReactionsRequest{VideoIds: videos})
	require.NoError(t, err)
	require.Len(t, resp.GetOutcomes(), len(videos))
	for i, o := range resp.GetOutcomes() {
		require.Equal(t, videos[i], o.GetVideoId())
	}
	return resp.GetOutcomes()
}

// requireAll asks that every outcome is what alice thinks.
func (w world) requireAll(t *testing.T, outcomes []*likewisev1.ReactionOutcome) {
	t.Helper()
	for _, o := range outcomes {
		require.Nil(t, o.GetError(), "%s, at home %s", o.GetVideoId(), w.home[o.GetVideoId()])
		state := w.front.store.db.state(storage.VideoID(o.GetVideoId()), "alice")
		require.Equal(t, reactionToProto(state.Reaction), o.GetState().GetReaction())
		require.Equal(t, state.Version, o.GetState().GetVersion())
	}
}

// requireFailed asks that the outcomes of one region are errors, and no other.
func (w world) requireFailed(t *testing.T, region routing.Region, code connect.Code, outcomes []*likewisev1.ReactionOutcome) {
	t.Helper()
	var well []*likewisev1.ReactionOutcome
	for _, o := range outcomes {
		if w.home[o.GetVideoId()] != region {
			well = append(well, o)
			continue
		}
		require.Equal(t, code.String(), o.GetError().GetCode(), "%s", o.GetVideoId())
	}
	require.NotEmpty(t, well)
	require.Less(t, len(well), len(outcomes))
	w.requireAll(t, well)
}

func (w world) gets(region routing.Region) int64 {
	var gets int64
	for _, n := range w.nodes[region] {
		gets += n.store.gets.Load()
	}
	return gets
}

func (w world) requireGets(t *testing.T, here, near, far int64) {
	t.Helper()
	require.Equal(t, []int64{here, near, far}, []int64{w.gets("here"), w.gets("near"), w.gets("far")}, "reads here, near, far")
}

// fail makes every node of a region do something before it reads.
func (w world) fail(region routing.Region, before func(context.Context) error) {
	for _, n := range w.nodes[region] {
		n.store.beforeGet = before
	}
}

// R11: one round trip to each region concerned.
func TestABatchOfReactionsAsksEachRegionOnce(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	w.likeSome()
	w.requireAll(t, w.batch(t, w.videos...))
	w.requireGets(t, 1, 1, 1)

	twice := append(append([]string{}, w.videos...), w.videos[3], w.videos[3], w.videos[0])
	w.requireAll(t, w.batch(t, twice...))
	w.requireGets(t, 2, 2, 2)
	require.Equal(t, w.front.store.batches.of(&w.front.store.batches.gets)[0], w.front.store.batches.of(&w.front.store.batches.gets)[1],
		"one that occurs twice is read once")

	one := w.videos[0]
	w.requireAll(t, w.batch(t, one))
	require.EqualValues(t, 7, w.gets("here")+w.gets("near")+w.gets("far"), "and a region that is not concerned is not asked")
}

// They are asked at the same time: none answers before all were asked.
func TestABatchOfReactionsAsksRegionsInParallel(t *testing.T) {
	t.Parallel()
	w := startWorld(t, func(cfg *Config, _ *Deps) { cfg.Peers.HopTimeout = 30 * time.Second })
	arrived, together := make(chan struct{}, 3), make(chan struct{})
	for region := range w.nodes {
		w.fail(region, func(ctx context.Context) error {
			arrived <- struct{}{}
			select {
			case <-together:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}
	go func() {
		for range 3 {
			<-arrived
		}
		close(together)
	}()
	w.requireAll(t, w.batch(t, w.videos...))
}

func TestABatchOfReactionsGoesAroundTrouble(t *testing.T) {
	t.Parallel()

	t.Run("a node that is gone", func(t *testing.T) {
		t.Parallel()
		w := startWorld(t)
		w.likeSome()
		require.NoError(t, w.nodes["near"][0].stop())
		w.requireAll(t, w.batch(t, w.videos...))
		require.EqualValues(t, 1, w.nodes["near"][1].store.gets.Load())
		require.EqualValues(t, 1, w.gets("far"))
	})

	t.Run("a region whose nodes are all gone", func(t *testing.T) {
		t.Parallel()
		w := startWorld(t)
		w.likeSome()
		for _, n := range w.nodes["near"] {
			require.NoError(t, n.stop())
		}
		w.requireAll(t, w.batch(t, w.videos...))
		require.EqualValues(t, 3, w.gets("here")+w.gets("far"), "any node can read any slot")
	})

	t.Run("a region whose nodes leave", func(t *testing.T) {
		t.Parallel()
		w := startWorld(t)
		w.likeSome()
		for _, n := range w.nodes["far"] {
			n.leaving.Store(true)
		}
		w.requireAll(t, w.batch(t, w.videos...))
		require.Zero(t, w.gets("far"))
		require.Zero(t, w.front.router.health.count(), "they answer")
	})

	t.Run("a region whose database is away", func(t *testing.T) {
		t.Parallel()
		w := startWorld(t)
		w.likeSome()
		w.fail("far", func(context.Context) error {
			return &storage.UnavailableError{RetryAfter: time.Second, Cause: errDriver}
		})
		w.requireAll(t, w.batch(t, w.videos...))
		require.EqualValues(t, 2, w.gets("far"))
	})

	t.Run("a map that is stale is read anew", func(t *testing.T) {
		t.Parallel()
		w := startWorld(t)
		newer := routing.NewMap(worldTopology(t, 2), w.front.routes.Map().Nodes())
		for _, n := range w.nodes["near"] {
			n.routes.m.Store(newer)
		}
		routes := &refreshingRoutes{newer: newer}
		routes.m.Store(w.front.routes.Map())
		w.front.router.routes = routes
		w.requireAll(t, w.batch(t, w.videos...))
		w.requireGets(t, 1, 1, 1)
	})

	t.Run("a map that cannot be read anew", func(t *testing.T) {
		t.Parallel()
		w := startWorld(t)
		for _, n := range w.nodes["near"] {
			n.routes.m.Store(routing.NewMap(worldTopology(t, 2), nil))
		}
		w.requireAll(t, w.batch(t, w.videos...))
		require.Zero(t, w.gets("near"))
	})
}

// The ids that were not read in time are errors; the rest is answered, in time.
func TestABatchOfReactionsEndsInTime(t *testing.T) {
	t.Parallel()
	w := startWorld(t, func(cfg *Config, _ *Deps) {
		cfg.Deadline, cfg.Peers.HopTimeout = time.Second, 20*time.Second
	})
	w.likeSome()
	healed := make(chan struct{})
	t.Cleanup(func() { close(healed) }) // before the nodes stop
	w.fail("far", func(context.Context) error { <-healed; return nil })

	t.Run("by the deadline of this node", func(t *testing.T) {
		began := time.Now()
		w.requireFailed(t, "far", connect.CodeDeadlineExceeded, w.batch(t, w.videos...))
		require.Less(t, time.Since(began), 10*time.Second, "not that of the hop")
		logged := w.front.logs.FilterMessage("items of a batch failed").All()
		require.Len(t, logged, 1, "one line, whatever the number of items")
		text := page(t, w.front.url("/metrics"))
		require.Contains(t, text, `likewise_regions_batch_items_total{code="deadline_exceeded",procedure="/likewise.v1.ReactionService/BatchGetReactions"}`)
		require.Contains(t, text, `likewise_regions_forwarded_total{call="batch_get",outcome="served"} 1`)
		require.Contains(t, text, `likewise_regions_forwarded_total{call="batch_get",outcome="unknown"} 1`, "which makes the node avoided")
	})

	t.Run("by the deadline of the caller", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		resp, err := w.front.as(t, "alice").BatchGetReactions(ctx, &likewisev1.BatchGetReactionsRequest{VideoIds: w.videos})
		require.NoError(t, err)
		w.requireFailed(t, "far", connect.CodeDeadlineExceeded, resp.GetOutcomes())
	})
}

// A caller who goes away is no reason to read on.
func TestABatchOfReactionsEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	w := startWorld(t, func(cfg *Config, _ *Deps) { cfg.Peers.HopTimeout = 20 * time.Second })
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, 4)
	w.fail("far", func(ctx context.Context) error {
		leave()
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	})
	_, err := w.front.as(t, "alice").BatchGetReactions(ctx, &likewisev1.BatchGetReactionsRequest{VideoIds: w.videos})
	requireOnlyCode(t, connect.CodeCanceled, err)
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Eventually(t, func() bool {
		return strings.Contains(page(t, w.front.url("/metrics")),
			`likewise_regions_calls_total{code="canceled",procedure="/likewise.v1.ReactionService/BatchGetReactions"} 1`)
	}, 10*time.Second, 10*time.Millisecond)
}

func TestABatchOfReactionsWhoseOwnRegionFails(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	w.likeSome()
	w.fail("here", func(context.Context) error {
		return &storage.UnavailableError{RetryAfter: time.Second, Cause: errDriver}
	})
	outcomes := w.batch(t, w.videos...)
	w.requireFailed(t, "here", connect.CodeUnavailable, outcomes)
	_, single := w.front.as(t, "alice").GetReaction(t.Context(), &likewisev1.GetReactionRequest{VideoId: w.anyIn(t, "here")})
	for _, o := range outcomes {
		if o.GetError() != nil {
			requireSameError(t, single, o.GetError())
		}
	}
}

// A panic on the way to another region's part is in a goroutine of its own.
func TestABatchOfReactionsSurvivesAPanic(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	w.front.store.beforeGet = func(context.Context) error { panic("a row that cannot be") }
	w.requireFailed(t, "here", connect.CodeInternal, w.batch(t, w.videos...))
	r := *w.front.router
	r.peers = nil // so that this node reads for the others, too
	for _, one := range r.getMany(t.Context(), "alice", w.ids()) {
		require.ErrorIs(t, one.err, errPanicked)
	}
}

func (w world) ids() []storage.VideoID {
	ids := make([]storage.VideoID, len(w.videos))
	for i, video := range w.videos {
		ids[i] = storage.VideoID(video)
	}
	return ids
}

func (w world) anyIn(t *testing.T, region routing.Region) string {
	t.Helper()
	for _, video := range w.videos {
		if w.home[video] == region {
			return video
		}
	}
	require.Fail(t, "no video has its home there")
	return ""
}

// R8: that a video is deleted is an answer, from whichever region.
func TestABatchOfReactionsToDeletedVideos(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	w.likeSome()
	for _, region := range []routing.Region{"here", "near"} {
		video := w.anyIn(t, region)
		w.front.store.db.setVideo(storage.VideoID(video), storage.VideoDeleted)
		_, single := w.front.as(t, "alice").GetReaction(t.Context(), &likewisev1.GetReactionRequest{VideoId: video})
		detailOf[*likewisev1.VideoNotActive](t, requireCode(t, connect.CodeNotFound, single))
		for _, o := range w.batch(t, w.videos...) {
			if o.GetVideoId() == video {
				requireSameError(t, single, o.GetError())
			}
		}
	}
	require.EqualValues(t, 3, w.gets("near"), "a single read of a deleted video is not repeated elsewhere")
}

// requireSameError asks that an item's error is what the single call was answered.
func requireSameError(t *testing.T, single error, item *likewisev1.ItemError) {
	t.Helper()
	var want *connect.Error
	require.ErrorAs(t, single, &want)
	require.Equal(t, want.Code().String(), item.GetCode())
	require.Equal(t, want.Message(), item.GetMessage())
	require.Len(t, item.GetDetails(), len(want.Details()))
	for i, detail := range want.Details() {
		require.Equal(t, "type.googleapis.com/"+detail.Type(), item.GetDetails()[i].GetTypeUrl())
		require.Equal(t, detail.Bytes(), item.GetDetails()[i].GetValue())
	}
}

func TestWhatANodeSendsInABatchIsCheckedAgain(t *testing.T) {
	t.Parallel()
	ca := newTestCA(t)
	n := startNode(t, "n1", func(cfg *Config, _ *Deps) { cfg.Peers = ca.peersConfig(t) })
	t.Cleanup(n.peers.close) // before it stops: a server gives an idle connection a second to go
	client := n.peers.to(n.routingNode())
	for name, req := range map[string]*peerv1.BatchGetRequest{
		"no videos":   {UserId: "alice"},
		"too many":    {UserId: "alice", VideoIds: make([]string, maxBatch+1)},
		"no user":     {VideoIds: []string{"cat"}},
		"a bad user":  {UserId: "a/b", VideoIds: []string{"cat"}},
		"a bad video": {UserId: "alice", VideoIds: []string{"cat", "a\x00"}},
	} {
		t.Run(name, func(t *testing.T) {
			req.TopologyEpoch = 1
			_, err := client.BatchGet(t.Context(), req)
			requireOnlyCode(t, connect.CodeInvalidArgument, err)
		})
	}
	require.Zero(t, n.store.gets.Load())
}

func TestANodeThatAnswersAnotherBatchIsNotBelieved(t *testing.T) {
	t.Parallel()
	readings := []storage.Reading{
		{State: storage.State{Reaction: storage.Like, Version: 7}, Video: storage.VideoActive},
		{Video: storage.VideoDeleted},
	}
	got, err := readingsFromPeer(readingsToPeer(readings), 2)
	require.NoError(t, err)
	require.Equal(t, readings, got)
	_, err = readingsFromPeer(readingsToPeer(readings), 3)
	require.ErrorIs(t, err, errOtherBatch)
	_, err = readingsFromPeer(&peerv1.BatchGetResponse{Readings: []*peerv1.Reading{{}}}, 1)
	require.ErrorIs(t, err, errNoReaction, "of a later version")
}
