package regions

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// restRoute is one REST path and method, as the .proto files annotate it. The
// transcoder knows them too; here they are read so strictly that nothing is left
// for it to guess.
type restRoute struct {
	procedure string
	method    string
	segments  []string // "" stands for a variable
	variables []protoreflect.FieldDescriptor
	input     protoreflect.MessageType
	body      bool // the whole message but for the variables
}

type restRoutes []*restRoute

// restRoutesOf reads the annotations of services. It knows what those of this
// service use: whole segments as variables, and all of the body or none.
func restRoutesOf(services []protoreflect.ServiceDescriptor) (restRoutes, error) {
	var routes restRoutes
	for _, service := range services {
		for i := range service.Methods().Len() {
			route, err := restRouteOf(service.Methods().Get(i))
			if err != nil {
				return nil, fmt.Errorf("read the REST path of %s: %w", service.Methods().Get(i).FullName(), err)
			}
			routes = append(routes, route)
		}
	}
	return routes, nil
}

func restRouteOf(method protoreflect.MethodDescriptor) (*restRoute, error) {
	rule, ok := proto.GetExtension(method.Options(), annotations.E_Http).(*annotations.HttpRule)
	if !ok || rule == nil {
		return nil, errors.New("it has none")
	}
	input, err := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
	if err != nil {
		return nil, err
	}
	verb, template := patternOf(rule)
	if verb == "" || (rule.GetBody() != "" && rule.GetBody() != "*") || len(rule.GetAdditionalBindings()) > 0 {
		return nil, errors.New("it is of a kind that is not known here")
	}
	route := &restRoute{procedure: procedureOf(method), method: verb, input: input, body: rule.GetBody() == "*"}
	for segment := range strings.SplitSeq(strings.TrimPrefix(template, "/"), "/") {
		name, isVariable := strings.CutPrefix(segment, "{")
		if !isVariable {
			route.segments = append(route.segments, segment)
			continue
		}
		field := method.Input().Fields().ByName(protoreflect.Name(strings.TrimSuffix(name, "}")))
		if field == nil || field.Kind() != protoreflect.StringKind {
			return nil, fmt.Errorf("it has no string %s", segment)
		}
		route.segments = append(route.segments, "")
		route.variables = append(route.variables, field)
	}
	return route, nil
}

func patternOf(rule *annotations.HttpRule) (method, template string) {
	switch pattern := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		return http.MethodGet, pattern.Get
	case *annotations.HttpRule_Put:
		return http.MethodPut, pattern.Put
	case *annotations.HttpRule_Post:
		return http.MethodPost, pattern.Post
	case *annotations.HttpRule_Delete:
		return http.MethodDelete, pattern.Delete
	default:
		return "", ""
	}
}

// find returns the route of a request and the values of its variables, each
// decoded once. Without a route it returns the methods that the path takes;
// without those there is nothing at the path.
func (rs restRoutes) find(method, escapedPath string) (*restRoute, []string, []string) {
	segments, ok := segmentsOf(escapedPath)
	if !ok {
		return nil, nil, nil
	}
	var methods []string
	for _, route := range rs {
		values, matches := route.match(segments)
		switch {
		case !matches:
		case route.method == method:
			return route, values, nil
		default:
			methods = append(methods, route.method)
		}
	}
	slices.Sort(methods)
	return nil, nil, methods
}

// segmentsOf splits a path before it decodes it, so that a %2F stays in its
// segment. Dots and empty segments are what they are.
func segmentsOf(escapedPath string) ([]string, bool) {
	path, ok := strings.CutPrefix(escapedPath, "/")
	if !ok {
		return nil, false
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		decoded, err := url.PathUnescape(segment)
		if err != nil {
			return nil, false
		}
		segments[i] = decoded
	}
	return segments, true
}

func (route *restRoute) match(segments []string) ([]string, bool) {
	if len(segments) != len(route.segments) {
		return nil, false
	}
	var values []string
	for i, want := range route.segments {
		switch {
		case want == "":
			values = append(values, segments[i])
		case want != segments[i]:
			return nil, false
		}
	}
	return values, true
}

// checkVariables refuses what no string of protobuf can hold. The rules of the
// .proto refuse the rest.
func (route *restRoute) checkVariables(values []string) *refusal {
	for i, value := range values {
		if !utf8.ValidString(value) {
			why := &fault{Field: route.variables[i].JSONName(), Say: "must be UTF-8 that is percent-encoded"}
			return refusalOf(why.toConnect())
		}
	}
	return nil
}

// path spells the route's path for the transcoder, which decodes it once more:
// all that could mean something to it is encoded.
func (route *restRoute) path(values []string) string {
	var b strings.Builder
	for _, segment := range route.segments {
		b.WriteByte('/')
		if segment != "" {
			b.WriteString(segment)
			continue
		}
		for _, c := range []byte(values[0]) {
			if idByte(c) && c != ':' {
				b.WriteByte(c)
			} else {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		}
		values = values[1:]
	}
	return b.String()
}

// takes reports whether the route has a field outside of its path, by either of
// its names.
func (route *restRoute) takes(name string) protoreflect.FieldDescriptor {
	field := fieldCalled(route.input.Descriptor(), name)
	if field == nil || slices.Contains(route.variables, field) {
		return nil
	}
	return field
}

// takesNames lists what takes knows.
func (route *restRoute) takesNames() string {
	var names []string
	fields := route.input.Descriptor().Fields()
	for i := range fields.Len() {
		if field := fields.Get(i); !slices.Contains(route.variables, field) {
			names = append(names, field.JSONName())
		}
	}
	return strings.Join(names, ", ")
}
