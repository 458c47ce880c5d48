package main

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"google.golang.org/protobuf/compiler/protogen"
)

//go:embed edge.yaml
var edgeYAML []byte

// complete makes of gnostic's document one that holds for the service.
func complete(doc *openapi3.T, files []*protogen.File) error {
	edge, err := openapi3.NewLoader().LoadFromData(edgeYAML)
	if err != nil {
		return fmt.Errorf("read edge.yaml: %w", err)
	}
	doc.Info, doc.Servers, doc.Security, doc.Tags = edge.Info, edge.Servers, edge.Security, edge.Tags
	own := doc.Components.Schemas
	doc.Components = edge.Components
	for name, schema := range own {
		tidy(schema.Value)
		doc.Components.Schemas[name] = schema
	}
	methods := make(map[string]*protogen.Method)
	for _, file := range files {
		for _, service := range file.Services {
			for _, method := range service.Methods {
				methods[service.GoName+"_"+method.GoName] = method
			}
		}
	}
	for path, item := range doc.Paths.Map() {
		for verb, op := range item.Operations() {
			method := methods[op.OperationID]
			if method == nil {
				return fmt.Errorf("%s %s: no method is called %s", verb, path, op.OperationID)
			}
			if err := (&operation{op: op, method: method, schemas: doc.Components.Schemas}).complete(); err != nil {
				return fmt.Errorf("%s %s: %w", verb, path, err)
			}
		}
	}
	return nil
}

// operation is one path and method, and the RPC that answers it.
type operation struct {
	op      *openapi3.Operation
	method  *protogen.Method
	schemas openapi3.Schemas
}

func (o *operation) complete() error {
	o.op.Description = joined(o.op.Description)
	inPath := make(map[string]bool)
	for _, p := range o.op.Parameters {
		p.Value.Description = joined(p.Value.Description)
		if p.Value.In == openapi3.ParameterInPath {
			inPath[p.Value.Name] = true
		}
	}
	if err := o.constrain(inPath); err != nil {
		return err
	}
	o.headers()
	o.answers()
	if strings.HasSuffix(o.method.GoName, "GetCounts") {
		// Unless the service is configured to keep its counts private.
		o.op.Security = &openapi3.SecurityRequirements{{}, {"token": {}}}
	}
	return nil
}

// constrain brings the rules of the request's fields to where they are sent, and
// takes what is in the path from the body.
func (o *operation) constrain(inPath map[string]bool) error {
	fields := make(map[string]*protogen.Field)
	for _, field := range o.method.Input.Fields {
		fields[field.Desc.JSONName()] = field
	}
	for _, p := range o.op.Parameters {
		if err := constrain(p.Value.Schema.Value, fields[p.Value.Name]); err != nil {
			return err
		}
		p.Value.Schema.Value.Description = "" // the parameter has one
	}
	if o.op.RequestBody == nil {
		return nil
	}
	body := o.schemas[o.method.Input.GoIdent.GoName].Value
	no := false
	body.AdditionalProperties = openapi3.AdditionalProperties{Has: &no}
	for name, field := range fields {
		if inPath[name] {
			delete(body.Properties, name)
			continue
		}
		if err := constrain(body.Properties[name].Value, field); err != nil {
			return err
		}
		if needed(field) {
			body.Required = append(body.Required, name)
		}
	}
	slices.Sort(body.Required)
	return nil
}

// writesReaction reports whether the RPC takes a key and a condition.
func (o *operation) writesReaction() bool {
	return slices.ContainsFunc(o.method.Input.Fields, func(f *protogen.Field) bool { return f.Desc.Name() == "idempotency_key" })
}

func (o *operation) readsReaction() bool { return o.method.GoName == "GetReaction" }

func (o *operation) headers() {
	add := func(name string) {
		o.op.Parameters = append(o.op.Parameters, &openapi3.ParameterRef{Ref: "#/components/parameters/" + name})
	}
	if o.writesReaction() {
		add("IdempotencyKey")
		add("IfMatch")
		add("IfNoneMatchAny")
	}
	if o.readsReaction() {
		add("IfNoneMatch")
	}
	add("Timeout")
}

// answers adds what may be answered but success.
func (o *operation) answers() {
	known := map[int]string{400: "InvalidRequest", 401: "Unauthenticated", 499: "Canceled", 500: "Internal", 504: "DeadlineExceeded"}
	if !strings.HasPrefix(o.method.GoName, "Batch") { // there it is an item that is unavailable
		known[503] = "Unavailable"
	}
	if o.op.RequestBody != nil {
		maps.Copy(known, map[int]string{413: "TooLarge", 415: "UnsupportedMediaType"})
	}
	if o.writesReaction() {
		maps.Copy(known, map[int]string{409: "VideoNotActive", 410: "VideoDeleted", 412: "VersionMismatch", 422: "IdempotencyKeyReused", 429: "Overloaded"})
	}
	switch o.method.GoName {
	case "GetReaction":
		maps.Copy(known, map[int]string{304: "NotModified", 410: "VideoDeleted"})
	case "GetCounts":
		maps.Copy(known, map[int]string{403: "PermissionDenied", 410: "VideoDeleted"})
	case "BatchGetCounts", "SetVideoState":
		known[403] = "PermissionDenied"
	}
	for status, name := range known {
		o.op.Responses.Set(strconv.Itoa(status), &openapi3.ResponseRef{Ref: "#/components/responses/" + name})
	}
	if o.writesReaction() || o.readsReaction() {
		o.op.Responses.Value("200").Value.Headers = openapi3.Headers{"ETag": {Ref: "#/components/headers/ETag"}}
	}
}

// tidy says what gnostic leaves open of a message.
func tidy(schema *openapi3.Schema) {
	schema.Description = joined(schema.Description)
	for _, property := range schema.Properties {
		if property.Ref != "" {
			continue
		}
		one := property.Value
		one.Description = joined(one.Description)
		if one.Format == "enum" {
			one.Format = ""
			// The zero value says nothing: it is never sent, and not taken.
			one.Enum = slices.DeleteFunc(one.Enum, func(name any) bool { return strings.HasSuffix(fmt.Sprint(name), "_UNSPECIFIED") })
		}
	}
}

// joined undoes the breaks of a comment's lines, and keeps its paragraphs.
func joined(comment string) string {
	paragraphs := strings.Split(comment, "\n\n")
	for i, p := range paragraphs {
		paragraphs[i] = strings.Join(strings.Fields(p), " ")
	}
	return strings.Join(paragraphs, "\n\n")
}
