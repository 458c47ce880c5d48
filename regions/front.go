package regions

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/zap"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	likewisev1 "likewise/proto/likewise/v1"
)

// front finds the handler of a path. It is no http.ServeMux, because that one
// redirects paths which it finds unclean: a POST would lose its body, and the
// video ".." would become another path.
type front struct {
	rpcs     map[string]http.Handler // by procedure
	services map[string]http.Handler // by /package.Service/
	pages    map[string]http.Handler // by path
	rest     http.Handler            // all of /v1/
	unknown  http.Handler

	log     *zap.Logger
	metrics *metrics
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer f.breakOff(r)
	f.handlerOf(r.URL.Path).ServeHTTP(w, r)
}

// breakOff ends a request whose handler panicked before the interceptors had it,
// and says so: net/http would whisper.
func (f *front) breakOff(r *http.Request) {
	switch reason := recover(); reason {
	case nil:
		return
	case http.ErrAbortHandler:
	default:
		f.metrics.panics.Inc()
		f.log.Error("request panicked", zap.String("path", r.URL.Path), zap.Any("reason", reason), zap.ByteString("stack", debug.Stack()))
	}
	panic(http.ErrAbortHandler) //nolint:forbidigo // net/http waits for it
}

func (f *front) handlerOf(path string) http.Handler {
	if handler, ok := f.rpcs[path]; ok {
		return handler
	}
	if path == "/v1" || strings.HasPrefix(path, "/v1/") {
		return f.rest
	}
	if handler, ok := f.pages[path]; ok {
		return handler
	}
	if end := strings.LastIndexByte(path, '/'); end > 0 {
		if handler, ok := f.services[path[:end+1]]; ok {
			return handler
		}
	}
	return f.unknown
}

// publicServices are those that users call.
func publicServices() []protoreflect.ServiceDescriptor {
	return []protoreflect.ServiceDescriptor{
		likewisev1.File_likewise_v1_reaction_proto.Services().ByName("ReactionService"),
		likewisev1.File_likewise_v1_admin_proto.Services().ByName("AdminService"),
	}
}

func procedureOf(method protoreflect.MethodDescriptor) string {
	return fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name())
}

// methodsOf lists the HTTP methods of an RPC: GET is for those without effects.
func methodsOf(method protoreflect.MethodDescriptor) string {
	if isPure(method) {
		return "GET without a body, or POST"
	}
	return "POST"
}

func isPure(method protoreflect.MethodDescriptor) bool {
	options, ok := method.Options().(*descriptorpb.MethodOptions)
	return ok && options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

// readable answers GET and HEAD.
func readable(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			handler.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Allow", "GET, HEAD")
		writeProblem(w, &refusal{Kind: kindMethod, Err: public(connect.CodeInvalidArgument, "this page is read by GET")})
	})
}

// document is a page that never changes.
func document(contentType string, content []byte) http.Handler {
	return readable(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(content) // whoever asked has gone
	}))
}

// unknownProcedure is the label of calls to paths that do not exist.
const unknownProcedure = "unknown"

const nothingHere = "there is nothing at this path: RPCs are at /likewise.v1.ReactionService/<Method> and /likewise.v1.AdminService/<Method>, and REST is under /v1/, as /openapi.yaml says"

// unknownPath says in the caller's own protocol where there is something.
func unknownPath(m *metrics, writer *connect.ErrorWriter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := newCall(w, r, unknownProcedure)
		defer m.conclude(c, r, time.Now())
		c.code = connect.CodeUnimplemented
		err := connect.NewError(c.code, errors.New(nothingHere))
		switch speaks(r) {
		case speaksGRPC:
			_ = writer.Write(c, r, err) // whoever asked has gone
		case speaksConnect:
			writeConnectJSON(c, http.StatusNotFound, err)
		default:
			writeProblem(c, notFound())
		}
	})
}

type language int

const (
	speaksHTTP language = iota
	speaksConnect
	speaksGRPC // or gRPC-Web
)

// speaks says how to answer a request whose path does not tell.
func speaks(r *http.Request) language {
	kind := r.Header.Get("Content-Type")
	switch {
	case strings.HasPrefix(kind, "application/grpc"):
		return speaksGRPC
	case r.Method == http.MethodPost && (strings.HasPrefix(kind, "application/json") || strings.HasPrefix(kind, "application/proto")),
		r.Header.Get("Connect-Protocol-Version") != "", r.URL.Query().Get("connect") != "":
		return speaksConnect
	default:
		return speaksHTTP
	}
}
