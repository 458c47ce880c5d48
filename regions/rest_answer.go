package regions

import (
	"bytes"
	"net/http"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"connectrpc.com/vanguard"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"likewise/proto/likewise/v1/likewisev1connect"
)

// restCodec is how the transcoder reads and writes JSON: as jsonCodec does.
type restCodec struct {
	*vanguard.JSONCodec

	routes restRoutes
}

// MarshalAppend writes an answer as JSON. An error, which the transcoder writes
// as a google.rpc.Status, stays in protobuf: restAnswer reads it.
func (c *restCodec) MarshalAppend(dst []byte, msg proto.Message) ([]byte, error) {
	if _, ok := msg.(*statuspb.Status); ok {
		return proto.MarshalOptions{}.MarshalAppend(dst, msg)
	}
	return jsonCodec{}.MarshalAppend(dst, msg)
}

// Unmarshal reads a body. Its errors are what the caller hears.
func (c *restCodec) Unmarshal(data []byte, msg proto.Message) error {
	why := readJSON(data, msg)
	if why == nil {
		why = c.inPath(msg)
	}
	if why != nil {
		return why.toConnect()
	}
	return nil
}

// inPath refuses a field which the path says: the body could say another.
func (c *restCodec) inPath(msg proto.Message) *fault {
	said := msg.ProtoReflect()
	for _, route := range c.routes {
		if route.input.Descriptor().FullName() != said.Descriptor().FullName() {
			continue
		}
		for _, field := range route.variables {
			if said.Has(field) {
				return &fault{Field: field.JSONName(), Say: "is in the path: leave it out of the body"}
			}
		}
	}
	return nil
}

// restAnswer passes on what succeeded, and turns into a problem what did not.
type restAnswer struct {
	*call

	match  []string // ETags of which the caller has the state
	status int
	failed bytes.Buffer // a google.rpc.Status
	begun  bool
}

// WriteHeader passes a success on. An error waits for finish.
func (a *restAnswer) WriteHeader(status int) {
	if a.begun {
		return
	}
	a.begun, a.status = true, status
	if status != http.StatusOK {
		return
	}
	header := a.Header()
	header.Del("Accept-Encoding") // Connect says it to clients who ask for more
	if etag := header.Get("ETag"); etag != "" && (slices.Contains(a.match, etag) || slices.Contains(a.match, "*")) {
		for _, name := range []string{"Content-Type", "Content-Length", "Content-Encoding"} {
			header.Del(name)
		}
		a.status = http.StatusNotModified
	}
	a.call.WriteHeader(a.status)
}

// Write takes a part of the body.
func (a *restAnswer) Write(p []byte) (int, error) {
	if !a.begun {
		a.WriteHeader(http.StatusOK)
	}
	switch a.status {
	case http.StatusOK:
		return a.call.Write(p)
	case http.StatusNotModified:
		return len(p), nil
	default:
		return a.failed.Write(p)
	}
}

// Flush must not send the head of what is not decided yet.
func (a *restAnswer) Flush() {
	if a.status == http.StatusOK {
		a.call.Flush()
	}
}

// finish writes the problem, if there is one.
func (a *restAnswer) finish() {
	if a.status == http.StatusOK || a.status == http.StatusNotModified {
		return
	}
	refused := refusalFrom(a.err())
	a.code = refused.Err.Code()
	writeProblem(a.call, refused)
}

// err returns what the transcoder wrote as a google.rpc.Status.
func (a *restAnswer) err() error {
	var status statuspb.Status
	if err := proto.Unmarshal(a.failed.Bytes(), &status); err != nil || status.GetCode() <= 0 {
		return errNoStatus
	}
	err := public(connect.Code(status.GetCode()), status.GetMessage()) //nolint:gosec // it is above 0
	for _, detail := range status.GetDetails() {
		if message, unmarshalErr := detail.UnmarshalNew(); unmarshalErr == nil {
			addDetail(err, message)
		}
	}
	return err
}

// ifNoneMatch returns the ETags of a conditional read. They are compared weakly,
// as RFC 9110 asks of reads.
func (route *restRoute) ifNoneMatch(r *http.Request) []string {
	if route.procedure != likewisev1connect.ReactionServiceGetReactionProcedure {
		return nil
	}
	var tags []string
	for _, value := range r.Header.Values("If-None-Match") {
		for tag := range strings.SplitSeq(value, ",") {
			tags = append(tags, strings.TrimPrefix(strings.TrimSpace(tag), "W/"))
		}
	}
	return tags
}
