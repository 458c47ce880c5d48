package regions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/zap"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/proto/likewise/v1/likewisev1connect"
	"likewise/storage"
)

// maxBatch is how many ids a batch may hold; the rules in the proto say the same.
const maxBatch = 100

// BatchGetReactions reads the caller's reactions to many videos.
func (s *reactionService) BatchGetReactions(ctx context.Context, req *likewisev1.BatchGetReactionsRequest) (*likewisev1.BatchGetReactionsResponse, error) {
	user, err := userFrom(ctx)
	if err != nil {
		return nil, err
	}
	outcomes, err := batch(ctx, s.items(likewisev1connect.ReactionServiceBatchGetReactionsProcedure), req.GetVideoIds(),
		func(ctx context.Context, videos []storage.VideoID) []outcome[storage.State] {
			return s.router.getMany(ctx, user, videos)
		}, reactionOutcomeToProto)
	answerPrivately(ctx)
	return &likewisev1.BatchGetReactionsResponse{Outcomes: outcomes}, err
}

// BatchGetCounts answers the counts of many videos from this node's cache, and
// the rest by one read of its local database.
func (s *reactionService) BatchGetCounts(ctx context.Context, req *likewisev1.BatchGetCountsRequest) (*likewisev1.BatchGetCountsResponse, error) {
	b, err := boundOf(req, s.counts.defaultBound())
	if err != nil {
		return nil, err
	}
	outcomes, err := batch(ctx, s.items(likewisev1connect.ReactionServiceBatchGetCountsProcedure), req.GetVideoIds(),
		func(ctx context.Context, videos []storage.VideoID) []outcome[snapshot] {
			return s.counts.getMany(ctx, videos, b)
		}, countsOutcomeToProto)
	return &likewisev1.BatchGetCountsResponse{Outcomes: outcomes}, err
}

// batch reads each video once and answers each id, in order. What cannot be read
// in time is an error of its own item; only a caller who has gone fails all.
func batch[T, Outcome any](
	ctx context.Context, ends *items, ids []string,
	read func(context.Context, []storage.VideoID) []outcome[T],
	words func(string, T, *likewisev1.ItemError) *Outcome,
) ([]*Outcome, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	limited, cancel := answerTime(ctx)
	defer cancel()
	videos, at := distinct(ids)
	outcomes := read(limited, videos)
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, context.Cause(ctx)
	}
	answers := make([]*Outcome, len(ids))
	for i, id := range ids {
		became := outcomes[at[i]]
		answers[i] = words(id, became.got, ends.end(became.err))
	}
	ends.report()
	return answers, nil
}

// distinct returns each video once, and for each id which of them it is.
func distinct(ids []string) (videos []storage.VideoID, at []int) {
	known := make(map[string]int, len(ids))
	at = make([]int, len(ids))
	for i, id := range ids {
		place, ok := known[id]
		if !ok {
			place = len(videos)
			known[id] = place
			videos = append(videos, storage.VideoID(id))
		}
		at[i] = place
	}
	return videos, at
}

var errBatchTimeout = fmt.Errorf("%w: the batch took too long", context.DeadlineExceeded)

// answerTime returns a context that ends before the call does, so that time is
// left to bring the caller what was read until then.
func answerTime(ctx context.Context) (context.Context, context.CancelFunc) {
	const most = 250 * time.Millisecond
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	spare := max(0, min(most, time.Until(deadline)/5))
	return context.WithDeadlineCause(ctx, deadline.Add(-spare), errBatchTimeout)
}

// items takes how the items of one batch end.
type items struct {
	service   *reactionService
	procedure string
	ended     map[connect.Code]*likeEnds // of failures
	well      int
}

// likeEnds are items that failed with one code.
type likeEnds struct {
	first error
	count int
}

func (s *reactionService) items(procedure string) *items {
	return &items{service: s, procedure: procedure, ended: make(map[connect.Code]*likeEnds)}
}

// end returns nil for an item that was read, and otherwise what a call for it
// alone would have been answered.
func (t *items) end(err error) *likewisev1.ItemError {
	if err == nil {
		t.well++
		return nil
	}
	told := toConnect(err)
	ends, ok := t.ended[told.Code()]
	if !ok {
		ends = &likeEnds{first: err}
		t.ended[told.Code()] = ends
	}
	ends.count++
	return itemErrorToProto(told)
}

// report does for items what mapErrors and measure do for calls, with one line in
// the log for each code.
func (t *items) report() {
	count := t.service.metrics.batchItems.MustCurryWith(map[string]string{"procedure": t.procedure})
	if t.well > 0 {
		count.WithLabelValues(codeOf(nil)).Add(float64(t.well))
	}
	for code, ends := range t.ended {
		count.WithLabelValues(code.String()).Add(float64(ends.count))
		t.service.log.Log(levelOf(code), "items of a batch failed",
			zap.String("procedure", t.procedure),
			zap.Stringer("code", code),
			zap.Int("items", ends.count),
			zap.Error(ends.first))
	}
}
