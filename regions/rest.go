package regions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"
	"connectrpc.com/vanguard"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// restEdge is REST: everything under /v1/. It hands the transcoder only what can
// be read in one way, and turns its errors into problems (RFC 9457).
type restEdge struct {
	routes     restRoutes
	transcoder http.Handler
	metrics    *metrics
}

// newRESTEdge serves the annotated paths of services by their Connect handlers.
func newRESTEdge(handlers map[string]http.Handler, services []protoreflect.ServiceDescriptor, m *metrics) (*restEdge, error) {
	routes, err := restRoutesOf(services)
	if err != nil {
		return nil, err
	}
	mounted := make([]*vanguard.Service, 0, len(services))
	for _, service := range services {
		path := "/" + string(service.FullName()) + "/"
		mounted = append(mounted, vanguard.NewService(path, handlers[path],
			vanguard.WithTargetProtocols(vanguard.ProtocolConnect),
			vanguard.WithTargetCodecs(vanguard.CodecProto),
			vanguard.WithNoTargetCompression(),
			vanguard.WithMaxMessageBufferBytes(maxAnswer),
		))
	}
	transcoder, err := vanguard.NewTranscoder(mounted, vanguard.WithCodec(func(resolver vanguard.TypeResolver) vanguard.Codec {
		return &restCodec{JSONCodec: vanguard.NewJSONCodec(resolver), routes: routes}
	}))
	if err != nil {
		return nil, fmt.Errorf("make the REST transcoder: %w", err)
	}
	return &restEdge{routes: routes, transcoder: transcoder, metrics: m}, nil
}

// maxAnswer bounds an answer that the transcoder holds, in bytes: a hundred
// outcomes have some ten thousands.
const maxAnswer = 1 << 20

func (e *restEdge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := newCall(w, r, unknownProcedure)
	defer e.metrics.conclude(c, r, time.Now())

	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet // net/http leaves the body out
	}
	route, values, methods := e.routes.find(method, r.URL.EscapedPath())
	if route == nil {
		c.refuseWith(noRoute(w, r, methods))
		return
	}
	c.procedure = route.procedure
	req, refused := route.prepare(c.with(r), values)
	if refused != nil {
		c.refuseWith(refused)
		return
	}
	answer := &restAnswer{call: c, match: route.ifNoneMatch(r)}
	e.transcoder.ServeHTTP(answer, req)
	answer.finish()
}

// refuseWith ends a call before the interceptors. nil: there is no error.
func (c *call) refuseWith(r *refusal) {
	if r == nil {
		c.reached = true // nothing to count
		return
	}
	c.code = r.Err.Code()
	writeProblem(c, r)
}

// noRoute answers a request that has no route. methods are those that its path
// takes.
func noRoute(w http.ResponseWriter, r *http.Request, methods []string) *refusal {
	if len(methods) == 0 {
		return notFound()
	}
	if slices.Contains(methods, http.MethodGet) {
		methods = append(methods, http.MethodHead)
	}
	allow := strings.Join(append(methods, http.MethodOptions), ", ")
	w.Header().Set("Allow", allow)
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return &refusal{Kind: kindMethod, Err: public(connect.CodeInvalidArgument, "this path takes "+allow)}
}

// prepare makes of r the request that the transcoder gets: its path, query and
// body are read here first, and spelt so that it reads the same.
func (route *restRoute) prepare(r *http.Request, values []string) (*http.Request, *refusal) {
	if refused := route.checkVariables(values); refused != nil {
		return nil, refused
	}
	query, refused := route.query(r.URL.RawQuery)
	if refused != nil {
		return nil, refused
	}
	if refused := checkTimeout(r.Header.Get(timeoutHeader)); refused != nil {
		return nil, refused
	}
	body, refused := route.readBody(r)
	if refused != nil {
		return nil, refused
	}
	header := r.Header.Clone()
	for _, name := range []string{"Content-Type", "Content-Encoding", "Content-Length", "Connect-Protocol-Version", "Connect-Timeout-Ms"} {
		header.Del(name)
	}
	r.Method = route.method
	r.Header = header
	r.URL = &url.URL{Path: route.path(values), RawQuery: query}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return r, nil
}

// query checks the query against the fields that are neither in the path nor in
// the body, and spells its values as the transcoder reads them.
func (route *restRoute) query(raw string) (string, *refusal) {
	if raw == "" {
		return "", nil
	}
	given, err := url.ParseQuery(raw)
	if err != nil || !utf8.ValidString(strings.Join(slices.Concat(slices.Collect(valuesOf(given))...), "")) {
		return "", invalid("the query cannot be read: percent-encode its values as UTF-8, and separate them by &")
	}
	canonical := make(url.Values, len(given))
	for name, values := range given {
		field := route.takes(name)
		switch {
		case route.body:
			return "", invalid(fmt.Sprintf("unknown query parameter %q: this path takes none, put it into the body", short(name)))
		case field == nil && route.takesNames() == "":
			return "", invalid(fmt.Sprintf("unknown query parameter %q: this path takes none", short(name)))
		case field == nil:
			return "", invalid(fmt.Sprintf("unknown query parameter %q: this path takes %s", short(name), route.takesNames()))
		case len(values) > 1 || canonical.Has(field.JSONName()):
			return "", invalid(fmt.Sprintf("the query parameter %q is there twice: send it once", field.JSONName()))
		}
		value, refused := route.parameter(field, values[0])
		if refused != nil {
			return "", refused
		}
		canonical.Set(field.JSONName(), value)
	}
	return canonical.Encode(), nil
}

func valuesOf(given url.Values) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		for _, values := range given {
			if !yield(values) {
				return
			}
		}
	}
}

// parameter reads a value as JSON would be read, and returns it in one spelling.
func (route *restRoute) parameter(field protoreflect.FieldDescriptor, value string) (string, *refusal) {
	quoted, err := json.Marshal(value)
	if err != nil {
		return "", refusalFrom(err) // never: it is a string
	}
	if why := faultInField(quoted, field); why != nil {
		return "", refusalOf(why.toConnect())
	}
	if field.Kind() != protoreflect.Int64Kind {
		return value, nil
	}
	msg := route.input.New()
	if err := protojson.Unmarshal(fmt.Appendf(nil, "{%q:%s}", field.JSONName(), quoted), msg.Interface()); err != nil {
		return "", refusalFrom(err) // never: it was found to be a number
	}
	return strconv.FormatInt(msg.Get(field).Int(), 10), nil
}

// timeoutHeader says in seconds how long the caller waits.
const timeoutHeader = "X-Server-Timeout"

func checkTimeout(value string) *refusal {
	if value == "" {
		return nil
	}
	const longest = 1e6
	if seconds, err := strconv.ParseFloat(value, 64); err != nil || !(seconds >= 0 && seconds <= longest) {
		return invalid("the header X-Server-Timeout must be a number of seconds, such as 1.5")
	}
	return nil
}

// readBody returns the body as the transcoder should see it.
func (route *restRoute) readBody(r *http.Request) ([]byte, *refusal) {
	if r.ContentLength > maxBody {
		return nil, refusalFrom(tooLarge())
	}
	if r.Body == nil || r.Body == http.NoBody {
		return route.checkBody(nil)
	}
	src := io.Reader(r.Body)
	switch encoding := r.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
	case "gzip":
		unzip := &gunzip{}
		_ = unzip.Reset(src) // it fails when it is read
		src = unzip
	default:
		return nil, unread415(fmt.Sprintf("the content encoding %q is not read here: send gzip, or none", short(encoding)))
	}
	body, err := io.ReadAll(io.LimitReader(src, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = tooLarge()
	}
	if err != nil {
		return nil, refusalFrom(err)
	}
	if refused := checkMediaType(r.Header); refused != nil && len(body) > 0 {
		return nil, refused
	}
	return route.checkBody(body)
}

func (route *restRoute) checkBody(body []byte) ([]byte, *refusal) {
	switch {
	case route.body && len(body) == 0:
		return nil, invalid("the body is empty: send a JSON object with " + route.takesNames())
	case !route.body && len(body) > 0:
		return nil, invalid(route.method + " takes no body here: leave it out")
	default:
		return body, nil
	}
}

// checkMediaType takes JSON, and a body of which nothing is said as JSON.
func checkMediaType(header http.Header) *refusal {
	values := header.Values("Content-Type")
	if len(values) == 0 {
		return nil
	}
	kind, params, err := mime.ParseMediaType(values[0])
	charset, hasCharset := params["charset"]
	if err != nil || len(values) > 1 || kind != "application/json" || (hasCharset && !strings.EqualFold(charset, "utf-8")) {
		return unread415("the content type is not read here: send application/json")
	}
	return nil
}

func unread415(say string) *refusal {
	return &refusal{Kind: kindMediaType, Err: public(connect.CodeInvalidArgument, say)}
}
