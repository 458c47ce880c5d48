package regions

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/proto/likewise/v1/likewisev1connect"
	"likewise/storage"
)

func batchOf(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint("v", i)
	}
	return ids
}

// startCounted has videos v0, v1, … with as many likes.
func startCounted(t *testing.T, videos int, options ...nodeOption) *node {
	t.Helper()
	n := startNode(t, "n1", options...)
	for i, id := range batchOf(videos) {
		n.store.db.put(storage.VideoID(id), storage.CounterShard{Likes: int64(i), Rev: 1})
	}
	return n
}

func (n *node) batchCounts(t *testing.T, ids ...string) []*likewisev1.CountsOutcome {
	t.Helper()
	resp, err := n.as(t, "alice").BatchGetCounts(t.Context(), &likewisev1.BatchGetCountsRequest{VideoIds: ids})
	require.NoError(t, err)
	require.Len(t, resp.GetOutcomes(), len(ids))
	for i, o := range resp.GetOutcomes() {
		require.Equal(t, ids[i], o.GetVideoId())
	}
	return resp.GetOutcomes()
}

// R11
func TestBatchGetCounts(t *testing.T) {
	t.Parallel()

	t.Run("answers 100 ids in order, by one read", func(t *testing.T) {
		t.Parallel()
		n := startCounted(t, 100)
		ids := batchOf(100)
		slices.Reverse(ids)
		for i, o := range n.batchCounts(t, ids...) {
			require.EqualValues(t, 99-i, o.GetCounts().GetLikes())
			require.NotNil(t, o.GetCounts().GetAsOf())
		}
		require.EqualValues(t, 1, n.store.counts.Load())
	})

	t.Run("answers one id as GetCounts does", func(t *testing.T) {
		t.Parallel()
		n := startCounted(t, 8)
		single, err := n.as(t, "alice").GetCounts(t.Context(), &likewisev1.GetCountsRequest{VideoId: "v7"})
		require.NoError(t, err)
		got := n.batchCounts(t, "v7")
		require.Equal(t, single.GetCounts().GetLikes(), got[0].GetCounts().GetLikes())
		require.Equal(t, single.GetCounts().GetAsOf().AsTime(), got[0].GetCounts().GetAsOf().AsTime(), "from one cache")
	})

	t.Run("answers an id as often as it occurs", func(t *testing.T) {
		t.Parallel()
		n := startCounted(t, 3)
		ids := []string{"v2", "v1", "v2", "v2", "v1"}
		for i, o := range n.batchCounts(t, ids...) {
			require.Equal(t, ids[i], fmt.Sprint("v", o.GetCounts().GetLikes()))
		}
		require.Equal(t, []int{2}, n.store.batches.of(&n.store.batches.counts), "one that occurs twice is read once")
	})

	t.Run("answers the other ids where a video is deleted", func(t *testing.T) {
		t.Parallel()
		n := startCounted(t, 3)
		n.store.db.setVideo("v1", storage.VideoDeleted)
		_, single := n.as(t, "alice").GetCounts(t.Context(), &likewisev1.GetCountsRequest{VideoId: "v1"})
		requireOnlyCode(t, connect.CodeNotFound, single)
		got := n.batchCounts(t, "v0", "v1", "v2")
		require.EqualValues(t, 0, got[0].GetCounts().GetLikes())
		requireSameError(t, single, got[1].GetError())
		require.EqualValues(t, 2, got[2].GetCounts().GetLikes())
	})

	t.Run("answers what is cached where the database is away", func(t *testing.T) {
		t.Parallel()
		n := startCounted(t, 3)
		n.batchCounts(t, "v2")
		n.store.beforeCount = func(context.Context) error { return errDatabaseDown }
		_, single := n.as(t, "alice").GetCounts(t.Context(), &likewisev1.GetCountsRequest{VideoId: "v0"})
		requireOnlyCode(t, connect.CodeUnavailable, single)
		got := n.batchCounts(t, "v1", "v2")
		requireSameError(t, single, got[0].GetError())
		require.EqualValues(t, 2, got[1].GetCounts().GetLikes())
		require.NotContains(t, got[0].String(), "10.0.0.1")
		logged := n.logs.FilterMessage("items of a batch failed").All()
		require.Len(t, logged, 1)
		require.Contains(t, logged[0].ContextMap()["error"], "10.0.0.1", "the log has the cause")
		require.Contains(t, page(t, n.url("/metrics")),
			`likewise_regions_batch_items_total{code="ok",procedure="/likewise.v1.ReactionService/BatchGetCounts"} 2`)
	})

	t.Run("answers in time", func(t *testing.T) {
		t.Parallel()
		n := startCounted(t, 3, func(cfg *Config, _ *Deps) { cfg.Deadline = 300 * time.Millisecond })
		n.batchCounts(t, "v2")
		n.store.beforeCount = func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
		got := n.batchCounts(t, "v1", "v2")
		require.Equal(t, "deadline_exceeded", got[0].GetError().GetCode())
		require.EqualValues(t, 2, got[1].GetCounts().GetLikes())
	})

	t.Run("holds each id to the bound", func(t *testing.T) {
		t.Parallel()
		n := startCounted(t, 3)
		written, err := n.as(t, "alice").SetReaction(t.Context(), like("v1"))
		require.NoError(t, err)
		resp, err := n.as(t, "bob").BatchGetCounts(t.Context(), &likewisev1.BatchGetCountsRequest{
			VideoIds: []string{"v0", "v1"}, ConsistencyToken: written.GetConsistencyToken(),
		})
		require.NoError(t, err)
		committed, err := parseToken(written.GetConsistencyToken())
		require.NoError(t, err)
		for _, o := range resp.GetOutcomes() {
			require.True(t, o.GetCounts().GetAsOf().AsTime().After(committed))
		}
		require.EqualValues(t, 2, resp.GetOutcomes()[1].GetCounts().GetLikes())

		n.store.beforeCount = func(context.Context) error { return errDatabaseDown }
		resp, err = n.as(t, "bob").BatchGetCounts(t.Context(), &likewisev1.BatchGetCountsRequest{
			VideoIds: []string{"v0", "v1"}, MaxStaleness: durationpb.New(0),
		})
		require.NoError(t, err)
		for _, o := range resp.GetOutcomes() {
			require.Equal(t, "unavailable", o.GetError().GetCode())
		}

		_, err = n.as(t, "bob").BatchGetCounts(t.Context(), &likewisev1.BatchGetCountsRequest{VideoIds: []string{"v0"}, ConsistencyToken: "bogus"})
		requireOnlyCode(t, connect.CodeInvalidArgument, err)
	})
}

// Whole requests are refused, and nothing is read.
func TestInvalidBatches(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	auth := map[string]string{"Authorization": "Bearer " + mint(t, "alice")}
	for name, ids := range map[string][]string{
		"no ids":              {},
		"101 ids":             batchOf(101),
		"101 of the same id":  slices.Repeat([]string{"cat"}, 101),
		"one bad id":          {"cat", "a b"},
		"one empty id":        {"", "cat"},
		"one over-long id":    {strings.Repeat("a", 129)},
		"one id of no letter": {"\u043a\u043e\u0442"},
	} {
		for call, procedure := range map[string]string{
			"counts":    likewisev1connect.ReactionServiceBatchGetCountsProcedure,
			"reactions": likewisev1connect.ReactionServiceBatchGetReactionsProcedure,
		} {
			t.Run(call+", "+name, func(t *testing.T) {
				t.Parallel()
				body, err := json.Marshal(map[string]any{"videoIds": ids})
				require.NoError(t, err)
				code, answer := curl(t, n.url(procedure), string(body), auth)
				require.Equal(t, http.StatusBadRequest, code, "%v", answer)
				require.Equal(t, "invalid_argument", answer["code"])
				require.Contains(t, answer["message"], "video_ids")
			})
		}
	}
	t.Cleanup(func() {
		require.Zero(t, n.store.counts.Load())
		require.Zero(t, n.store.gets.Load())
	})
}

// Where nobody waits any more, nothing is read.
func TestABatchThatIsLateOnArrival(t *testing.T) {
	t.Parallel()
	late, cancel := context.WithTimeoutCause(t.Context(), 0, errCallTimeout)
	defer cancel()
	ends := (&reactionService{metrics: newMetrics()}).items("a batch")
	_, err := batch(late, ends, []string{"cat"}, func(context.Context, []storage.VideoID) []outcome[snapshot] {
		panic("read")
	}, countsOutcomeToProto)
	require.ErrorIs(t, err, errCallTimeout)
}

// Counts beyond what a float can say reach JSON whole, as strings.
func TestLargeCountsInJSON(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	const most = 1<<63 - 1
	n.store.db.put("exact", storage.CounterShard{Slot: 1, Likes: 1 << 53, Rev: 1}, storage.CounterShard{Slot: 2, Likes: 1, Dislikes: most, Rev: 1})
	n.store.db.put("beyond", storage.CounterShard{Slot: 1, Likes: most, Rev: 1}, storage.CounterShard{Slot: 2, Likes: most, Rev: 1})

	_, body := curl(t, n.url(likewisev1connect.ReactionServiceGetCountsProcedure), `{"videoId":"exact"}`, nil)
	require.Subset(t, body["counts"], map[string]any{"likes": "9007199254740993", "dislikes": "9223372036854775807"})

	_, body = curl(t, n.url(likewisev1connect.ReactionServiceBatchGetCountsProcedure), `{"videoIds":["beyond","exact"]}`, nil)
	outcomes, ok := body["outcomes"].([]any)
	require.True(t, ok)
	for i, want := range []map[string]any{
		{"likes": "9223372036854775807", "dislikes": "0"},
		{"likes": "9007199254740993", "dislikes": "9223372036854775807"},
	} {
		outcome, ok := outcomes[i].(map[string]any)
		require.True(t, ok)
		require.Subset(t, outcome["counts"], want)
	}
	require.Contains(t, page(t, n.url("/metrics")), "likewise_regions_counts_saturated_total 1")
}
