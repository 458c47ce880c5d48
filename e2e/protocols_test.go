package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"likewise/deploy/local/cluster"
	likewisev1 "likewise/proto/likewise/v1"
	"likewise/proto/likewise/v1/likewisev1connect"
	"likewise/storage"
)

// protocol is one way to speak to a node, as one user.
type protocol struct {
	name   string
	set    func(context.Context, *likewisev1.SetReactionRequest) (*likewisev1.SetReactionResponse, error)
	get    func(context.Context, *likewisev1.GetReactionRequest) (*likewisev1.GetReactionResponse, error)
	counts func(context.Context, *likewisev1.GetCountsRequest) (*likewisev1.GetCountsResponse, error)
}

// testProtocols lets every protocol, each at another node, set one reaction in
// turn, and all of them see what came of it.
func (d *deployment) testProtocols(t *testing.T) {
	bearer, err := token("alice")
	require.NoError(t, err)
	nodes := d.Nodes()
	protocols := []protocol{
		grpcGo(t, nodes[0], bearer),
		connectGo(t, "Connect, binary, HTTP/1.1", nodes[1], bearer, false),
		connectGo(t, "Connect, binary, h2c", nodes[2], bearer, true),
		connectGo(t, "Connect, JSON, HTTP/1.1", nodes[3], bearer, false, connect.WithProtoJSON()),
		connectGo(t, "Connect, JSON, h2c", nodes[4], bearer, true, connect.WithProtoJSON()),
		connectGo(t, "gRPC of connect-go", nodes[5], bearer, true, connect.WithGRPC()),
		curl(nodes[1], bearer),
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	reactions := []likewisev1.Reaction{likewisev1.Reaction_LIKE, likewisev1.Reaction_DISLIKE, likewisev1.Reaction_NONE}
	for i, first := range protocols {
		request := &likewisev1.SetReactionRequest{VideoId: "protocols", Reaction: reactions[i%len(reactions)]}
		told, err := first.set(ctx, request)
		require.NoError(t, err, first.name)
		require.True(t, told.GetChanged(), first.name)
		require.Equal(t, request.GetReaction(), told.GetReaction(), first.name)
		for _, p := range protocols {
			requireSameState(ctx, t, p, request, told)
		}
	}
}

// requireSameState repeats a Set and reads, and demands what its first caller
// was told.
func requireSameState(ctx context.Context, t *testing.T, p protocol, request *likewisev1.SetReactionRequest, told *likewisev1.SetReactionResponse) {
	t.Helper()
	again, err := p.set(ctx, request)
	require.NoError(t, err, p.name)
	require.False(t, again.GetChanged(), p.name)
	require.Equal(t, told.GetVersion(), again.GetVersion(), p.name)
	require.Equal(t, told.GetReaction(), again.GetReaction(), p.name)

	own, err := p.get(ctx, &likewisev1.GetReactionRequest{VideoId: request.GetVideoId()})
	require.NoError(t, err, p.name)
	require.Equal(t, told.GetVersion(), own.GetVersion(), p.name)
	require.Equal(t, told.GetReaction(), own.GetReaction(), p.name)

	reply, err := p.counts(ctx, &likewisev1.GetCountsRequest{VideoId: request.GetVideoId(), ConsistencyToken: told.GetConsistencyToken()})
	require.NoError(t, err, p.name)
	want := storage.Tally{}
	switch told.GetReaction() {
	case likewisev1.Reaction_LIKE:
		want.Likes = 1
	case likewisev1.Reaction_DISLIKE:
		want.Dislikes = 1
	}
	require.Equal(t, want, storage.Tally{Likes: reply.GetCounts().GetLikes(), Dislikes: reply.GetCounts().GetDislikes()}, p.name)
}

// grpcGo is a client of the gRPC library that is not ours. It needs no generated
// code but the messages.
func grpcGo(t *testing.T, n *cluster.Node, bearer string) protocol {
	t.Helper()
	conn, err := grpc.NewClient(n.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return invoking("grpc-go", func(ctx context.Context, method string, request, reply proto.Message) error {
		return conn.Invoke(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+bearer), method, request, reply)
	})
}

// curl runs the program.
func curl(n *cluster.Node, bearer string) protocol {
	return invoking("curl", func(ctx context.Context, method string, request, reply proto.Message) error {
		body, err := protojson.Marshal(request)
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, "curl", "--silent", "--show-error", "--fail-with-body", "--request", "POST",
			"--header", "Content-Type: application/json", "--header", "Authorization: Bearer "+bearer,
			"--data", string(body), "http://"+n.Addr()+method)
		var failure bytes.Buffer
		cmd.Stderr = &failure
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%w: %s%s", err, failure.Bytes(), out)
		}
		return protojson.Unmarshal(out, reply)
	})
}

func connectGo(t *testing.T, name string, n *cluster.Node, bearer string, http2 bool, options ...connect.ClientOption) protocol {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(http2)
	transport.Protocols.SetHTTP1(!http2)
	t.Cleanup(transport.CloseIdleConnections)
	options = append(options, connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			req.Header().Set("Authorization", "Bearer "+bearer)
			return next(ctx, req)
		}
	})))
	client := likewisev1connect.NewReactionServiceClient(&http.Client{Transport: transport, Timeout: time.Minute}, "http://"+n.Addr(), options...)
	return protocol{name, client.SetReaction, client.GetReaction, client.GetCounts}
}

// invoking makes a protocol of a function that carries out any call.
func invoking(name string, invoke func(ctx context.Context, method string, request, reply proto.Message) error) protocol {
	return protocol{
		name: name,
		set: func(ctx context.Context, request *likewisev1.SetReactionRequest) (*likewisev1.SetReactionResponse, error) {
			reply := new(likewisev1.SetReactionResponse)
			return reply, invoke(ctx, likewisev1connect.ReactionServiceSetReactionProcedure, request, reply)
		},
		get: func(ctx context.Context, request *likewisev1.GetReactionRequest) (*likewisev1.GetReactionResponse, error) {
			reply := new(likewisev1.GetReactionResponse)
			return reply, invoke(ctx, likewisev1connect.ReactionServiceGetReactionProcedure, request, reply)
		},
		counts: func(ctx context.Context, request *likewisev1.GetCountsRequest) (*likewisev1.GetCountsResponse, error) {
			reply := new(likewisev1.GetCountsResponse)
			return reply, invoke(ctx, likewisev1connect.ReactionServiceGetCountsProcedure, request, reply)
		},
	}
}
