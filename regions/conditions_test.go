package regions

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/proto/likewise/v1/likewisev1connect"
	"likewise/storage"
)

// asked is one write, in any of the three calls.
type asked struct {
	key      string
	expected *int64
}

// writeCalls are the three ways to ask for NONE.
func writeCalls() map[string]func(context.Context, likewisev1connect.ReactionServiceClient, asked) error {
	return map[string]func(context.Context, likewisev1connect.ReactionServiceClient, asked) error{
		"SetReaction": func(ctx context.Context, c likewisev1connect.ReactionServiceClient, a asked) error {
			_, err := c.SetReaction(ctx, &likewisev1.SetReactionRequest{
				VideoId: "cat", Reaction: likewisev1.Reaction_NONE, IdempotencyKey: a.key, ExpectedVersion: a.expected,
			})
			return err
		},
		"DeleteReaction": func(ctx context.Context, c likewisev1connect.ReactionServiceClient, a asked) error {
			_, err := c.DeleteReaction(ctx, &likewisev1.DeleteReactionRequest{
				VideoId: "cat", IdempotencyKey: a.key, ExpectedVersion: a.expected,
			})
			return err
		},
		"CastVote": func(ctx context.Context, c likewisev1connect.ReactionServiceClient, a asked) error {
			_, err := c.CastVote(ctx, &likewisev1.CastVoteRequest{
				ContentId: "cat", Action: "none", IdempotencyKey: a.key, ExpectedVersion: a.expected,
			})
			return err
		},
	}
}

type condition struct {
	asked
	header  http.Header
	key     string
	version *int64
	refused []string // words of the refusal
}

// R9, R10
func conditions() map[string]condition {
	const key, match, none = "Idempotency-Key", "If-Match", "If-None-Match"
	return map[string]condition{
		"nothing":                {},
		"a key by field":         {asked: asked{key: "k1"}, key: "k1"},
		"a key by header":        {header: http.Header{key: {"k1"}}, key: "k1"},
		"a key by both":          {asked: asked{key: "k1"}, header: http.Header{key: {"k1"}}, key: "k1"},
		"an empty key":           {header: http.Header{key: {""}}, refused: []string{"Idempotency-Key"}},
		"two keys that differ":   {asked: asked{key: "k1"}, header: http.Header{key: {"k2"}}, refused: []string{"idempotency_key", key}},
		"two key headers":        {header: http.Header{key: {"k1", "k1"}}, refused: []string{key, "once"}},
		"a key with a space":     {header: http.Header{key: {"k 1"}}, refused: []string{key, "printable ASCII"}},
		"a key not ASCII":        {header: http.Header{key: {"kö"}}, refused: []string{key, "printable ASCII"}},
		"an over-long key":       {header: http.Header{key: {strings.Repeat("k", 129)}}, refused: []string{key, "128"}},
		"a version by field":     {asked: asked{expected: new(int64(7))}, version: new(int64(7))},
		"a version by header":    {header: http.Header{match: {`"7"`}}, version: new(int64(7))},
		"a version by both":      {asked: asked{expected: new(int64(7))}, header: http.Header{match: {`"7"`}}, version: new(int64(7))},
		"version 0":              {header: http.Header{match: {`"0"`}}, version: new(int64(0))},
		"the largest version":    {header: http.Header{match: {`"9223372036854775807"`}}, version: new(int64(1<<63 - 1))},
		"none yet":               {header: http.Header{none: {"*"}}, version: new(int64(0))},
		"none yet, by both":      {asked: asked{expected: new(int64(0))}, header: http.Header{none: {"*"}}, version: new(int64(0))},
		"a key and a version":    {header: http.Header{key: {"k1"}, match: {`"7"`}}, key: "k1", version: new(int64(7))},
		"versions that differ":   {asked: asked{expected: new(int64(6))}, header: http.Header{match: {`"7"`}}, refused: []string{"expected_version", match}},
		"none yet that differs":  {asked: asked{expected: new(int64(6))}, header: http.Header{none: {"*"}}, refused: []string{"expected_version", none}},
		"both headers":           {header: http.Header{match: {`"7"`}, none: {"*"}}, refused: []string{match, none}},
		"any version":            {header: http.Header{match: {"*"}}, refused: []string{match, `"7"`}},
		"a weak tag":             {header: http.Header{match: {`W/"7"`}}, refused: []string{match, `"7"`}},
		"a list":                 {header: http.Header{match: {`"7", "8"`}}, refused: []string{match, `"7"`}},
		"several headers":        {header: http.Header{match: {`"7"`, `"7"`}}, refused: []string{match, `"7"`}},
		"an unquoted version":    {header: http.Header{match: {"7"}}, refused: []string{match, `"7"`}},
		"half a quote":           {header: http.Header{match: {`"7`}}, refused: []string{match, `"7"`}},
		"two quotes":             {header: http.Header{match: {`""7""`}}, refused: []string{match, `"7"`}},
		"an empty tag":           {header: http.Header{match: {`""`}}, refused: []string{match, `"7"`}},
		"an empty header":        {header: http.Header{match: {""}}, refused: []string{match, `"7"`}},
		"a negative version":     {header: http.Header{match: {`"-1"`}}, refused: []string{match, `"7"`}},
		"a sign":                 {header: http.Header{match: {`"+7"`}}, refused: []string{match, `"7"`}},
		"a leading zero":         {header: http.Header{match: {`"07"`}}, refused: []string{match, `"7"`}},
		"no number":              {header: http.Header{match: {`"seven"`}}, refused: []string{match, `"7"`}},
		"too large a version":    {header: http.Header{match: {`"9223372036854775808"`}}, refused: []string{match, `"7"`}},
		"none of one version":    {header: http.Header{none: {`"7"`}}, refused: []string{none, "*"}},
		"a quoted star":          {header: http.Header{none: {`"*"`}}, refused: []string{none, "*"}},
		"several none-match":     {header: http.Header{none: {"*", "*"}}, refused: []string{none, "*"}},
		"an empty none-match":    {header: http.Header{none: {""}}, refused: []string{none, "*"}},
		"a bad one beside field": {asked: asked{expected: new(int64(7))}, header: http.Header{match: {"*"}}, refused: []string{match, `"7"`}},
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	seen := make(chan storage.Set, 1)
	n.store.beforeSet = func(_ context.Context, set storage.Set) error { seen <- set; return nil }
	for call, do := range writeCalls() {
		for name, c := range conditions() {
			t.Run(call+", "+name, func(t *testing.T) { // one after another: they share what was seen
				var options []connect.ClientOption
				for header, values := range c.header {
					for _, value := range values {
						options = append(options, connect.WithInterceptors(withHeader(header, value)))
					}
				}
				err := do(t.Context(), n.as(t, "alice", options...), c.asked)
				if c.refused != nil {
					refusal := requireCode(t, connect.CodeInvalidArgument, err)
					for _, word := range c.refused {
						require.Contains(t, refusal.Message(), word)
					}
					require.Empty(t, seen, "nothing was tried")
					return
				}
				require.NoError(t, err)
				set := <-seen
				require.Equal(t, c.key, set.IdempotencyKey)
				require.Equal(t, c.version, set.ExpectedVersion)
				require.Equal(t, storage.None, set.Desired)
			})
		}
	}
}

// R12: the version is the ETag, in every protocol.
func TestTheETagIsTheVersion(t *testing.T) {
	t.Parallel()
	for protocol, option := range map[string]connect.ClientOption{
		"connect":  connect.WithProtoJSON(),
		"gRPC-Web": connect.WithGRPCWeb(),
	} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			n := startNode(t, "n1")
			alice := n.as(t, "alice", option)
			etagOf := func(t *testing.T, do func(context.Context) error) string {
				t.Helper()
				ctx, call := connect.NewClientContext(t.Context())
				require.NoError(t, do(ctx))
				return call.ResponseHeader().Get("ETag")
			}
			get := func(ctx context.Context) error {
				_, err := alice.GetReaction(ctx, &likewisev1.GetReactionRequest{VideoId: "cat"})
				return err
			}
			require.Equal(t, `"0"`, etagOf(t, get), "where there is no reaction, too")
			require.Equal(t, `"1"`, etagOf(t, func(ctx context.Context) error {
				_, err := alice.SetReaction(ctx, like("cat"))
				return err
			}))
			require.Equal(t, `"1"`, etagOf(t, get))
			require.Equal(t, `"2"`, etagOf(t, func(ctx context.Context) error {
				_, err := alice.DeleteReaction(ctx, &likewisev1.DeleteReactionRequest{VideoId: "cat"})
				return err
			}))
			require.Equal(t, `"3"`, etagOf(t, func(ctx context.Context) error {
				_, err := alice.CastVote(ctx, &likewisev1.CastVoteRequest{ContentId: "cat", Action: "dislike"})
				return err
			}))

			n.store.beforeSet = func(context.Context, storage.Set) error {
				return &storage.VersionMismatchError{Current: storage.State{Reaction: storage.Dislike, Version: 3}}
			}
			_, err := alice.SetReaction(t.Context(), like("cat"))
			require.Equal(t, `"3"`, requireCode(t, connect.CodeFailedPrecondition, err).Meta().Get("ETag"))
		})
	}
}
