package regions

import (
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/proto/likewise/v1/likewisev1connect"
	"likewise/storage"
)

// The three write calls are one: each sees what the others did.
func TestDeletionsAndVotesAreWrites(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	alice := n.as(t, "alice")
	vote := func(action string) *likewisev1.CastVoteResponse {
		resp, err := alice.CastVote(t.Context(), &likewisev1.CastVoteRequest{ContentId: "cat", Action: action})
		require.NoError(t, err)
		return resp
	}

	liked := vote("like")
	require.Equal(t, likewisev1.Reaction_LIKE, liked.GetReaction())
	require.Equal(t, likewisev1.Reaction_NONE, liked.GetPreviousReaction())
	require.True(t, liked.GetChanged())
	require.EqualValues(t, 1, liked.GetVersion())
	require.EqualValues(t, 1, liked.GetCounts().GetLikes())
	require.True(t, liked.GetCountsIncludeChange())
	_, err := parseToken(liked.GetConsistencyToken())
	require.NoError(t, err)

	again := vote("like")
	require.False(t, again.GetChanged())
	require.EqualValues(t, 1, again.GetVersion())

	disliked := vote("dislike")
	require.Equal(t, likewisev1.Reaction_LIKE, disliked.GetPreviousReaction())
	require.True(t, proto.Equal(&likewisev1.Counts{Dislikes: 1, AsOf: disliked.GetCounts().GetAsOf()}, disliked.GetCounts()))

	gone, err := alice.DeleteReaction(t.Context(), &likewisev1.DeleteReactionRequest{VideoId: "cat"})
	require.NoError(t, err)
	require.Equal(t, likewisev1.Reaction_NONE, gone.GetReaction())
	require.Equal(t, likewisev1.Reaction_DISLIKE, gone.GetPreviousReaction())
	require.True(t, gone.GetChanged())
	require.EqualValues(t, 3, gone.GetVersion())
	require.Zero(t, gone.GetCounts().GetDislikes())
	require.True(t, gone.GetCountsIncludeChange())
	_, err = parseToken(gone.GetConsistencyToken())
	require.NoError(t, err)

	require.False(t, vote("none").GetChanged())
}

// A field that one answer has and the others forget would be missed by nobody
// but its callers.
func TestTheAnswersToWritesHaveTheSameFields(t *testing.T) {
	t.Parallel()
	all := &likewisev1.SetReactionResponse{
		Reaction: likewisev1.Reaction_LIKE, Version: 7, PreviousReaction: likewisev1.Reaction_DISLIKE, Changed: true,
		ConsistencyToken: "token", Counts: &likewisev1.Counts{Likes: 1}, CountsIncludeChange: true,
	}
	fields := all.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		require.True(t, all.ProtoReflect().Has(fields.Get(i)), "%s", fields.Get(i).Name())
	}
	want, err := proto.MarshalOptions{Deterministic: true}.Marshal(all)
	require.NoError(t, err)
	for _, words := range []proto.Message{deletionToProto(all), voteToProto(all)} {
		got, err := proto.MarshalOptions{Deterministic: true}.Marshal(words)
		require.NoError(t, err)
		require.Equal(t, want, got, "%s", words.ProtoReflect().Descriptor().Name())
	}
}

func TestInvalidVotesAndDeletionsWriteNothing(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	auth := map[string]string{"Authorization": "Bearer " + mint(t, "alice")}
	for name, c := range map[string]struct{ procedure, body string }{
		"a vote without action":    {likewisev1connect.ReactionServiceCastVoteProcedure, `{"content_id":"cat"}`},
		"a vote in upper case":     {likewisev1connect.ReactionServiceCastVoteProcedure, `{"content_id":"cat","action":"LIKE"}`},
		"a vote without content":   {likewisev1connect.ReactionServiceCastVoteProcedure, `{"action":"like"}`},
		"a vote on a bad id":       {likewisev1connect.ReactionServiceCastVoteProcedure, `{"content_id":"a b","action":"like"}`},
		"a deletion without video": {likewisev1connect.ReactionServiceDeleteReactionProcedure, `{}`},
		"a deletion of a bad id":   {likewisev1connect.ReactionServiceDeleteReactionProcedure, `{"videoId":"a/b"}`},
		"a version below 0":        {likewisev1connect.ReactionServiceDeleteReactionProcedure, `{"videoId":"cat","expectedVersion":"-1"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, answer := curl(t, n.url(c.procedure), c.body, auth)
			require.Equal(t, http.StatusBadRequest, code, "%v", answer)
			require.Equal(t, "invalid_argument", answer["code"])
		})
	}
	t.Cleanup(func() { require.Zero(t, n.store.sets.Load()) })
}

func TestWhoIsUnknownIsToldHowToSayIt(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	client := clientOf(t, n.FrontAddr(), "bogus")
	_, err := client.DeleteReaction(t.Context(), &likewisev1.DeleteReactionRequest{VideoId: "cat"})
	require.Equal(t, "Bearer", requireCode(t, connect.CodeUnauthenticated, err).Meta().Get("WWW-Authenticate"))
}

// R8
func TestADeletedVideo(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	alice := n.as(t, "alice")
	kept, err := alice.SetReaction(t.Context(), withKey(like("cat"), "k1"))
	require.NoError(t, err)
	n.store.db.setVideo("cat", storage.VideoDeleted)
	n.Server.counts.renew(t.Context(), "cat")

	requireDeleted := func(t *testing.T, code connect.Code, err error) {
		t.Helper()
		detail := detailOf[*likewisev1.VideoNotActive](t, requireCode(t, code, err))
		require.Equal(t, likewisev1.VideoState_DELETED, detail.GetState())
	}
	_, err = alice.GetReaction(t.Context(), &likewisev1.GetReactionRequest{VideoId: "cat"})
	requireDeleted(t, connect.CodeNotFound, err)
	_, err = alice.GetCounts(t.Context(), &likewisev1.GetCountsRequest{VideoId: "cat"})
	requireDeleted(t, connect.CodeNotFound, err)
	_, err = alice.SetReaction(t.Context(), like("cat"))
	requireDeleted(t, connect.CodeFailedPrecondition, err)
	_, err = alice.DeleteReaction(t.Context(), &likewisev1.DeleteReactionRequest{VideoId: "cat"})
	requireDeleted(t, connect.CodeFailedPrecondition, err)

	again, err := alice.SetReaction(t.Context(), withKey(like("cat"), "k1"))
	require.NoError(t, err, "a repeat is answered as before")
	require.Equal(t, kept.GetVersion(), again.GetVersion())
	require.Nil(t, again.GetCounts())
	require.False(t, again.GetCountsIncludeChange())
}
