package e2e

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	likewisev1 "likewise/proto/likewise/v1"
)

// badCall is something that no caller should send, and what it must be told.
type badCall struct {
	name    string
	request proto.Message
	header  http.Header
	by      who
	code    string // invalid_argument, if empty
	says    string // a part of the sentence or of a violation, that names what to change
	notREST bool   // REST cannot put it so
}

const (
	idRule    = "must be 1 to 128 of the characters A-Z a-z 0-9 - . _ ~ : @ + = , |"
	keyRule   = "must be at most 128 printable ASCII characters"
	setRule   = "must be NONE, LIKE or DISLIKE"
	batchRule = "must hold 1 to 100 ids"
	someVideo = "cat"
	longID    = 60_000 // bytes: within the limit of a request, far over that of an id
)

// testBadValues sends each request that the protocol can say and the service
// cannot take, in every protocol.
func (d *deployment) testBadValues(t *testing.T) {
	cases := slices.Concat(badReactions(), badIDs(), badKeys(), badConditions(), badReads(), badBatches())
	for _, s := range speakers(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			me := "bad-values-" + identifier(s.name)
			bearer := map[who]string{user: userToken(t, me), admin: adminToken(t)}
			for i, c := range cases {
				if s.curl && i%curlEvery != 0 || s.rest && c.notREST {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					n := d.Nodes()[i%len(d.Nodes())]
					c.check(t, s.say(t.Context(), n, call{request: c.request, header: c.header, bearer: bearer[c.by]}))
					d.requireNothingWritten(t, me)
				})
			}
		})
	}
}

// curlEvery is how many cases of a table a program that is started anew for
// each leaves out, and one more. Its way into the service is that of gRPC.
const curlEvery = 32

// check demands the code, and that the answer says what to change.
func (c badCall) check(t *testing.T, r reply) {
	t.Helper()
	code := cmp.Or(c.code, "invalid_argument")
	require.Equal(t, code, r.code, r.text)
	require.Contains(t, strings.Join(append(violationsOf(r), r.text), "\n"), c.says)
	if r.status != 0 {
		require.Equal(t, statusOf(r), r.status)
	}
}

// requireNothingWritten demands that nothing at all is stored of a user.
func (d *deployment) requireNothingWritten(t *testing.T, user string) {
	t.Helper()
	require.Equal(t, traces{}, d.traces(t, user))
}

// traces is what is stored of a user: rows of reactions, of changes and of
// idempotency keys.
type traces struct{ Reactions, Changes, Keys int }

func (d *deployment) traces(t *testing.T, user string) traces {
	t.Helper()
	var found traces
	err := d.pool.QueryRow(t.Context(), `SELECT
		(SELECT count(*) FROM reactions WHERE user_id = $1),
		(SELECT count(*) FROM changes WHERE user_id = $1),
		(SELECT count(*) FROM idempotency WHERE user_id = $1)`, user).Scan(&found.Reactions, &found.Changes, &found.Keys)
	require.NoError(t, err)
	return found
}

func idOf(n int) string { return strings.Repeat("v", n) }

func badReactions() []badCall {
	vote := func(action string) proto.Message {
		return &likewisev1.CastVoteRequest{ContentId: someVideo, Action: action}
	}
	const voteRule = "must be like, dislike or none"
	return []badCall{
		{name: "no reaction", request: &likewisev1.SetReactionRequest{VideoId: someVideo}, says: "reaction: " + setRule},
		{name: "a reaction of another time", request: &likewisev1.SetReactionRequest{VideoId: someVideo, Reaction: 99}, says: "reaction: " + setRule},
		{name: "a negative reaction", request: &likewisev1.SetReactionRequest{VideoId: someVideo, Reaction: -1}, says: "reaction: " + setRule},
		{name: "no vote", request: vote(""), says: "action: " + voteRule},
		{name: "a vote in upper case", request: vote("LIKE"), says: "action: " + voteRule},
		{name: "a vote up", request: vote("up"), says: "action: " + voteRule},
		{name: "no state", by: admin, request: &likewisev1.SetVideoStateRequest{VideoId: someVideo}, says: "must be ACTIVE, DISABLED or DELETED"},
		{name: "a state of another time", by: admin, request: &likewisev1.SetVideoStateRequest{VideoId: someVideo, State: 99}, says: "must be ACTIVE, DISABLED or DELETED"},
	}
}

// badIDs holds ids of every wrong length, and each ASCII character that is not
// allowed, in the middle of an id.
func badIDs() []badCall {
	cases := []badCall{
		{name: "no video", request: &likewisev1.SetReactionRequest{Reaction: like}, says: "video_id: " + idRule},
		{name: "no content", request: &likewisev1.CastVoteRequest{Action: "like"}, says: "content_id: " + idRule},
		{name: "an id of 129", request: &likewisev1.SetReactionRequest{VideoId: idOf(129), Reaction: like}, says: "video_id: " + idRule},
		{name: "a very long id", request: &likewisev1.SetReactionRequest{VideoId: idOf(longID), Reaction: like}, says: "video_id: " + idRule, notREST: true},
		{name: "a very long content", request: &likewisev1.CastVoteRequest{ContentId: idOf(longID), Action: "like"}, says: "content_id: " + idRule},
		{name: "an id of 64 k", request: &likewisev1.SetReactionRequest{VideoId: idOf(64 << 10), Reaction: like}, says: "65536 bytes", notREST: true},
		{name: "deleting with an id of 129", request: &likewisev1.DeleteReactionRequest{VideoId: idOf(129)}, says: "video_id: " + idRule},
		{name: "a video of 129", by: admin, request: &likewisev1.SetVideoStateRequest{VideoId: idOf(129), State: likewisev1.VideoState_DISABLED}, says: "video_id: " + idRule},
	}
	for _, c := range strangeCharacters() {
		cases = append(cases,
			badCall{name: "an id with " + c, request: &likewisev1.SetReactionRequest{VideoId: "a" + c + "b", Reaction: like}, says: "video_id: " + idRule},
			badCall{name: "content with " + c, request: &likewisev1.CastVoteRequest{ContentId: c, Action: "like"}, says: "content_id: " + idRule})
	}
	return cases
}

// strangeCharacters are all ASCII characters that an id must not have, and some
// of others: one letter in both of its spellings, letters that look like ours,
// and invisible ones.
func strangeCharacters() []string {
	var strange []string
	for c := range 128 {
		if !strings.ContainsRune(allowed, rune(c)) {
			strange = append(strange, string(rune(c)))
		}
	}
	return append(strange, "é", "e\u0301", "а", "ａ", "\u200b", "\u00a0", "😀")
}

// allowed are the characters of ids.
const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:@+=,|"

func badKeys() []badCall {
	set := func(key string) proto.Message {
		return &likewisev1.SetReactionRequest{VideoId: someVideo, Reaction: like, IdempotencyKey: key}
	}
	said := func(keys ...string) http.Header { return http.Header{"Idempotency-Key": keys} }
	return []badCall{
		{name: "a key of 129", request: set(idOf(129)), says: "idempotency_key: " + keyRule},
		{name: "a key with a space", request: set("a b"), says: "idempotency_key: " + keyRule},
		{name: "a key with a letter that is not ASCII", request: set("é"), says: "idempotency_key: " + keyRule},
		{name: "a key with a line feed", request: set("a\nb"), says: "idempotency_key: " + keyRule},
		{name: "a key of 129 of a deletion", request: &likewisev1.DeleteReactionRequest{VideoId: someVideo, IdempotencyKey: idOf(129)}, says: "idempotency_key: " + keyRule},
		{name: "a key of 129 of a vote", request: &likewisev1.CastVoteRequest{ContentId: someVideo, Action: "like", IdempotencyKey: idOf(129)}, says: "idempotency_key: " + keyRule},
		{name: "a key of 129 in the header", request: set(""), header: said(idOf(129)), says: "Idempotency-Key"},
		{name: "a key with a space in the header", request: set(""), header: said("a b"), says: "Idempotency-Key"},
		{name: "two keys in the header", request: set(""), header: said("a", "b"), says: "Idempotency-Key"},
		{name: "one key in the field and another in the header", request: set("a"), header: said("b"), says: "Idempotency-Key"},
		{name: "the same of a deletion", request: &likewisev1.DeleteReactionRequest{VideoId: someVideo, IdempotencyKey: "a"}, header: said("b"), says: "idempotency_key"},
		{name: "the same of a vote", request: &likewisev1.CastVoteRequest{ContentId: someVideo, Action: "like", IdempotencyKey: "a"}, header: said("b"), says: "idempotency_key"},
	}
}

func badConditions() []badCall {
	set := func(version int64) proto.Message {
		return &likewisev1.SetReactionRequest{VideoId: someVideo, Reaction: like, ExpectedVersion: &version}
	}
	cases := []badCall{
		{name: "a negative version", request: set(-1), says: "expected_version: must be greater than or equal to 0"},
		{name: "a version with no row", request: set(7), code: "failed_precondition", says: ""},
		{name: "another version in the field than in the header", request: set(7), header: http.Header{"If-Match": {`"8"`}}, says: "expected_version"},
		{name: "a version in the field and none in the header", request: set(7), header: http.Header{"If-None-Match": {"*"}}, says: "expected_version"},
	}
	requests := map[string]proto.Message{
		"setting":  &likewisev1.SetReactionRequest{VideoId: someVideo, Reaction: like},
		"deleting": &likewisev1.DeleteReactionRequest{VideoId: someVideo},
		"voting":   &likewisev1.CastVoteRequest{ContentId: someVideo, Action: "like"},
	}
	for name, request := range requests {
		cases = append(cases, badCall{
			name: name + " if a version matches and there is no row", request: request,
			header: http.Header{"If-Match": {`"7"`}}, code: "failed_precondition",
		})
		for _, value := range []string{`*`, `7`, `W/"7"`, `"7", "8"`, `"seven"`, `""`, `"-1"`, `"7`, `"9223372036854775808"`, `"07 "`} {
			cases = append(cases, badCall{
				name: name + " with If-Match " + value, request: request,
				header: http.Header{"If-Match": {value}}, says: "If-Match",
			})
		}
		for _, value := range []string{`"7"`, `W/"7"`, `"*"`, `*, *`, `0`} {
			cases = append(cases, badCall{
				name: name + " with If-None-Match " + value, request: request,
				header: http.Header{"If-None-Match": {value}}, says: "If-None-Match",
			})
		}
		cases = append(cases,
			badCall{name: name + " with two If-Match", request: request, header: http.Header{"If-Match": {`"7"`, `"7"`}}, says: "If-Match"},
			badCall{
				name: name + " with both conditions", request: request,
				header: http.Header{"If-Match": {`"7"`}, "If-None-Match": {"*"}}, says: "If-None-Match",
			})
	}
	return cases
}

func badReads() []badCall {
	return []badCall{
		{name: "reading with an id of 129", request: &likewisev1.GetReactionRequest{VideoId: idOf(129)}, says: "video_id: " + idRule},
		{name: "counting with an id of 129", request: &likewisev1.GetCountsRequest{VideoId: idOf(129)}, says: "video_id: " + idRule},
		{name: "counts of the future", request: &likewisev1.GetCountsRequest{VideoId: someVideo, MaxStaleness: durationpb.New(-time.Second)}, says: "max_staleness"},
		{name: "counts of a token that is none", request: &likewisev1.GetCountsRequest{VideoId: someVideo, ConsistencyToken: "rubbish"}, says: "consistency_token"},
		{name: "counts of a long token", request: &likewisev1.GetCountsRequest{VideoId: someVideo, ConsistencyToken: idOf(65)}, says: "consistency_token"},
	}
}

func badBatches() []badCall {
	var cases []badCall
	ids := func(n int) []string { return slices.Repeat([]string{someVideo}, n) }
	for name, c := range map[string]struct {
		ids  []string
		says string
	}{
		"no ids":              {nil, "video_ids: " + batchRule},
		"101 ids":             {ids(101), "video_ids: " + batchRule},
		"1000 ids":            {ids(1000), "video_ids: " + batchRule},
		"a bad id among good": {append(ids(3), "a b"), "video_ids[3]: " + idRule},
		"an empty id":         {[]string{""}, "video_ids[0]: " + idRule},
		"an id of 129":        {[]string{idOf(129)}, "video_ids[0]: " + idRule},
	} {
		cases = append(cases,
			badCall{name: "reading " + name, request: &likewisev1.BatchGetReactionsRequest{VideoIds: c.ids}, says: c.says},
			badCall{name: "counting " + name, request: &likewisev1.BatchGetCountsRequest{VideoIds: c.ids}, says: c.says})
	}
	return cases
}
