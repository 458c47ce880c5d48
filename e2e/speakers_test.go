package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"likewise/deploy/local/cluster"
	likewisev1 "likewise/proto/likewise/v1"
	"likewise/proto/likewise/v1/likewisev1connect"
)

// httpClient speaks HTTP/1.1 or, without TLS, HTTP/2 only.
func httpClient(t testing.TB, http2 bool) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols), MaxIdleConnsPerHost: callers, DisableCompression: true}
	transport.Protocols.SetUnencryptedHTTP2(http2)
	transport.Protocols.SetHTTP1(!http2)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport: transport,
		Timeout:   patience,
		// A redirect would be an answer that no caller of this service expects.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func connectSpeaker(t testing.TB, name string, http2 bool, options ...connect.ClientOption) speaker {
	t.Helper()
	client := httpClient(t, http2)
	return speaker{name: name, say: func(ctx context.Context, n *cluster.Node, c call) reply {
		ctx, info := connect.NewClientContext(ctx)
		maps.Copy(info.RequestHeader(), c.header)
		if c.bearer != "" {
			info.RequestHeader().Set("Authorization", "Bearer "+c.bearer)
		}
		url := "http://" + n.Addr()
		message, err := invoke(ctx, likewisev1connect.NewReactionServiceClient(client, url, options...),
			likewisev1connect.NewAdminServiceClient(client, url, options...), c.request)
		if err != nil {
			return connectFailure(err)
		}
		return reply{message: message, header: info.ResponseHeader()}
	}}
}

// invoke calls the method that takes a request.
func invoke(ctx context.Context, reactions likewisev1connect.ReactionServiceClient, admin likewisev1connect.AdminServiceClient, request proto.Message) (proto.Message, error) {
	switch r := request.(type) {
	case *likewisev1.SetReactionRequest:
		return reactions.SetReaction(ctx, r)
	case *likewisev1.DeleteReactionRequest:
		return reactions.DeleteReaction(ctx, r)
	case *likewisev1.CastVoteRequest:
		return reactions.CastVote(ctx, r)
	case *likewisev1.GetReactionRequest:
		return reactions.GetReaction(ctx, r)
	case *likewisev1.BatchGetReactionsRequest:
		return reactions.BatchGetReactions(ctx, r)
	case *likewisev1.GetCountsRequest:
		return reactions.GetCounts(ctx, r)
	case *likewisev1.BatchGetCountsRequest:
		return reactions.BatchGetCounts(ctx, r)
	case *likewisev1.SetVideoStateRequest:
		return admin.SetVideoState(ctx, r)
	default:
		return nil, fmt.Errorf("no method takes %T", request)
	}
}

func connectFailure(err error) reply {
	wire, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return failed(err)
	}
	r := reply{code: wire.Code().String(), text: wire.Message(), header: wire.Meta()}
	for _, d := range wire.Details() {
		message, err := d.Value()
		if err != nil {
			return failed(err)
		}
		r.details = append(r.details, message)
	}
	return r
}

// grpcSpeaker is the gRPC library that is not ours.
func grpcSpeaker(t testing.TB) speaker {
	t.Helper()
	var mu sync.Mutex
	conns := map[string]*grpc.ClientConn{}
	t.Cleanup(func() {
		for _, conn := range conns {
			require.NoError(t, conn.Close())
		}
	})
	dial := func(addr string) (*grpc.ClientConn, error) {
		mu.Lock()
		defer mu.Unlock()
		if conn, ok := conns[addr]; ok {
			return conn, nil
		}
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err == nil {
			conns[addr] = conn
		}
		return conn, err
	}
	return speaker{name: "gRPC", say: func(ctx context.Context, n *cluster.Node, c call) reply {
		conn, err := dial(n.Addr())
		if err != nil {
			return failed(err)
		}
		return grpcCall(ctx, conn, c)
	}}
}

func grpcCall(ctx context.Context, conn *grpc.ClientConn, c call) reply {
	said := metadata.MD{}
	for key, values := range c.header {
		said.Append(key, values...)
	}
	if c.bearer != "" {
		said.Set("authorization", "Bearer "+c.bearer)
	}
	md := methodOf(c.request)
	answer := answerOf(md)
	var header, trailer metadata.MD
	err := conn.Invoke(metadata.NewOutgoingContext(ctx, said), procedureOf(md), c.request, answer, grpc.Header(&header), grpc.Trailer(&trailer))
	r := reply{message: answer, header: http.Header{}}
	for _, kept := range []metadata.MD{header, trailer} {
		for key, values := range kept {
			r.header[http.CanonicalHeaderKey(key)] = values
		}
	}
	if err == nil {
		return r
	}
	s := status.Convert(err)
	r.message, r.code, r.text = nil, connect.Code(s.Code()).String(), s.Message()
	for _, d := range s.Details() {
		if message, ok := d.(proto.Message); ok {
			r.details = append(r.details, message)
		}
	}
	return r
}

// bufCurl runs `buf curl`, which knows nothing of the service but what it
// learns by reflection.
func bufCurl(t testing.TB) speaker {
	t.Helper()
	path := sync.OnceValues(func() (string, error) {
		cmd := exec.Command("go", "tool", "-modfile=proto/tools/go.mod", "-n", "buf")
		cmd.Dir = ".."
		out, err := cmd.Output() // builds it
		return strings.TrimSpace(string(out)), err
	})
	return speaker{name: "buf curl", curl: true, say: func(ctx context.Context, n *cluster.Node, c call) reply {
		program, err := path()
		if err != nil {
			return failed(fmt.Errorf("building buf: %w", err))
		}
		return runBufCurl(ctx, program, n, c)
	}}
}

func runBufCurl(ctx context.Context, program string, n *cluster.Node, c call) reply {
	body, err := protojson.Marshal(c.request)
	if err != nil {
		return failed(err)
	}
	md := methodOf(c.request)
	args := []string{"curl", "--protocol", "grpc", "--verbose", "--data", string(body)}
	for key, values := range c.header {
		for _, value := range values {
			args = append(args, "--header", csv(key+": "+value))
		}
	}
	if c.bearer != "" {
		args = append(args, "--header", "Authorization: Bearer "+c.bearer)
	}
	cmd := exec.CommandContext(ctx, program, append(args, "http://"+n.Addr()+procedureOf(md))...)
	cmd.WaitDelay = time.Second
	var told bytes.Buffer
	cmd.Stderr = &told
	out, err := cmd.Output()
	r := reply{message: answerOf(md), header: curlHeader(told.String())}
	if err == nil {
		err = protojson.Unmarshal(out, r.message)
	}
	if err == nil {
		return r
	}
	return curlFailure(r, fmt.Errorf("%w: %s%s", err, told.String(), out), told.String())
}

// csv quotes a value for a flag that takes several.
func csv(value string) string { return `"` + strings.ReplaceAll(value, `"`, `""`) + `"` }

// curlHeader reads headers and trailers out of what --verbose prints, in lines
// such as `buf: < (#2) Etag: "7"`.
func curlHeader(verbose string) http.Header {
	header := http.Header{}
	for line := range strings.Lines(verbose) {
		rest, ok := strings.CutPrefix(line, "buf: < ")
		if _, field, found := strings.Cut(rest, ") "); ok && found {
			key, value, _ := strings.Cut(strings.TrimSpace(field), ": ")
			header.Set(key, value)
		}
	}
	return header
}

// curlFailure reads the error that stands, in Connect's JSON, in the midst of
// what was printed.
func curlFailure(r reply, err error, printed string) reply {
	var body connectError
	start := strings.Index(printed, "\n{\n")
	if start < 0 || json.NewDecoder(strings.NewReader(printed[start:])).Decode(&body) != nil {
		return failed(err)
	}
	return body.reply(r.header)
}

// connectError is how Connect writes an error.
type connectError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Details []struct {
		Type  string `json:"type"`
		Value string `json:"value"`
	} `json:"details"`
}

func (e connectError) reply(header http.Header) reply {
	r := reply{code: e.Code, text: e.Message, header: header}
	for _, d := range e.Details {
		value, err := base64.RawStdEncoding.DecodeString(d.Value)
		if err != nil {
			return failed(err)
		}
		packed := &anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type, Value: value}
		message, err := packed.UnmarshalNew()
		if err != nil {
			return failed(err)
		}
		r.details = append(r.details, message)
	}
	return r
}
