package regions

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	peerv1 "likewise/proto/likewise/peer/v1"
	likewisev1 "likewise/proto/likewise/v1"
	"likewise/storage"
)

var errDriver = errors.New(`FATAL: password authentication failed for user "likewise" at 10.0.0.1 (SQLSTATE 28P01)`)

// Every domain error, and what a caller is told of it.
func TestErrorsOnTheWire(t *testing.T) {
	t.Parallel()
	retry := func(d time.Duration) proto.Message { return &likewisev1.RetryAfter{Delay: durationpb.New(d)} }
	for name, c := range map[string]struct {
		err    error
		code   connect.Code
		detail proto.Message
		header string
	}{
		"version mismatch": {
			err:    &storage.VersionMismatchError{Current: storage.State{Reaction: storage.Dislike, Version: 7}},
			code:   connect.CodeFailedPrecondition,
			detail: &likewisev1.VersionMismatch{Reaction: likewisev1.Reaction_DISLIKE, Version: 7},
		},
		"version mismatch, no reaction": {
			err:    &storage.VersionMismatchError{},
			code:   connect.CodeFailedPrecondition,
			detail: &likewisev1.VersionMismatch{Reaction: likewisev1.Reaction_NONE},
		},
		"video disabled": {
			err:    &storage.VideoStateError{State: storage.VideoDisabled},
			code:   connect.CodeFailedPrecondition,
			detail: &likewisev1.VideoNotActive{State: likewisev1.VideoState_DISABLED},
		},
		"video deleted": {
			err:    &storage.VideoStateError{State: storage.VideoDeleted},
			code:   connect.CodeFailedPrecondition,
			detail: &likewisev1.VideoNotActive{State: likewisev1.VideoState_DELETED},
		},
		"read of a deleted video": {
			err:    &storage.VideoDeletedError{},
			code:   connect.CodeNotFound,
			detail: &likewisev1.VideoNotActive{State: likewisev1.VideoState_DELETED},
		},
		"video state unsettled": {
			err:    &storage.UnsettledError{Cause: errDriver},
			code:   connect.CodeUnavailable,
			detail: &likewisev1.OutcomeUnknown{},
		},
		"video state unsettled at the deadline": {
			err:    &storage.UnsettledError{Cause: errCallTimeout},
			code:   connect.CodeUnavailable,
			detail: &likewisev1.OutcomeUnknown{},
		},
		"key reused": {
			err:    &storage.KeyReusedError{Key: "k1"},
			code:   connect.CodeAlreadyExists,
			detail: &likewisev1.IdempotencyKeyReused{IdempotencyKey: "k1"},
		},
		"overloaded": {
			err:    &storage.OverloadedError{RetryAfter: 1500 * time.Millisecond},
			code:   connect.CodeResourceExhausted,
			detail: retry(1500 * time.Millisecond),
			header: "2",
		},
		"database unavailable": {
			err:    &storage.UnavailableError{RetryAfter: time.Second, Cause: errDriver},
			code:   connect.CodeUnavailable,
			detail: retry(time.Second),
			header: "1",
		},
		"database unavailable until the deadline": {
			err:    &storage.UnavailableError{Cause: context.DeadlineExceeded},
			code:   connect.CodeUnavailable,
			detail: retry(retrySoon),
			header: "1",
		},
		"closing":         {err: storage.ErrClosing, code: connect.CodeUnavailable, detail: retry(retrySoon), header: "1"},
		"database moved":  {err: storage.ErrStaleMap, code: connect.CodeUnavailable, detail: retry(retrySoon), header: "1"},
		"counts too old":  {err: &staleCountsError{Cause: errDriver}, code: connect.CodeUnavailable, detail: retry(retrySoon), header: "1"},
		"outcome unknown": {err: fmt.Errorf("%w: %w", storage.ErrOutcomeUnknown, errDriver), code: connect.CodeUnavailable, detail: &likewisev1.OutcomeUnknown{}},
		"unknown at the deadline": {
			err:  fmt.Errorf("%w: %w", storage.ErrOutcomeUnknown, context.DeadlineExceeded),
			code: connect.CodeUnavailable, detail: &likewisev1.OutcomeUnknown{},
		},
		"leaving":           {err: errLeaving, code: connect.CodeUnavailable, detail: &peerv1.Leaving{}},
		"stale map":         {err: &staleMapError{Epoch: 3}, code: connect.CodeFailedPrecondition, detail: &peerv1.StaleMap{TopologyEpoch: 3}},
		"invalid":           {err: errBadToken, code: connect.CodeInvalidArgument},
		"unauthenticated":   {err: errExpired, code: connect.CodeUnauthenticated},
		"permission denied": {err: errNeedsAdmin, code: connect.CodePermissionDenied},
		"caller gone":       {err: fmt.Errorf("read: %w", context.Canceled), code: connect.CodeCanceled},
		"deadline":          {err: fmt.Errorf("read: %w", errCallTimeout), code: connect.CodeDeadlineExceeded},
		"anything else":     {err: errDriver, code: connect.CodeInternal},
		"another's answer":  {err: connect.NewWireError(connect.CodeInvalidArgument, errDriver), code: connect.CodeInternal},
		"a transport error": {err: connect.NewError(connect.CodeUnavailable, errDriver), code: connect.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := toConnect(fmt.Errorf("set reaction to %q: %w", "cat", c.err))
			require.Equal(t, c.code, got.Code())
			require.NotEmpty(t, got.Message())
			require.NotContains(t, got.Message(), "SQLSTATE")
			require.NotContains(t, got.Message(), "10.0.0.1")
			require.NotContains(t, got.Message(), `"cat"`)
			require.Equal(t, c.header, got.Meta().Get("Retry-After"))
			if c.detail == nil {
				require.Empty(t, got.Details())
				return
			}
			require.Len(t, got.Details(), 1)
			detail, err := got.Details()[0].Value()
			require.NoError(t, err)
			require.True(t, proto.Equal(c.detail, detail), "%v", detail)
		})
	}
}

// What one node maps, another reads as the same.
func TestErrorsBetweenNodesComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]error{
		"version mismatch": &storage.VersionMismatchError{Current: storage.State{Reaction: storage.Like, Version: 7}},
		"video disabled":   &storage.VideoStateError{State: storage.VideoDisabled},
		"video deleted":    &storage.VideoStateError{State: storage.VideoDeleted},
		"a deleted video":  &storage.VideoDeletedError{},
		"key reused":       &storage.KeyReusedError{Key: "k1"},
		"overloaded":       &storage.OverloadedError{RetryAfter: time.Second},
		"unavailable":      &storage.UnavailableError{RetryAfter: time.Second, Cause: errPeerUnavailable},
		"leaving":          errLeaving,
		"stale map":        &staleMapError{Epoch: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, want, fromPeer(toConnect(want)))
		})
	}
	for name, err := range map[string]error{
		"outcome unknown": storage.ErrOutcomeUnknown,
		"a panic":         errPanicked,
		"a deadline":      context.DeadlineExceeded,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.ErrorIs(t, fromPeer(toConnect(err)), storage.ErrOutcomeUnknown)
		})
	}
}

// Headers that say what a detail says, for those who know HTTP.
func TestHeadersOfErrors(t *testing.T) {
	t.Parallel()
	mismatch := toConnect(&storage.VersionMismatchError{Current: storage.State{Reaction: storage.Like, Version: 7}})
	require.Equal(t, `"7"`, mismatch.Meta().Get("ETag"))
	require.Equal(t, "Bearer", toConnect(errExpired).Meta().Get("WWW-Authenticate"))
	require.Empty(t, toConnect(errNeedsAdmin).Meta(), "another token would not help by itself")
}

// What a later version refuses a write for, it surely refuses.
func TestAStateThatOnlyAnotherNodeKnows(t *testing.T) {
	t.Parallel()
	refusal := public(connect.CodeFailedPrecondition, "no", &likewisev1.VideoNotActive{State: 9})
	require.Equal(t, &storage.VideoStateError{State: storage.VideoDisabled}, fromPeer(refusal))
}

func TestAFailureIsLoggedOnceAndWhole(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	n.store.beforeSet = func(context.Context, storage.Set) error { return &storage.UnavailableError{Cause: errDriver} }
	_, err := n.as(t, "alice").SetReaction(t.Context(), like("cat"))
	requireOnlyCode(t, connect.CodeUnavailable, err)
	logged := n.logs.FilterMessage("call failed").All()
	require.Len(t, logged, 1)
	require.Contains(t, logged[0].ContextMap()["error"], "SQLSTATE 28P01")
}
