package regions

import (
	"time"

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

var errNoReaction = &invalidError{Field: "reaction", Say: "must be LIKE, DISLIKE or NONE"}

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

func videoStateFromProto(s likewisev1.VideoState) storage.VideoState {
	switch s {
	case likewisev1.VideoState_ACTIVE:
		return storage.VideoActive
	case likewisev1.VideoState_DELETED:
		return storage.VideoDeleted
	default: // also states of a later version: that the video takes no reactions is sure
		return storage.VideoDisabled
	}
}

// setToPeer never puts the key into a header: net/http takes the header
// Idempotency-Key as leave to send a request again.
func setToPeer(epoch int64, set storage.Set) *peerv1.SetRequest {
	return &peerv1.SetRequest{
		TopologyEpoch:   epoch,
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
