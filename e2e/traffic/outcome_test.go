package traffic

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/proto/likewise/v1/likewisev1connect"
)

// refusing answers every Set with one error.
type refusing struct {
	likewisev1connect.UnimplementedReactionServiceHandler
	err error
}

func (r refusing) SetReaction(context.Context, *likewisev1.SetReactionRequest) (*likewisev1.SetReactionResponse, error) {
	return nil, r.err
}

func wireError(t *testing.T, code connect.Code, details ...proto.Message) error {
	t.Helper()
	err := connect.NewError(code, errors.New("refused"))
	for _, msg := range details {
		d, detailErr := connect.NewErrorDetail(msg)
		require.NoError(t, detailErr)
		err.AddDetail(d)
	}
	return err
}

func TestJudge(t *testing.T) {
	t.Parallel()

	later := &likewisev1.RetryAfter{Delay: durationpb.New(70 * time.Millisecond)}
	tests := map[string]struct {
		err  error
		want verdict
	}{
		"overload is definite and passes":              {wireError(t, connect.CodeResourceExhausted, later), verdict{Failed, true, 70 * time.Millisecond}},
		"unavailable with a retry-after is definite":   {wireError(t, connect.CodeUnavailable, later), verdict{Failed, true, 70 * time.Millisecond}},
		"unavailable with outcome unknown is not":      {wireError(t, connect.CodeUnavailable, &likewisev1.OutcomeUnknown{}), verdict{Unknown, true, defaultPause}},
		"unavailable without a word is not":            {wireError(t, connect.CodeUnavailable), verdict{Unknown, true, defaultPause}},
		"a deadline is not":                            {wireError(t, connect.CodeDeadlineExceeded), verdict{Unknown, true, defaultPause}},
		"an internal error is not":                     {wireError(t, connect.CodeInternal), verdict{Unknown, true, defaultPause}},
		"a refusal is definite and stays":              {wireError(t, connect.CodeFailedPrecondition), verdict{Failed, false, 0}},
		"a caller without rights is refused for good":  {wireError(t, connect.CodeUnauthenticated), verdict{Failed, false, 0}},
		"both details together mean outcome unknown":   {wireError(t, connect.CodeUnavailable, later, &likewisev1.OutcomeUnknown{}), verdict{Unknown, true, 70 * time.Millisecond}},
		"a reused key is a definite refusal":           {wireError(t, connect.CodeAlreadyExists), verdict{Failed, false, 0}},
		"an error of the server that nobody knows yet": {wireError(t, connect.CodeUnknown), verdict{Unknown, true, defaultPause}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, judge(overTheWire(t, tt.err)))
		})
	}

	t.Run("a refused connection carried nothing", func(t *testing.T) {
		t.Parallel()
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addr := ln.Addr().String()
		require.NoError(t, ln.Close())

		_, err = Dial(newHTTPClient(t), addr).SetReaction(t.Context(), &likewisev1.SetReactionRequest{})
		require.Equal(t, verdict{Failed, true, defaultPause}, judge(err))
	})

	t.Run("a connection that breaks after the request was sent leaves it open", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}))
		t.Cleanup(server.Close)

		_, err := Dial(newHTTPClient(t), server.Listener.Addr().String()).SetReaction(t.Context(), &likewisev1.SetReactionRequest{})
		require.Equal(t, Unknown, judge(err).outcome)
	})
}

// overTheWire returns err as a client sees it.
func overTheWire(t *testing.T, err error) error {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(likewisev1connect.NewReactionServiceHandler(refusing{err: err}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	_, got := Dial(newHTTPClient(t), server.Listener.Addr().String()).SetReaction(t.Context(), &likewisev1.SetReactionRequest{})
	require.Error(t, got)
	return got
}

func newHTTPClient(t *testing.T) *http.Client {
	t.Helper()
	transport := newTransport(1)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}
