package regions

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/proto/likewise/v1/likewisev1connect"
	"likewise/storage"
)

// admin is a client whose token carries the scope, and names no user's id.
func (n *node) admin(t *testing.T) likewisev1connect.AdminServiceClient {
	t.Helper()
	return n.adminAs(t, Claims{Subject: "ops", Scopes: []string{ScopeAdmin}})
}

func (n *node) adminAs(t *testing.T, claims Claims) likewisev1connect.AdminServiceClient {
	t.Helper()
	token, err := MintToken(testSecret, claims, time.Hour)
	require.NoError(t, err)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return likewisev1connect.NewAdminServiceClient(&http.Client{Transport: transport}, "http://"+n.FrontAddr(),
		connect.WithInterceptors(withHeader("Authorization", "Bearer "+token)))
}

func toState(state likewisev1.VideoState) *likewisev1.SetVideoStateRequest {
	return &likewisev1.SetVideoStateRequest{VideoId: "cat", State: state}
}

// R8: in force at once at this node, and back again.
func TestSetVideoState(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	alice, admin := n.as(t, "alice"), n.admin(t)
	set := func(state likewisev1.VideoState) *likewisev1.SetVideoStateResponse {
		resp, err := admin.SetVideoState(t.Context(), toState(state))
		require.NoError(t, err)
		return resp
	}
	liked, err := alice.SetReaction(t.Context(), like("cat"))
	require.NoError(t, err)
	require.EqualValues(t, 1, liked.GetCounts().GetLikes(), "it is cached from here on")
	requireRefused := func(state likewisev1.VideoState) {
		_, err := alice.SetReaction(t.Context(), like("cat"))
		require.Equal(t, state, detailOf[*likewisev1.VideoNotActive](t, requireCode(t, connect.CodeFailedPrecondition, err)).GetState())
	}
	getCounts := func() (*likewisev1.GetCountsResponse, error) {
		return alice.GetCounts(t.Context(), &likewisev1.GetCountsRequest{VideoId: "cat"})
	}

	require.True(t, proto.Equal(&likewisev1.SetVideoStateResponse{
		State: likewisev1.VideoState_DISABLED, PreviousState: likewisev1.VideoState_ACTIVE, Changed: true, Generation: 1,
	}, set(likewisev1.VideoState_DISABLED)))
	requireRefused(likewisev1.VideoState_DISABLED)
	counts, err := getCounts()
	require.NoError(t, err, "it shows the reactions that it has")
	require.EqualValues(t, 1, counts.GetCounts().GetLikes())

	set(likewisev1.VideoState_DELETED)
	requireRefused(likewisev1.VideoState_DELETED)
	_, err = getCounts()
	requireOnlyCode(t, connect.CodeNotFound, err)
	require.False(t, set(likewisev1.VideoState_DELETED).GetChanged(), "a repeat changes nothing")

	require.EqualValues(t, 3, set(likewisev1.VideoState_ACTIVE).GetGeneration())
	counts, err = getCounts()
	require.NoError(t, err)
	require.EqualValues(t, 1, counts.GetCounts().GetLikes(), "restored with the reactions that it had")
	_, err = alice.DeleteReaction(t.Context(), &likewisev1.DeleteReactionRequest{VideoId: "cat"})
	require.NoError(t, err)
}

func TestTheLogSaysWhoSetAState(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	_, err := n.admin(t).SetVideoState(t.Context(), toState(likewisev1.VideoState_DELETED))
	require.NoError(t, err)
	logged := n.logs.FilterMessage("video state was set").All()
	require.Len(t, logged, 1)
	require.Equal(t, "info", logged[0].Level.String())
	require.Equal(t, map[string]any{
		"video_id": "cat", "subject": "ops", "state": "DELETED", "changed": true, "generation": int64(1),
	}, logged[0].ContextMap())
}

func TestAStateThatIsNotSettled(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1", func(cfg *Config, _ *Deps) { cfg.Deadline = time.Second })
	var warm atomic.Bool
	n.store.beforeState = func(ctx context.Context) error {
		if warm.CompareAndSwap(false, true) {
			return nil
		}
		<-ctx.Done() // the call's deadline bounds the barrier
		return &storage.UnsettledError{Cause: context.Cause(ctx)}
	}
	admin := n.admin(t)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := admin.SetVideoState(t.Context(), toState(likewisev1.VideoState_ACTIVE)) // the first call of a process is slow
		assert.NoError(c, err)
	}, time.Minute, time.Millisecond)
	_, err := admin.SetVideoState(t.Context(), toState(likewisev1.VideoState_DISABLED))
	refusal := requireCode(t, connect.CodeUnavailable, err)
	detailOf[*likewisev1.OutcomeUnknown](t, refusal)
	require.Contains(t, refusal.Message(), "repeat the call")
	logged := n.logs.FilterMessage("video state is unsettled").All()
	require.Len(t, logged, 1, "it may have been set")
	require.Equal(t, map[string]any{"video_id": "cat", "subject": "ops", "state": "DISABLED"}, logged[0].ContextMap())
}

func TestWhoMaySetAState(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	for name, claims := range map[string]Claims{
		"a user":    {Subject: "alice"},
		"a service": {Subject: "alice", Scopes: []string{ScopeService}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := n.adminAs(t, claims).SetVideoState(t.Context(), toState(likewisev1.VideoState_DELETED))
			require.Contains(t, requireCode(t, connect.CodePermissionDenied, err).Message(), ScopeAdmin)
		})
	}
	t.Cleanup(func() { require.Zero(t, n.store.states.Load()) })
}

func TestInvalidStates(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	for name, req := range map[string]*likewisev1.SetVideoStateRequest{
		"no state":         toState(likewisev1.VideoState_VIDEO_STATE_UNSPECIFIED),
		"an unknown state": toState(4),
		"no video":         {State: likewisev1.VideoState_DELETED},
		"a bad video":      {VideoId: "a/b", State: likewisev1.VideoState_DELETED},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := n.admin(t).SetVideoState(t.Context(), req)
			requireOnlyCode(t, connect.CodeInvalidArgument, err)
		})
	}
	t.Cleanup(func() { require.Zero(t, n.store.states.Load()) })
}
