package regions

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"likewise/proto/openapi"
	"likewise/storage"
)

// openapiDocument is what these tests read of the document.
type openapiDocument struct {
	Paths      map[string]map[string]openapiOperation
	Components struct {
		Schemas   map[string]*openapiSchema
		Responses map[string]openapiResponse
		Headers   map[string]openapiHeader
	}
}

type openapiOperation struct {
	OperationID string
	Parameters  []struct {
		Name, In string
		Schema   *openapiSchema
	}
	RequestBody *struct {
		Content map[string]struct{ Schema *openapiSchema }
	}
	Responses map[string]openapiResponse
	Security  []map[string][]string
}

type openapiResponse struct {
	Ref     string `json:"$ref"`
	Headers map[string]openapiHeader
	Content map[string]struct{ Schema *openapiSchema }
}

type openapiHeader struct {
	Ref      string `json:"$ref"`
	Required bool
	Schema   *openapiSchema
}

type openapiSchema struct {
	Ref                  string `json:"$ref"`
	Type                 string
	AllOf                []*openapiSchema
	Properties           map[string]*openapiSchema
	AdditionalProperties *bool
	Required             []string
	Items                *openapiSchema
	Enum                 []any
	Pattern              string
	MinItems, MaxItems   int
	MaxLength            int
}

func readOpenAPI(t *testing.T) *openapiDocument {
	t.Helper()
	doc := new(openapiDocument)
	require.NoError(t, json.Unmarshal(openapi.JSON, doc))
	return doc
}

func last(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// check says where a value does not fit a schema; "" if it fits. Properties that
// the schema does not have never fit: the document would be silent about them.
func (doc *openapiDocument) check(schema *openapiSchema, value any, at string) string {
	if schema.Ref != "" {
		return doc.check(doc.Components.Schemas[last(schema.Ref)], value, at)
	}
	for _, part := range schema.AllOf {
		if why := doc.check(part, value, at); why != "" || schema.Type == "" {
			return why
		}
	}
	if len(schema.Enum) > 0 && !slices.Contains(schema.Enum, value) {
		return fmt.Sprintf("%s: %v is none of %v", at, value, schema.Enum)
	}
	switch typed := value.(type) {
	case map[string]any:
		return doc.checkObject(schema, typed, at)
	case []any:
		if schema.Type != "array" || len(typed) < schema.MinItems || schema.MaxItems > 0 && len(typed) > schema.MaxItems {
			return at + ": is an array, or has too few or too many items"
		}
		for i, item := range typed {
			if why := doc.check(schema.Items, item, fmt.Sprintf("%s[%d]", at, i)); why != "" {
				return why
			}
		}
	case string:
		if schema.Type != "string" || !regexp.MustCompile(schema.Pattern).MatchString(typed) || schema.MaxLength > 0 && len(typed) > schema.MaxLength {
			return fmt.Sprintf("%s: %q does not fit", at, typed)
		}
	case float64:
		if schema.Type != "integer" {
			return at + ": is a number"
		}
	case bool:
		if schema.Type != "boolean" {
			return at + ": is a boolean"
		}
	}
	return ""
}

func (doc *openapiDocument) checkObject(schema *openapiSchema, value map[string]any, at string) string {
	if schema.Type != "object" {
		return at + ": is an object"
	}
	for _, name := range schema.Required {
		if _, ok := value[name]; !ok {
			return at + "." + name + ": is missing"
		}
	}
	for name, one := range value {
		property := schema.Properties[name]
		if property == nil {
			if schema.AdditionalProperties != nil && *schema.AdditionalProperties {
				continue
			}
			return at + "." + name + ": is unknown"
		}
		if why := doc.check(property, one, at+"."+name); why != "" {
			return why
		}
	}
	return ""
}

// requireTold asks that the document tells of an answer: its status, its headers
// and its body.
func (doc *openapiDocument) requireTold(t *testing.T, op openapiOperation, got answer) {
	t.Helper()
	told, ok := op.Responses[strconv.Itoa(got.Status)]
	require.True(t, ok, "%s: the status %d is not in the document: %s", op.OperationID, got.Status, got.Raw)
	if told.Ref != "" {
		told = doc.Components.Responses[last(told.Ref)]
	}
	for name, header := range told.Headers {
		if header.Ref != "" {
			header = doc.Components.Headers[last(header.Ref)]
		}
		if value := got.Header.Get(name); header.Required || value != "" {
			require.Empty(t, doc.check(header.Schema, value, name))
		}
	}
	if len(told.Content) == 0 {
		require.Empty(t, got.Raw)
		return
	}
	content, ok := told.Content[got.Header.Get("Content-Type")]
	require.True(t, ok, "%s: %s", op.OperationID, got.Header.Get("Content-Type"))
	require.Empty(t, doc.check(content.Schema, any(got.Body), op.OperationID))
}

// sampleBodies are requests that the service takes.
func sampleBodies() map[string]string {
	return map[string]string{
		"SetReaction":       `{"reaction":"LIKE","idempotencyKey":"k","expectedVersion":"0"}`,
		"CastVote":          `{"content_id":"cat","action":"like","idempotencyKey":"k2","expectedVersion":"1"}`,
		"SetVideoState":     `{"state":"DISABLED"}`,
		"BatchGetReactions": `{"videoIds":["cat","dog"]}`,
		"BatchGetCounts":    `{"videoIds":["cat"],"maxStaleness":"1.5s","consistencyToken":""}`,
	}
}

// The document is true: each path is served, each status that it tells of can be
// had, and no answer is other than it says.
func TestTheOpenAPIDocumentIsTrue(t *testing.T) {
	t.Parallel()
	doc := readOpenAPI(t)
	require.Len(t, doc.Paths, 6)
	for path, item := range doc.Paths {
		for method, op := range item {
			_, name, _ := strings.Cut(op.OperationID, "_")
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				call := restCall{Method: strings.ToUpper(method), Path: strings.ReplaceAll(path, "{videoId}", "cat"), Body: sampleBodies()[name]}
				if op.RequestBody != nil {
					body := make(map[string]any)
					require.NoError(t, json.Unmarshal([]byte(call.Body), &body))
					schema := op.RequestBody.Content["application/json"].Schema
					require.Empty(t, doc.check(schema, any(body), name))
					properties := doc.Components.Schemas[last(schema.Ref)].Properties
					require.ElementsMatch(t, slices.Collect(maps.Keys(properties)), slices.Collect(maps.Keys(body)), "the sample has all that there is")
				}
				hadStatuses := make(map[string]bool)
				for _, situation := range situations(t, name, call) {
					n := startNode(t, "n1", situation.configure)
					situation.prepare(n)
					for _, each := range situation.calls {
						got := n.rest(t, each)
						doc.requireTold(t, op, got)
						hadStatuses[strconv.Itoa(got.Status)] = true
					}
				}
				hadStatuses["499"] = true // its caller does not hear it
				if name == "GetCounts" || strings.HasPrefix(name, "Batch") {
					hadStatuses["500"] = true // only a bug leads there
				}
				require.ElementsMatch(t, slices.Collect(maps.Keys(op.Responses)), slices.Collect(maps.Keys(hadStatuses)))
			})
		}
	}
}

// situation is a state of the service, and calls in it.
type situation struct {
	configure nodeOption
	prepare   func(*node)
	calls     []restCall
}

// situations lead to every status that an operation may have.
func situations(t *testing.T, name string, call restCall) []situation {
	t.Helper()
	with := func(call restCall, change func(*restCall)) restCall {
		call.Header = maps.Clone(call.Header)
		if call.Header == nil {
			call.Header = make(map[string]string)
		}
		change(&call)
		return call
	}
	if name == "SetVideoState" {
		call = with(call, func(c *restCall) {
			c.Header["Authorization"] = "Bearer " + mintClaims(t, Claims{Scopes: []string{ScopeAdmin}})
		})
	}
	private := func(cfg *Config, _ *Deps) { cfg.PrivateCounts = true }
	nothing := func(*node) {}
	list := []situation{
		{private, nothing, []restCall{call}},
		{private, nothing, []restCall{
			with(call, func(c *restCall) { c.Path += "?nonsense=1" }),
			with(call, func(c *restCall) { c.Header["Authorization"] = "" }),
			with(call, func(c *restCall) { c.Header["X-Server-Timeout"] = "0" }),
		}},
		{private, func(n *node) { n.fail(errDatabaseDown) }, []restCall{call}},
		{private, func(n *node) { n.fail(storage.ErrClosing) }, []restCall{call}},
	}
	if call.Body != "" {
		list = append(list, situation{private, nothing, []restCall{
			with(call, func(c *restCall) { c.Body = strings.Repeat(" ", maxBody+1) }),
			with(call, func(c *restCall) { c.Header["Content-Type"] = "text/plain" }),
		}})
	}
	for _, err := range refusalsOf(name) {
		list = append(list, situation{private, func(n *node) { n.fail(err) }, []restCall{call}})
	}
	switch name {
	case "GetReaction":
		list = append(list, situation{private, nothing, []restCall{with(call, func(c *restCall) { c.Header["If-None-Match"] = `"0"` })}})
	case "GetCounts", "BatchGetCounts", "SetVideoState":
		nobody := "Bearer " + mintClaims(t, Claims{Scopes: []string{"other"}})
		list = append(list, situation{private, nothing, []restCall{with(call, func(c *restCall) { c.Header["Authorization"] = nobody })}})
	}
	return list
}

// refusalsOf are the errors of the store that decide about an operation.
func refusalsOf(name string) []error {
	switch name {
	case "SetReaction", "DeleteReaction", "CastVote":
		return []error{
			&storage.VersionMismatchError{Current: storage.State{Reaction: storage.Like, Version: 7}},
			&storage.VideoStateError{State: storage.VideoDisabled},
			&storage.VideoStateError{State: storage.VideoDeleted},
			&storage.KeyReusedError{Key: "k"},
			&storage.OverloadedError{RetryAfter: time.Second},
			storage.ErrOutcomeUnknown,
		}
	case "GetReaction", "GetCounts":
		return []error{&storage.VideoDeletedError{}}
	default:
		return nil
	}
}

func mintClaims(t *testing.T, claims Claims) string {
	t.Helper()
	token, err := MintToken(testSecret, claims, time.Hour)
	require.NoError(t, err)
	return token
}

// fail lets everything fail that a node asks of its store.
func (n *node) fail(err error) {
	n.store.beforeSet = func(context.Context, storage.Set) error { return err }
	n.store.beforeGet = func(context.Context) error { return err }
	n.store.beforeCount = func(context.Context) error { return err }
	n.store.beforeState = func(context.Context) error { return err }
}

func TestTheOpenAPIDocumentIsServed(t *testing.T) {
	t.Parallel()
	n := startNode(t, "n1")
	require.Equal(t, string(openapi.YAML), page(t, n.url("/openapi.yaml")))
	require.JSONEq(t, string(openapi.JSON), page(t, n.url("/openapi.json")))
	require.Contains(t, string(openapi.YAML), "/v1/videos/{videoId}/reaction")
	require.Equal(t, http.StatusOK, n.rest(t, restCall{Method: http.MethodHead, Path: "/openapi.yaml"}).Status)
}
