package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"unicode"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"likewise/deploy/local/cluster"
	likewisev1 "likewise/proto/likewise/v1"
)

// restSpeaker calls the paths that the protocol annotates its methods with, as a
// program would that has read the OpenAPI document.
func restSpeaker(t testing.TB) speaker {
	t.Helper()
	client := httpClient(t, false)
	return speaker{name: "REST", rest: true, say: func(ctx context.Context, n *cluster.Node, c call) reply {
		req, err := restRequest(ctx, n, c)
		if err != nil {
			return failed(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return failed(err)
		}
		return restReply(resp, answerOf(methodOf(c.request)))
	}}
}

// curl runs that program, as people do who try a service, on the same paths.
func curl() speaker {
	return speaker{name: "curl", rest: true, curl: true, say: func(ctx context.Context, n *cluster.Node, c call) reply {
		req, err := restRequest(ctx, n, c)
		if err != nil {
			return failed(err)
		}
		args := []string{"--silent", "--show-error", "--include", "--request", req.Method, req.URL.String()}
		if req.ContentLength > 0 {
			args = append(args, "--data-binary", "@-")
		}
		for key, values := range req.Header {
			for _, value := range values {
				args = append(args, "--header", key+": "+value)
			}
		}
		cmd := exec.CommandContext(ctx, "curl", args...)
		cmd.Stdin = req.Body
		out, err := cmd.Output()
		if err != nil {
			return failed(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(out)), req)
		if err != nil {
			return failed(err)
		}
		return restReply(resp, answerOf(methodOf(c.request)))
	}}
}

func restRequest(ctx context.Context, n *cluster.Node, c call) (*http.Request, error) {
	verb, path, body, err := restForm(c.request)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, verb, "http://"+n.Addr()+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(req.Header, c.header)
	if c.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+c.bearer)
	}
	return req, nil
}

// restForm writes a request as its method's annotation says: fields of the
// path, and the others in the body or the query.
func restForm(request proto.Message) (verb, path string, body []byte, err error) {
	rule, ok := proto.GetExtension(methodOf(request).Options(), annotations.E_Http).(*annotations.HttpRule)
	if !ok {
		return "", "", nil, errors.New("not annotated")
	}
	verb, path = restRoute(rule)
	fields := map[string]json.RawMessage{}
	written, err := protojson.Marshal(request)
	if err == nil {
		err = json.Unmarshal(written, &fields)
	}
	if err != nil {
		return "", "", nil, err
	}
	descriptors := request.ProtoReflect().Descriptor().Fields()
	for i := range descriptors.Len() {
		field := descriptors.Get(i)
		if hole := "{" + string(field.Name()) + "}"; strings.Contains(path, hole) {
			path = strings.ReplaceAll(path, hole, segment(request.ProtoReflect().Get(field).String()))
			delete(fields, field.JSONName())
		}
	}
	if rule.GetBody() == "*" {
		body, err = json.Marshal(fields)
		return verb, path, body, err
	}
	query := url.Values{}
	for name, value := range fields {
		query.Set(name, strings.Trim(string(value), `"`))
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return verb, path, nil, nil
}

func restRoute(rule *annotations.HttpRule) (verb, path string) {
	switch pattern := rule.GetPattern().(type) {
	case *annotations.HttpRule_Put:
		return http.MethodPut, pattern.Put
	case *annotations.HttpRule_Post:
		return http.MethodPost, pattern.Post
	case *annotations.HttpRule_Delete:
		return http.MethodDelete, pattern.Delete
	default:
		return http.MethodGet, rule.GetGet()
	}
}

// segment writes an id so that no client and no proxy takes it for a part of
// the path's own structure.
func segment(id string) string {
	if id == "." || id == ".." {
		return strings.ReplaceAll(id, ".", "%2E")
	}
	return url.PathEscape(id)
}

// problem is RFC 9457's, with the members that this service adds.
type problem struct {
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     int    `json:"status"`
	Detail     string `json:"detail"`
	Code       string `json:"code"`
	Reaction   string `json:"reaction"`
	Version    string `json:"version"`
	State      string `json:"state"`
	Violations []struct {
		Field   string `json:"field"`
		Message string `json:"message"`
	} `json:"violations"`
}

// restReply reads an answer, into answer if it is no error.
func restReply(resp *http.Response, answer proto.Message) reply {
	defer resp.Body.Close()
	r := reply{status: resp.StatusCode, header: resp.Header}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return failed(err)
	}
	if resp.StatusCode == http.StatusOK {
		r.message = answer
		if err := protojson.Unmarshal(body, answer); err != nil {
			return failed(fmt.Errorf("%w: %s", err, body))
		}
		return r
	}
	var p problem
	if err := json.Unmarshal(body, &p); err != nil || resp.Header.Get("Content-Type") != "application/problem+json" || p.Status != resp.StatusCode || p.Title == "" {
		r.code = fmt.Sprintf("no problem document, but %d %q", resp.StatusCode, resp.Header.Get("Content-Type"))
		r.text = string(body)
		return r
	}
	r.code, r.text, r.details = p.Code, p.Detail, p.details()
	return r
}

// details puts a problem's members into the types that other protocols use.
func (p problem) details() []proto.Message {
	switch strings.TrimPrefix(p.Type, "urn:likewise:problem:") {
	case "version-mismatch":
		m := &likewisev1.VersionMismatch{Reaction: likewisev1.Reaction(likewisev1.Reaction_value[p.Reaction])}
		_, _ = fmt.Sscan(p.Version, &m.Version)
		return []proto.Message{m}
	case "video-not-active":
		return []proto.Message{&likewisev1.VideoNotActive{State: likewisev1.VideoState(likewisev1.VideoState_value[p.State])}}
	case "idempotency-key-reused":
		return []proto.Message{&likewisev1.IdempotencyKeyReused{}}
	case "outcome-unknown":
		return []proto.Message{&likewisev1.OutcomeUnknown{}}
	case "invalid-request":
		if len(p.Violations) == 0 {
			return nil
		}
		violations := &validate.Violations{}
		for _, v := range p.Violations {
			violations.Violations = append(violations.Violations, &validate.Violation{
				Field:   &validate.FieldPath{Elements: []*validate.FieldPathElement{{FieldName: new(snake(v.Field))}}},
				Message: new(v.Message),
			})
		}
		return []proto.Message{violations}
	default:
		return nil
	}
}

// snake turns a name of JSON into that of the protocol.
func snake(name string) string {
	var b strings.Builder
	for _, c := range name {
		if unicode.IsUpper(c) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// violationsOf returns "field: message" for each rule that a request broke.
func violationsOf(r reply) []string {
	var told []string
	for _, v := range detail[*validate.Violations](r).GetViolations() {
		var path []string
		for _, e := range v.GetField().GetElements() {
			name := e.GetFieldName()
			if e.GetSubscript() != nil {
				name += fmt.Sprintf("[%d]", e.GetIndex())
			}
			path = append(path, name)
		}
		told = append(told, strings.Join(path, ".")+": "+v.GetMessage())
	}
	return told
}

// statusOf is the HTTP status that REST answers instead of a code and a detail.
func statusOf(r reply) int {
	has := func(name protoreflect.Name) bool {
		for _, d := range r.details {
			if d.ProtoReflect().Descriptor().Name() == name {
				return true
			}
		}
		return false
	}
	switch {
	case r.code == "":
		return http.StatusOK
	case has("VersionMismatch"):
		return http.StatusPreconditionFailed
	case has("VideoNotActive"):
		if detail[*likewisev1.VideoNotActive](r).GetState() == likewisev1.VideoState_DELETED {
			return http.StatusGone
		}
		return http.StatusConflict
	}
	return map[string]int{
		"invalid_argument":    http.StatusBadRequest,
		"unauthenticated":     http.StatusUnauthorized,
		"permission_denied":   http.StatusForbidden,
		"not_found":           http.StatusNotFound,
		"already_exists":      http.StatusUnprocessableEntity,
		"resource_exhausted":  http.StatusTooManyRequests,
		"unavailable":         http.StatusServiceUnavailable,
		"deadline_exceeded":   http.StatusGatewayTimeout,
		"canceled":            499,
		"failed_precondition": http.StatusPreconditionFailed,
	}[r.code]
}
