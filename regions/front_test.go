package regions

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/proto/likewise/v1/likewisev1connect"
	"likewise/storage"
)

// curl does what curl does: HTTP/1.1, and no header but those given.
func curl(t *testing.T, url, body string, header map[string]string) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		req.Header.Set(name, value)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	decoded := make(map[string]any)
	require.NoError(t, json.Unmarshal(raw, &decoded), "%s", raw)
	return resp.StatusCode, decoded
}

func (n *node) url(procedure string) string { return "http://" + n.FrontAddr() + procedure }

// dialGRPC is a grpc-go client; it needs no generated stub.
func dialGRPC(t *testing.T, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// R12: one service, one port, whatever the protocol.
func TestEveryProtocolSeesTheSameState(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	token := mint(t, "alice")

	t.Run("curl", func(t *testing.T) {
		code, body := curl(t, n.url(likewisev1connect.ReactionServiceSetReactionProcedure),
			`{"videoId":"cat","reaction":"LIKE"}`, map[string]string{"Authorization": "Bearer " + token})
		require.Equal(t, http.StatusOK, code)
		require.Equal(t, "LIKE", body["reaction"])
		require.Equal(t, "1", body["version"])
		require.Equal(t, true, body["changed"])
		require.Subset(t, body["counts"], map[string]any{"likes": "1", "dislikes": "0"}, "zeros are shown")
	})

	t.Run("grpc-go", func(t *testing.T) {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
		resp := &likewisev1.SetReactionResponse{}
		err := dialGRPC(t, n.FrontAddr()).Invoke(ctx, likewisev1connect.ReactionServiceSetReactionProcedure, like("cat"), resp)
		require.NoError(t, err)
		require.False(t, resp.GetChanged())
		require.EqualValues(t, 1, resp.GetVersion())
	})

	for name, option := range map[string]connect.ClientOption{
		"connect":      connect.WithHTTPGet(),
		"connect JSON": connect.WithProtoJSON(),
		"grpc-web":     connect.WithGRPCWeb(),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := n.as(t, "alice", option).GetReaction(t.Context(), &likewisev1.GetReactionRequest{VideoId: "cat"})
			require.NoError(t, err)
			require.Equal(t, likewisev1.Reaction_LIKE, got.GetReaction())
			require.EqualValues(t, 1, got.GetVersion())
		})
	}
}

func TestHealthReflectionAndMetrics(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")

	t.Run("gRPC health", func(t *testing.T) {
		health := healthv1.NewHealthClient(dialGRPC(t, n.FrontAddr()))
		for _, service := range []string{"", likewisev1connect.ReactionServiceName} {
			got, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
			require.NoError(t, err)
			require.Equal(t, healthv1.HealthCheckResponse_SERVING, got.GetStatus())
		}
	})

	t.Run("reflection", func(t *testing.T) {
		stream := reflect(t, n.FrontAddr())
		names, err := stream.ListServices()
		require.NoError(t, err)
		require.EqualValues(t, likewisev1connect.ReactionServiceName, names[0])
		_, err = stream.Close()
		require.NoError(t, err)
	})

	t.Run("healthz and metrics", func(t *testing.T) {
		require.Equal(t, http.StatusOK, status(t, n.url("/healthz")))
		_, err := n.as(t, "alice").SetReaction(t.Context(), like("cat"))
		require.NoError(t, err)
		text := page(t, n.url("/metrics"))
		require.Contains(t, text, `likewise_regions_calls_total{code="ok",procedure="/likewise.v1.ReactionService/SetReaction"} 1`)
		require.Contains(t, text, "likewise_regions_map_epoch 1")
		require.NotContains(t, text, "alice")
	})
}

func reflect(t *testing.T, addr string) *grpcreflect.ClientStream {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return grpcreflect.NewClient(&http.Client{Transport: transport}, "http://"+addr, connect.WithGRPC()).NewStream(t.Context())
}

func status(t *testing.T, url string) int {
	t.Helper()
	code, _ := fetchPage(t, url)
	return code
}

func page(t *testing.T, url string) string {
	t.Helper()
	_, text := fetchPage(t, url)
	return text
}

func fetchPage(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

// R1, R12: an absent reaction is an error, never an undo.
func TestInvalidRequestsAreRefusedAndWriteNothing(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	auth := map[string]string{"Authorization": "Bearer " + mint(t, "alice")}
	for name, body := range map[string]string{
		"no reaction":       `{"videoId":"cat"}`,
		"reaction zero":     `{"videoId":"cat","reaction":0}`,
		"unknown name":      `{"videoId":"cat","reaction":"LOVE"}`,
		"unknown number":    `{"videoId":"cat","reaction":7}`,
		"no video":          `{"reaction":"LIKE"}`,
		"slash":             `{"videoId":"a/b","reaction":"LIKE"}`,
		"percent":           `{"videoId":"a%20b","reaction":"LIKE"}`,
		"NUL":               `{"videoId":"a\u0000b","reaction":"LIKE"}`,
		"line break":        `{"videoId":"cat\n","reaction":"LIKE"}`,
		"not ASCII":         `{"videoId":"кот","reaction":"LIKE"}`,
		"over-long":         `{"videoId":"` + strings.Repeat("a", 129) + `","reaction":"LIKE"}`,
		"negative version":  `{"videoId":"cat","reaction":"LIKE","expectedVersion":"-1"}`,
		"key with a space":  `{"videoId":"cat","reaction":"LIKE","idempotencyKey":"a b"}`,
		"key that is long":  `{"videoId":"cat","reaction":"LIKE","idempotencyKey":"` + strings.Repeat("k", 129) + `"}`,
		"not JSON":          `like the cat`,
		"an empty body":     ``,
		"a reaction's list": `{"videoId":"cat","reaction":["LIKE"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, answer := curl(t, n.url(likewisev1connect.ReactionServiceSetReactionProcedure), body, auth)
			require.Equal(t, http.StatusBadRequest, code, "%v", answer)
			require.Equal(t, "invalid_argument", answer["code"])
		})
	}
	t.Cleanup(func() { require.Zero(t, n.store.sets.Load()) })

	t.Run("violations are details", func(t *testing.T) {
		t.Parallel()
		_, err := n.as(t, "alice").SetReaction(t.Context(), &likewisev1.SetReactionRequest{VideoId: "a/b"})
		require.Len(t, requireCode(t, connect.CodeInvalidArgument, err).Details(), 1)
	})

	t.Run("too large a body", func(t *testing.T) {
		t.Parallel()
		code, _ := curl(t, n.url(likewisev1connect.ReactionServiceSetReactionProcedure),
			`{"videoId":"`+strings.Repeat("a", maxBody)+`"}`, auth)
		require.Equal(t, http.StatusBadRequest, code)
	})
}

// R3
func TestSetReactionAnswersStateAndCounts(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	alice := n.as(t, "alice")

	resp, err := alice.SetReaction(t.Context(), like("cat"))
	require.NoError(t, err)
	require.Equal(t, likewisev1.Reaction_NONE, resp.GetPreviousReaction())
	require.Equal(t, likewisev1.Reaction_LIKE, resp.GetReaction())
	require.True(t, resp.GetChanged())
	require.EqualValues(t, 1, resp.GetCounts().GetLikes())
	require.True(t, resp.GetCountsIncludeChange())

	counts, err := alice.GetCounts(t.Context(), &likewisev1.GetCountsRequest{VideoId: "cat", ConsistencyToken: resp.GetConsistencyToken()})
	require.NoError(t, err)
	require.EqualValues(t, 1, counts.GetCounts().GetLikes())
	committed, err := parseToken(resp.GetConsistencyToken())
	require.NoError(t, err)
	require.True(t, counts.GetCounts().GetAsOf().AsTime().After(committed))

	resp, err = alice.SetReaction(t.Context(), &likewisev1.SetReactionRequest{VideoId: "cat", Reaction: likewisev1.Reaction_NONE})
	require.NoError(t, err)
	require.Zero(t, resp.GetCounts().GetLikes(), "my undo is in")
	require.True(t, resp.GetCountsIncludeChange())
}

func TestAFailedLoadDoesNotFailTheWrite(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	n.store.beforeCount = func(context.Context) error { return errDatabaseDown }
	resp, err := n.as(t, "alice").SetReaction(t.Context(), like("cat"))
	require.NoError(t, err)
	require.True(t, resp.GetChanged())
	require.Nil(t, resp.GetCounts())
	require.False(t, resp.GetCountsIncludeChange())
}

func TestGetCountsRefusesABoundItCannotMeet(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	n.store.beforeCount = func(context.Context) error { return errDatabaseDown }
	_, err := n.as(t, "alice").GetCounts(t.Context(), &likewisev1.GetCountsRequest{VideoId: "cat", MaxStaleness: durationpb.New(time.Second)})
	refusal := requireCode(t, connect.CodeUnavailable, err)
	require.NotContains(t, refusal.Message(), "10.0.0.1")
	detailOf[*likewisev1.RetryAfter](t, refusal)

	_, err = n.as(t, "alice").GetCounts(t.Context(), &likewisev1.GetCountsRequest{VideoId: "cat", ConsistencyToken: "bogus"})
	requireOnlyCode(t, connect.CodeInvalidArgument, err)
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	deadlines := make(chan time.Duration, 1)
	n := startNode(t, "n1", func(cfg *Config, _ *Deps) { cfg.Deadline, cfg.MaxDeadline = 3*time.Second, 6*time.Second })
	n.store.beforeGet = func(ctx context.Context) error {
		deadline, _ := ctx.Deadline()
		deadlines <- time.Until(deadline)
		return nil
	}
	for name, c := range map[string]struct{ brought, want time.Duration }{
		"none is given one":          {want: 3 * time.Second},
		"a shorter one wins":         {brought: time.Second, want: time.Second},
		"a longer one than usual":    {brought: 5 * time.Second, want: 5 * time.Second},
		"too long a one is cut down": {brought: time.Hour, want: 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if c.brought > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.brought)
				defer cancel()
			}
			_, err := n.as(t, "alice").GetReaction(ctx, &likewisev1.GetReactionRequest{VideoId: "cat"})
			require.NoError(t, err)
			require.InDelta(t, c.want.Seconds(), (<-deadlines).Seconds(), 0.8)
		})
	}
}

func TestAPanicFailsItsCallAlone(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	n.store.beforeSet = func(context.Context, storage.Set) error { panic("secret text") }
	_, err := n.as(t, "alice").SetReaction(t.Context(), like("cat"))
	refusal := requireCode(t, connect.CodeInternal, err)
	require.NotContains(t, refusal.Message(), "secret text")
	logged := n.logs.FilterMessage("call panicked").All()
	require.Len(t, logged, 1)
	require.Contains(t, logged[0].ContextMap()["stack"], "SetReaction")
	text := page(t, n.url("/metrics"))
	require.Contains(t, text, "likewise_regions_panics_total 1")
	require.Contains(t, text, `likewise_regions_calls_total{code="internal",procedure="/likewise.v1.ReactionService/SetReaction"} 1`)

	_, err = n.as(t, "alice").GetReaction(t.Context(), &likewisev1.GetReactionRequest{VideoId: "cat"})
	require.NoError(t, err)
}
