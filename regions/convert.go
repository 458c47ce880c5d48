package regions

import (
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	peerv1 "likewise/proto/likewise/peer/v1"
	likewisev1 "likewise/proto/likewise/v1"
	"likewise/routing"
	"likewise/storage"
)

func slotOf(video storage.VideoID, user storage.UserID) storage.Slot {
	return storage.Slot(routing.SlotOf(string(video), string(user)))
}

func reactionToProto(r storage.Reaction) likewisev1.Reaction {
	switch r {
	case storage.None:
		return likewisev1.Reaction_NONE
	case storage.Like:
		return likewisev1.Reaction_LIKE
	case storage.Dislike:
		return likewisev1.Reaction_DISLIKE
	default:
		return likewisev1.Reaction_REACTION_UNSPECIFIED
	}
}

var errNoReaction = &invalidError{Field: "reaction", Say: "must be NONE, LIKE or DISLIKE"}

func reactionFromProto(r likewisev1.Reaction) (storage.Reaction, error) {
	switch r {
	case likewisev1.Reaction_NONE:
		return storage.None, nil
	case likewisev1.Reaction_LIKE:
		return storage.Like, nil
	case likewisev1.Reaction_DISLIKE:
		return storage.Dislike, nil
	default:
		return storage.None, errNoReaction
	}
}

var errNoAction = &invalidError{Field: "action", Say: "must be like, dislike or none"}

func reactionFromAction(action string) (storage.Reaction, error) {
	switch action {
	case "none":
		return storage.None, nil
	case "like":
		return storage.Like, nil
	case "dislike":
		return storage.Dislike, nil
	default:
		return storage.None, errNoAction
	}
}

// resultToProto leaves out the counts.
func resultToProto(r storage.Result) *likewisev1.SetReactionResponse {
	return &likewisev1.SetReactionResponse{
		Reaction:         reactionToProto(r.Reaction),
		Version:          r.Version,
		PreviousReaction: reactionToProto(r.Previous),
		Changed:          r.Changed,
		ConsistencyToken: formatToken(r.CommittedAt),
	}
}

func deletionToProto(r *likewisev1.SetReactionResponse) *likewisev1.DeleteReactionResponse {
	return &likewisev1.DeleteReactionResponse{
		Reaction:            r.GetReaction(),
		Version:             r.GetVersion(),
		PreviousReaction:    r.GetPreviousReaction(),
		Changed:             r.GetChanged(),
		ConsistencyToken:    r.GetConsistencyToken(),
		Counts:              r.GetCounts(),
		CountsIncludeChange: r.GetCountsIncludeChange(),
	}
}

func voteToProto(r *likewisev1.SetReactionResponse) *likewisev1.CastVoteResponse {
	return &likewisev1.CastVoteResponse{
		Reaction:            r.GetReaction(),
		Version:             r.GetVersion(),
		PreviousReaction:    r.GetPreviousReaction(),
		Changed:             r.GetChanged(),
		ConsistencyToken:    r.GetConsistencyToken(),
		Counts:              r.GetCounts(),
		CountsIncludeChange: r.GetCountsIncludeChange(),
	}
}

func countsToProto(s snapshot) *likewisev1.Counts {
	return &likewisev1.Counts{Likes: s.likes, Dislikes: s.dislikes, AsOf: timestamppb.New(s.asOf)}
}

func videoStateToProto(s storage.VideoState) likewisev1.VideoState {
	switch s {
	case storage.VideoActive:
		return likewisev1.VideoState_ACTIVE
	case storage.VideoDisabled:
		return likewisev1.VideoState_DISABLED
	case storage.VideoDeleted:
		return likewisev1.VideoState_DELETED
	default:
		return likewisev1.VideoState_VIDEO_STATE_UNSPECIFIED
	}
}

var errNoVideoState = &invalidError{Field: "state", Say: "must be ACTIVE, DISABLED or DELETED"}

// videoStateOf is for requests: a state that is not known is refused.
func videoStateOf(s likewisev1.VideoState) (storage.VideoState, error) {
	switch s {
	case likewisev1.VideoState_ACTIVE:
		return storage.VideoActive, nil
	case likewisev1.VideoState_DISABLED:
		return storage.VideoDisabled, nil
	case likewisev1.VideoState_DELETED:
		return storage.VideoDeleted, nil
	default:
		return 0, errNoVideoState
	}
}

// refusingStateFromPeer is for refusals: of a state that only a later version
// knows, it is sure that the video takes no reactions.
func refusingStateFromPeer(s likewisev1.VideoState) storage.VideoState {
	if state, err := videoStateOf(s); err == nil {
		return state
	}
	return storage.VideoDisabled
}

func videoChangeToProto(c storage.VideoChange) *likewisev1.SetVideoStateResponse {
	return &likewisev1.SetVideoStateResponse{
		State:         videoStateToProto(c.State),
		PreviousState: videoStateToProto(c.Previous),
		Changed:       c.Changed,
		Generation:    c.Generation,
	}
}

// setToPeer never puts the key into a header: net/http takes the header
// Idempotency-Key as leave to send a request again.
func setToPeer(by routing.Topology, set storage.Set) *peerv1.SetRequest {
	return &peerv1.SetRequest{
		TopologyEpoch:   by.Epoch,
		TopologyHash:    by.Hash(),
		UserId:          string(set.User),
		VideoId:         string(set.Video),
		Reaction:        reactionToProto(set.Desired),
		IdempotencyKey:  set.IdempotencyKey,
		ExpectedVersion: set.ExpectedVersion,
	}
}

func setFromPeer(req *peerv1.SetRequest) (storage.Set, error) {
	desired, err := reactionFromProto(req.GetReaction())
	if err != nil {
		return storage.Set{}, err
	}
	video, user, err := idsFromPeer(req)
	if err != nil {
		return storage.Set{}, err
	}
	if !validKey(req.GetIdempotencyKey()) || req.GetExpectedVersion() < 0 {
		return storage.Set{}, errBadKey
	}
	return storage.Set{
		Slot:            slotOf(video, user),
		Video:           video,
		User:            user,
		Desired:         desired,
		ExpectedVersion: req.ExpectedVersion,
		IdempotencyKey:  req.GetIdempotencyKey(),
	}, nil
}

type peerRequest interface {
	GetVideoId() string
	GetUserId() string
}

// idsFromPeer checks once more what the front door has checked: ids of another
// form must never get into the database, whatever version a peer has.
func idsFromPeer(req peerRequest) (storage.VideoID, storage.UserID, error) {
	if !validID(req.GetVideoId()) {
		return "", "", errBadVideo
	}
	if !validID(req.GetUserId()) {
		return "", "", errBadUser
	}
	return storage.VideoID(req.GetVideoId()), storage.UserID(req.GetUserId()), nil
}

var (
	errBadVideo = &invalidError{Field: "video_id", Say: "is not a video id"}
	errBadUser  = &invalidError{Field: "user_id", Say: "is not a user id"}
)

func resultToPeer(r storage.Result) *peerv1.SetResponse {
	resp := &peerv1.SetResponse{
		Reaction:          reactionToProto(r.Reaction),
		Version:           r.Version,
		PreviousReaction:  reactionToProto(r.Previous),
		Changed:           r.Changed,
		CommittedAtMicros: r.CommittedAt.UnixMicro(),
	}
	if r.Shard != nil {
		resp.CounterShard = &peerv1.CounterShard{
			CounterSlot: int64(r.Shard.Slot),
			Likes:       r.Shard.Likes,
			Dislikes:    r.Shard.Dislikes,
			Rev:         r.Shard.Rev,
		}
	}
	return resp
}

func resultFromPeer(resp *peerv1.SetResponse) (storage.Result, error) {
	reaction, err := reactionFromProto(resp.GetReaction())
	if err != nil {
		return storage.Result{}, err
	}
	previous, err := reactionFromProto(resp.GetPreviousReaction())
	if err != nil {
		return storage.Result{}, err
	}
	result := storage.Result{
		Previous:    previous,
		Reaction:    reaction,
		Version:     resp.GetVersion(),
		Changed:     resp.GetChanged(),
		CommittedAt: time.UnixMicro(resp.GetCommittedAtMicros()).UTC(),
	}
	if shard := resp.GetCounterShard(); shard != nil {
		result.Shard = &storage.CounterShard{
			Slot:     storage.Slot(shard.GetCounterSlot()),
			Likes:    shard.GetLikes(),
			Dislikes: shard.GetDislikes(),
			Rev:      shard.GetRev(),
		}
	}
	return result, nil
}

func batchToPeer(by routing.Topology, user storage.UserID, places []storage.Place) *peerv1.BatchGetRequest {
	req := &peerv1.BatchGetRequest{TopologyEpoch: by.Epoch, TopologyHash: by.Hash(), UserId: string(user), VideoIds: make([]string, len(places))}
	for i, place := range places {
		req.VideoIds[i] = string(place.Video)
	}
	return req
}

var errBadBatch = &invalidError{Field: "video_ids", Say: fmt.Sprintf("must hold 1 to %d ids", maxBatch)}

func batchFromPeer(req *peerv1.BatchGetRequest) (storage.UserID, []storage.Place, error) {
	user := storage.UserID(req.GetUserId())
	if n := len(req.GetVideoIds()); n < 1 || n > maxBatch {
		return "", nil, errBadBatch
	}
	if !validID(req.GetUserId()) {
		return "", nil, errBadUser
	}
	places := make([]storage.Place, len(req.GetVideoIds()))
	for i, id := range req.GetVideoIds() {
		if !validID(id) {
			return "", nil, errBadVideo
		}
		video := storage.VideoID(id)
		places[i] = storage.Place{Slot: slotOf(video, user), Video: video}
	}
	return user, places, nil
}

func readingsToPeer(readings []storage.Reading) *peerv1.BatchGetResponse {
	resp := &peerv1.BatchGetResponse{Readings: make([]*peerv1.Reading, len(readings))}
	for i, r := range readings {
		resp.Readings[i] = &peerv1.Reading{
			Reaction:     reactionToProto(r.Reaction),
			Version:      r.Version,
			VideoDeleted: r.Video == storage.VideoDeleted,
		}
	}
	return resp
}

var errOtherBatch = errors.New("another number of reactions was answered than was asked for")

// readingsFromPeer takes the answer to a request for n. Of the videos it knows
// only whether they are deleted.
func readingsFromPeer(resp *peerv1.BatchGetResponse, n int) ([]storage.Reading, error) {
	if len(resp.GetReadings()) != n {
		return nil, errOtherBatch
	}
	readings := make([]storage.Reading, len(resp.GetReadings()))
	for i, r := range resp.GetReadings() {
		reaction, err := reactionFromProto(r.GetReaction())
		if err != nil {
			return nil, err
		}
		readings[i] = storage.Reading{State: storage.State{Reaction: reaction, Version: r.GetVersion()}, Video: storage.VideoActive}
		if r.GetVideoDeleted() {
			readings[i].Video = storage.VideoDeleted
		}
	}
	return readings, nil
}

func itemErrorToProto(told *connect.Error) *likewisev1.ItemError {
	item := &likewisev1.ItemError{Code: told.Code().String(), Message: told.Message()}
	for _, detail := range told.Details() {
		item.Details = append(item.Details, &anypb.Any{TypeUrl: typeURL + detail.Type(), Value: detail.Bytes()})
	}
	return item
}

// typeURL begins the names of types in an Any.
const typeURL = "type.googleapis.com/"

func reactionOutcomeToProto(id string, state storage.State, failed *likewisev1.ItemError) *likewisev1.ReactionOutcome {
	if failed != nil {
		return &likewisev1.ReactionOutcome{VideoId: id, Outcome: &likewisev1.ReactionOutcome_Error{Error: failed}}
	}
	return &likewisev1.ReactionOutcome{VideoId: id, Outcome: &likewisev1.ReactionOutcome_State{
		State: &likewisev1.ReactionState{Reaction: reactionToProto(state.Reaction), Version: state.Version},
	}}
}

func countsOutcomeToProto(id string, counts snapshot, failed *likewisev1.ItemError) *likewisev1.CountsOutcome {
	if failed != nil {
		return &likewisev1.CountsOutcome{VideoId: id, Outcome: &likewisev1.CountsOutcome_Error{Error: failed}}
	}
	return &likewisev1.CountsOutcome{VideoId: id, Outcome: &likewisev1.CountsOutcome_Counts{Counts: countsToProto(counts)}}
}
