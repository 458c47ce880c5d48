package e2e

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"likewise/deploy/local/cluster"
	likewisev1 "likewise/proto/likewise/v1"
)

type (
	// call is one request, in the terms of no protocol.
	call struct {
		request proto.Message // says which method
		bearer  string        // empty: no token
		header  http.Header   // besides
	}

	// reply is what a caller was told, in the terms of no protocol.
	reply struct {
		message proto.Message // nil after an error
		code    string        // Connect's name of the code; empty: success
		text    string        // the error's sentence
		details []proto.Message
		status  int // of HTTP, where it is part of what is promised; else 0
		header  http.Header
	}

	// speaker is one protocol, as a client that people use speaks it.
	speaker struct {
		name string
		say  func(context.Context, *cluster.Node, call) reply
		// curl marks a speaker that runs a program for each call: too slow for
		// tables of hundreds.
		curl bool
		rest bool
	}
)

// failed is the reply that never was: the client itself gave up.
func failed(err error) reply {
	code := connect.CodeOf(err)
	switch {
	case errors.Is(err, context.Canceled):
		code = connect.CodeCanceled
	case errors.Is(err, context.DeadlineExceeded):
		code = connect.CodeDeadlineExceeded
	}
	return reply{code: code.String(), text: err.Error(), header: http.Header{}}
}

// answer returns what was answered, which must be of that type.
func answer[T proto.Message](t *testing.T, r reply) T {
	t.Helper()
	typed, ok := r.message.(T)
	require.True(t, ok, "%s: %s", r.code, r.text)
	return typed
}

// detail returns the first detail of that type, or nil.
func detail[T proto.Message](r reply) (found T) {
	for _, d := range r.details {
		if typed, ok := d.(T); ok {
			return typed
		}
	}
	return found
}

// methodOf returns the method that takes such a request.
func methodOf(request proto.Message) protoreflect.MethodDescriptor {
	name := request.ProtoReflect().Descriptor().FullName()
	for _, file := range []protoreflect.FileDescriptor{likewisev1.File_likewise_v1_reaction_proto, likewisev1.File_likewise_v1_admin_proto} {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				if methods.Get(j).Input().FullName() == name {
					return methods.Get(j)
				}
			}
		}
	}
	panic("no method takes " + string(name))
}

// procedureOf returns the path of an RPC, such as
// /likewise.v1.ReactionService/SetReaction.
func procedureOf(md protoreflect.MethodDescriptor) string {
	return "/" + string(md.Parent().FullName()) + "/" + string(md.Name())
}

// answerOf returns an empty answer of a method.
func answerOf(md protoreflect.MethodDescriptor) proto.Message {
	found, err := protoregistry.GlobalTypes.FindMessageByName(md.Output().FullName())
	if err != nil {
		panic(err)
	}
	return found.New().Interface()
}

// Whatever a caller speaks, and whatever it sends, it gets the right thing or an
// error that names what to change.
func TestEveryCaller(t *testing.T) {
	t.Parallel()
	d := deployCallers(t)

	for name, test := range map[string]func(*testing.T){
		"has one conversation in every protocol":   d.testConversations,
		"is told what is wrong with a value":       d.testBadValues,
		"is told what is wrong with a form":        d.testBadForms,
		"is told what is wrong with a token":       d.testBadTokens,
		"may use every character of ids in a path": d.testPaths,
		"reads again only what has changed":        d.testTags,
		"loses no digit of a large count":          d.testLargeCounts,
		"is refused where a count is full":         d.testFullShard,
		"gets an outcome for each id of a batch":   d.testBatches,
		"cannot use a key for two things":          d.testReusedKeys,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// deployCallers runs three regions of one node for those who only ask, in every
// protocol and in every wrong way.
func deployCallers(t testing.TB, options ...func(*cluster.Config)) *deployment {
	t.Helper()
	return deploy(t, append(options, unhurried, func(cfg *cluster.Config) { cfg.NodesPerRegion = 1 })...)
}

// speakers returns every protocol there is. They may be used at every node and
// at once.
func speakers(t testing.TB) []speaker {
	t.Helper()
	return []speaker{
		connectSpeaker(t, "Connect JSON", false, connect.WithProtoJSON()),
		connectSpeaker(t, "Connect binary", false),
		connectSpeaker(t, "Connect binary over HTTP/2", true),
		connectSpeaker(t, "Connect by GET", false, connect.WithHTTPGet()),
		grpcSpeaker(t),
		connectSpeaker(t, "gRPC of connect-go", true, connect.WithGRPC()),
		connectSpeaker(t, "gRPC-Web", false, connect.WithGRPCWeb()),
		restSpeaker(t),
		curl(),
		bufCurl(t),
	}
}

// mint makes a token of any claims, signed as the nodes want it.
func mint(t testing.TB, claims jwt.MapClaims) string {
	t.Helper()
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(secret))
	require.NoError(t, err)
	return signed
}

func inAnHour() int64 { return time.Now().Add(time.Hour).Unix() }

// userToken names a user.
func userToken(t testing.TB, user string) string {
	t.Helper()
	return mint(t, jwt.MapClaims{"sub": user, "exp": inAnHour()})
}

// adminToken is of somebody who runs the site and is no user of it.
func adminToken(t *testing.T) string {
	t.Helper()
	return mint(t, jwt.MapClaims{"sub": "operator of the site", "exp": inAnHour(), "scope": "other likewise:admin"})
}

// identifier makes an id of a text that people read.
func identifier(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		default:
			return '-'
		}
	}, text)
}
