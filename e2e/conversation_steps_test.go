package e2e

import (
	"fmt"
	"net/http"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	likewisev1 "likewise/proto/likewise/v1"
)

// conversationSteps is what is said, in order, and what must be answered
// whatever the protocol. A version is told by its distance from the first.
func conversationSteps() []step {
	var steps []step
	for _, part := range [][]step{stepsOfStates(), stepsOfConditions(), stepsOfKeys(), stepsOfBatches(), stepsOfVideos()} {
		steps = append(steps, part...)
	}
	return steps
}

const (
	like    = likewisev1.Reaction_LIKE
	dislike = likewisev1.Reaction_DISLIKE
	none    = likewisev1.Reaction_NONE
)

// The requests of a conversation. Options say what they say besides.

type option func(*conversation, proto.Message)

func setting(reaction likewisev1.Reaction, options ...option) func(*conversation) proto.Message {
	return func(c *conversation) proto.Message {
		return with(c, &likewisev1.SetReactionRequest{VideoId: c.video, Reaction: reaction}, options)
	}
}

func deleting(options ...option) func(*conversation) proto.Message {
	return func(c *conversation) proto.Message {
		return with(c, &likewisev1.DeleteReactionRequest{VideoId: c.video}, options)
	}
}

func voting(action string, options ...option) func(*conversation) proto.Message {
	return func(c *conversation) proto.Message {
		return with(c, &likewisev1.CastVoteRequest{ContentId: c.video, Action: action}, options)
	}
}

func with(c *conversation, request proto.Message, options []option) proto.Message {
	for _, o := range options {
		o(c, request)
	}
	return request
}

func reading(c *conversation) proto.Message { return &likewisev1.GetReactionRequest{VideoId: c.video} }

func counting(c *conversation) proto.Message {
	return &likewisev1.GetCountsRequest{VideoId: c.video, ConsistencyToken: c.token}
}

func (c *conversation) three() []string { return []string{c.video, c.other, "talk-nobody", c.video} }

func readingAll(c *conversation) proto.Message {
	return &likewisev1.BatchGetReactionsRequest{VideoIds: c.three()}
}

func countingAll(c *conversation) proto.Message {
	return &likewisev1.BatchGetCountsRequest{VideoIds: c.three(), ConsistencyToken: c.token}
}

func bringing(state likewisev1.VideoState) func(*conversation) proto.Message {
	return func(c *conversation) proto.Message {
		return &likewisev1.SetVideoStateRequest{VideoId: c.video, State: state}
	}
}

// expecting makes a write conditional on a version, given as its distance from
// the one that the reaction has.
func expecting(distance int64) option {
	return func(c *conversation, request proto.Message) { setField(request, "expected_version", c.now+distance) }
}

func expectingNone(_ *conversation, request proto.Message) {
	setField(request, "expected_version", int64(0))
}

func under(key string) option {
	return func(_ *conversation, request proto.Message) { setField(request, "idempotency_key", key) }
}

func ofTheOther(c *conversation, request proto.Message) { setField(request, "video_id", c.other) }

// The headers of a conversation.

func header(key, value string) func(*conversation) http.Header {
	return func(*conversation) http.Header { return http.Header{key: {value}} }
}

func ifMatch(distance int64) func(*conversation) http.Header {
	return func(c *conversation) http.Header {
		return http.Header{"If-Match": {fmt.Sprintf("%q", fmt.Sprint(c.now+distance))}}
	}
}

func stepsOfStates() []step {
	return []step{
		{says: "read before there was anything", request: reading, told: "NONE at 0"},
		{says: "count before there was anything", request: counting, told: "0:0"},
		{says: "undo before there was anything", request: deleting(), told: "NONE, was NONE, at 0, unchanged; 0:0"},
		{says: "like", request: setting(like), told: "LIKE, was NONE, at first+0, changed; 1:0"},
		{says: "read the like", request: reading, told: "LIKE at first+0"},
		{says: "like again", request: setting(like), told: "LIKE, was LIKE, at first+0, unchanged; 1:0"},
		{says: "vote for it again", request: voting("like"), told: "LIKE, was LIKE, at first+0, unchanged; 1:0"},
		{says: "switch", request: setting(dislike), told: "DISLIKE, was LIKE, at first+1, changed; 0:1"},
		{says: "count the switch", request: counting, told: "0:1"},
		{says: "undo", request: setting(none), told: "NONE, was DISLIKE, at first+2, changed; 0:0"},
		{says: "read what was undone", request: reading, told: "NONE at first+2"},
		{says: "undo again, by deleting", request: deleting(), told: "NONE, was NONE, at first+2, unchanged; 0:0"},
		{says: "vote for it", request: voting("like"), told: "LIKE, was NONE, at first+3, changed; 1:0"},
		{says: "delete the vote", request: deleting(), told: "NONE, was LIKE, at first+4, changed; 0:0"},
		{says: "vote against it", request: voting("dislike"), told: "DISLIKE, was NONE, at first+5, changed; 0:1"},
		{says: "take the vote back", request: voting("none"), told: "NONE, was DISLIKE, at first+6, changed; 0:0"},
		{says: "say nothing definite", request: setting(0), told: "invalid_argument: reaction: must be NONE, LIKE or DISLIKE"},
		{
			says: "like without a token", by: stranger, request: setting(like),
			told: "unauthenticated: Authorization: Bearer",
		},
	}
}

func stepsOfConditions() []step {
	return []step{
		{says: "like if there is no reaction", request: setting(like, expectingNone), told: "LIKE, was NONE, at first+7, changed; 1:0"},
		{says: "dislike if there is none", request: setting(dislike, expectingNone), told: "failed_precondition: it is LIKE at first+7"},
		{says: "dislike if it is as before", request: setting(dislike, expecting(-1)), told: "failed_precondition: it is LIKE at first+7"},
		{says: "dislike if it is as now", request: setting(dislike, expecting(0)), told: "DISLIKE, was LIKE, at first+8, changed; 0:1"},
		{says: "delete if it is as before", request: deleting(expecting(-1)), told: "failed_precondition: it is DISLIKE at first+8"},
		{says: "delete if it is as now", request: deleting(expecting(0)), told: "NONE, was DISLIKE, at first+9, changed; 0:0"},
		{says: "vote if it is as before", request: voting("like", expecting(-1)), told: "failed_precondition: it is NONE at first+9"},
		{says: "vote if it is as now", request: voting("like", expecting(0)), told: "LIKE, was NONE, at first+10, changed; 1:0"},
		{says: "dislike if the tag matches", request: setting(dislike), header: ifMatch(0), told: "DISLIKE, was LIKE, at first+11, changed; 0:1"},
		{says: "like if an older tag matches", request: setting(like), header: ifMatch(-1), told: "failed_precondition: it is DISLIKE at first+11"},
		{says: "like if no tag matches", request: setting(like), header: header("If-None-Match", "*"), told: "failed_precondition: it is DISLIKE at first+11"},
		{says: "delete if an older tag matches", request: deleting(), header: ifMatch(-1), told: "failed_precondition: it is DISLIKE at first+11"},
		{says: "delete if the tag matches", request: deleting(), header: ifMatch(0), told: "NONE, was DISLIKE, at first+12, changed; 0:0"},
		{says: "vote if no tag matches", request: voting("dislike"), header: header("If-None-Match", "*"), told: "DISLIKE, was NONE, at first+13, changed; 0:1"},
	}
}

func stepsOfKeys() []step {
	const once = "LIKE, was DISLIKE, at first+14, changed; "
	const reused = "already_exists: the key was used"
	return []step{
		{says: "like under a key", request: setting(like, under("once")), told: once + "1:0"},
		{says: "repeat it", request: setting(like, under("once")), told: once + "1:0"},
		{says: "repeat it with the key in the header", request: setting(like), header: header("Idempotency-Key", "once"), told: once + "1:0"},
		{says: "repeat it as a vote", request: voting("like", under("once")), told: once + "1:0"},
		{says: "dislike under the key", request: setting(dislike, under("once")), told: reused},
		{says: "delete under the key", request: deleting(under("once")), told: reused},
		{says: "vote against it under the key", request: voting("dislike"), header: header("Idempotency-Key", "once"), told: reused},
		{says: "like under the key on a condition", request: setting(like, under("once"), expecting(0)), told: reused},
		{says: "undo, under no key", request: setting(none), told: "NONE, was LIKE, at first+15, changed; 0:0"},
		{says: "repeat under the key what was undone", request: setting(like, under("once")), told: once + "0:0"},
		{says: "read what the repeat left alone", request: reading, told: "NONE at first+15"},
		{says: "use the key for another video", request: setting(dislike, under("once"), ofTheOther), told: "DISLIKE, was NONE, at first+0, changed; 0:1"},
		{says: "fail under another key", request: setting(like, under("again"), expecting(-3)), told: "failed_precondition: it is NONE at first+15"},
		{says: "a refusal is not kept", request: setting(like, under("again")), told: "LIKE, was NONE, at first+16, changed; 1:0"},
	}
}

func stepsOfBatches() []step {
	return []step{
		{
			says: "read several", request: readingAll,
			told: "video LIKE at first+16, other DISLIKE at first+0, nobody's NONE at 0, video LIKE at first+16",
		},
		{says: "count several", request: countingAll, by: stranger, told: "video 1:0, other 0:1, nobody's 0:0, video 1:0"},
	}
}

func stepsOfVideos() []step {
	const disabled, deleted = "failed_precondition: the video is DISABLED", "failed_precondition: the video is DELETED"
	const gone = "not_found: the video is DELETED"
	return []step{
		{
			says: "disable it as a user", request: bringing(likewisev1.VideoState_DISABLED),
			told: "permission_denied: likewise:admin",
		},
		{says: "disable it", by: admin, request: bringing(likewisev1.VideoState_DISABLED), told: "DISABLED, was ACTIVE, changed, generation 1"},
		{says: "disable it again", by: admin, request: bringing(likewisev1.VideoState_DISABLED), told: "DISABLED, was DISABLED, unchanged, generation 1"},
		{says: "switch on a disabled video", request: setting(dislike), told: disabled},
		{says: "delete on a disabled video", request: deleting(), told: disabled},
		{says: "vote on a disabled video", request: voting("none"), told: disabled},
		{
			says: "repeat under the key on a disabled video", request: setting(like, under("again")),
			told: "LIKE, was NONE, at first+16, changed; 1:0",
		},
		{says: "read a disabled video", request: reading, told: "LIKE at first+16"},
		{says: "count a disabled video", request: counting, told: "1:0"},
		{says: "delete it", by: admin, request: bringing(likewisev1.VideoState_DELETED), told: "DELETED, was DISABLED, changed, generation 2"},
		{says: "switch on a deleted video", request: setting(dislike), told: deleted},
		{says: "read a deleted video", request: reading, told: gone},
		{says: "count a deleted video", request: counting, told: gone, soon: true},
		{
			says: "read several, one deleted", request: readingAll,
			told: "video " + gone + ", other DISLIKE at first+0, nobody's NONE at 0, video " + gone,
		},
		{says: "count several, one deleted", request: countingAll, told: "video " + gone + ", other 0:1, nobody's 0:0, video " + gone, soon: true},
		{says: "restore it", by: admin, request: bringing(likewisev1.VideoState_ACTIVE), told: "ACTIVE, was DELETED, changed, generation 3"},
		{says: "read what was restored", request: reading, told: "LIKE at first+16"},
		{says: "undo on the restored video", request: setting(none), told: "NONE, was LIKE, at first+17, changed; 0:0"},
	}
}

// setField sets a field that not every request has by the same Go name.
func setField(request proto.Message, name string, value any) {
	m := request.ProtoReflect()
	m.Set(m.Descriptor().Fields().ByName(protoreflect.Name(name)), protoreflect.ValueOf(value))
}
