package regions

import (
	"context"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/proto/likewise/v1/likewisev1connect"
	"likewise/storage"
)

// keyHeader names a write, as the field idempotency_key does.
const keyHeader = "Idempotency-Key"

// reactionService is likewise.v1.ReactionService.
type reactionService struct {
	likewisev1connect.UnimplementedReactionServiceHandler // of calls to come

	router *router
	counts *countCache
}

// SetReaction brings the caller's reaction to the desired state. Counts are
// loaded beside the write; if that fails the write is none the worse.
func (s *reactionService) SetReaction(ctx context.Context, req *likewisev1.SetReactionRequest) (*likewisev1.SetReactionResponse, error) {
	set, err := setOf(ctx, req)
	if err != nil {
		return nil, err
	}
	s.counts.warm(ctx, set.Video)
	result, err := s.router.set(ctx, set)
	if err != nil {
		return nil, err
	}
	resp := &likewisev1.SetReactionResponse{
		Reaction:         reactionToProto(result.Reaction),
		Version:          result.Version,
		PreviousReaction: reactionToProto(result.Previous),
		Changed:          result.Changed,
		ConsistencyToken: formatToken(result.CommittedAt),
	}
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

func setOf(ctx context.Context, req *likewisev1.SetReactionRequest) (storage.Set, error) {
	user, err := userFrom(ctx)
	if err != nil {
		return storage.Set{}, err
	}
	desired, err := reactionFromProto(req.GetReaction())
	if err != nil {
		return storage.Set{}, err
	}
	key, err := idempotencyKey(ctx, req.GetIdempotencyKey())
	if err != nil {
		return storage.Set{}, err
	}
	video := storage.VideoID(req.GetVideoId())
	return storage.Set{
		Slot:            slotOf(video, user),
		Video:           video,
		User:            user,
		Desired:         desired,
		ExpectedVersion: req.ExpectedVersion,
		IdempotencyKey:  key,
	}, nil
}

var (
	errTwoKeys = &invalidError{Field: "idempotency_key", Say: "differs from the header Idempotency-Key; send one of them"}
	errBadKey  = &invalidError{Field: keyHeader, Say: "must be at most 128 printable ASCII characters, and be sent once"}
)

// idempotencyKey returns the key of a write from the field, which is valid, or
// the header, which may hold anything.
func idempotencyKey(ctx context.Context, field string) (string, error) {
	header, err := keyFromHeader(ctx)
	switch {
	case err != nil:
		return "", err
	case header == "" || header == field:
		return field, nil
	case field == "":
		return header, nil
	default:
		return "", errTwoKeys
	}
}

func keyFromHeader(ctx context.Context) (string, error) {
	call, ok := connect.CallInfoForHandlerContext(ctx)
	if !ok {
		return "", nil
	}
	values := call.RequestHeader()[http.CanonicalHeaderKey(keyHeader)]
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1 || !validKey(values[0]):
		return "", errBadKey
	default:
		return values[0], nil
	}
}

func validKey(key string) bool {
	for i := range len(key) {
		if key[i] < 0x21 || key[i] > 0x7e {
			return false
		}
	}
	return len(key) <= maxID
}

// boundOf says how old counts may be for a caller.
func boundOf(req *likewisev1.GetCountsRequest, b bound) (bound, error) {
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

func countsToProto(s snapshot) *likewisev1.Counts {
	return &likewisev1.Counts{Likes: s.likes, Dislikes: s.dislikes, AsOf: timestamppb.New(s.asOf)}
}
