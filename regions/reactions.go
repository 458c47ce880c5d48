package regions

import (
	"context"

	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/durationpb"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/storage"
)

// reactionService is likewise.v1.ReactionService.
type reactionService struct {
	router  *router
	counts  *countCache
	log     *zap.Logger
	metrics *metrics
}

// SetReaction brings the caller's reaction to the desired state.
func (s *reactionService) SetReaction(ctx context.Context, req *likewisev1.SetReactionRequest) (*likewisev1.SetReactionResponse, error) {
	desired, err := reactionFromProto(req.GetReaction())
	if err != nil {
		return nil, err
	}
	return s.write(ctx, storage.Set{
		Video:           storage.VideoID(req.GetVideoId()),
		Desired:         desired,
		ExpectedVersion: req.ExpectedVersion,
		IdempotencyKey:  req.GetIdempotencyKey(),
	})
}

// DeleteReaction brings the caller's reaction to NONE.
func (s *reactionService) DeleteReaction(ctx context.Context, req *likewisev1.DeleteReactionRequest) (*likewisev1.DeleteReactionResponse, error) {
	resp, err := s.write(ctx, storage.Set{
		Video:           storage.VideoID(req.GetVideoId()),
		Desired:         storage.None,
		ExpectedVersion: req.ExpectedVersion,
		IdempotencyKey:  req.GetIdempotencyKey(),
	})
	if err != nil {
		return nil, err
	}
	return deletionToProto(resp), nil
}

// CastVote brings the caller's reaction to the desired state, in other words.
func (s *reactionService) CastVote(ctx context.Context, req *likewisev1.CastVoteRequest) (*likewisev1.CastVoteResponse, error) {
	desired, err := reactionFromAction(req.GetAction())
	if err != nil {
		return nil, err
	}
	resp, err := s.write(ctx, storage.Set{
		Video:           storage.VideoID(req.GetContentId()),
		Desired:         desired,
		ExpectedVersion: req.ExpectedVersion,
		IdempotencyKey:  req.GetIdempotencyKey(),
	})
	if err != nil {
		return nil, err
	}
	return voteToProto(resp), nil
}

// write is what all three are. Counts are loaded beside the write; if that fails
// the write is none the worse.
func (s *reactionService) write(ctx context.Context, said storage.Set) (*likewisev1.SetReactionResponse, error) {
	set, err := setOf(ctx, said)
	if err != nil {
		return nil, err
	}
	s.counts.warm(ctx, set.Video)
	result, err := s.router.set(ctx, set)
	if err != nil {
		return nil, err
	}
	answerETag(ctx, result.Version)
	resp := resultToProto(result)
	if counts, included, ok := s.counts.besideWrite(ctx, set.Video, result); ok {
		resp.Counts, resp.CountsIncludeChange = countsToProto(counts), included
	}
	return resp, nil
}

// GetReaction reads the caller's reaction from the writer's database.
func (s *reactionService) GetReaction(ctx context.Context, req *likewisev1.GetReactionRequest) (*likewisev1.GetReactionResponse, error) {
	user, err := userFrom(ctx)
	if err != nil {
		return nil, err
	}
	state, err := s.router.get(ctx, storage.VideoID(req.GetVideoId()), user)
	if err != nil {
		return nil, err
	}
	answerETag(ctx, state.Version)
	answerPrivately(ctx)
	return &likewisev1.GetReactionResponse{Reaction: reactionToProto(state.Reaction), Version: state.Version}, nil
}

// GetCounts answers from this node's cache or its local database.
func (s *reactionService) GetCounts(ctx context.Context, req *likewisev1.GetCountsRequest) (*likewisev1.GetCountsResponse, error) {
	b, err := boundOf(req, s.counts.defaultBound())
	if err != nil {
		return nil, err
	}
	counts, err := s.counts.get(ctx, storage.VideoID(req.GetVideoId()), b)
	if err != nil {
		return nil, err
	}
	return &likewisev1.GetCountsResponse{Counts: countsToProto(counts)}, nil
}

// setOf completes what a request says by what its headers and its token say.
func setOf(ctx context.Context, said storage.Set) (storage.Set, error) {
	user, err := userFrom(ctx)
	if err != nil {
		return storage.Set{}, err
	}
	said.User, said.Slot = user, slotOf(said.Video, user)
	said.IdempotencyKey, said.ExpectedVersion, err = conditionsOf(ctx, said.IdempotencyKey, said.ExpectedVersion)
	return said, err
}

// youngRequest says how old counts may be.
type youngRequest interface {
	GetMaxStaleness() *durationpb.Duration
	GetConsistencyToken() string
}

// boundOf says how old counts may be for a caller.
func boundOf(req youngRequest, b bound) (bound, error) {
	if staleness := req.GetMaxStaleness(); staleness != nil {
		b.maxAge, b.demanded = staleness.AsDuration(), true
	}
	if token := req.GetConsistencyToken(); token != "" {
		after, err := parseToken(token)
		if err != nil {
			return bound{}, err
		}
		b.after = after
	}
	return b, nil
}
