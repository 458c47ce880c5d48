package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

func load(t *testing.T, data []byte) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(data)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func committed(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("../../openapi/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestTheDocumentIsValid(t *testing.T) {
	if err := load(t, committed(t)).Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// What `make lint` asks notices a document that is broken.
func TestTheValidatorNoticesABrokenDocument(t *testing.T) {
	for name, change := range map[string][2]string{
		"a parameter that the path has not": {"/v1/videos/{videoId}/state:", "/v1/videos/{video}/state:"},
		"a reference to nothing":            {"#/components/responses/TooLarge", "#/components/responses/TooSmall"},
		"an unknown type":                   {"type: boolean", "type: truth"},
		"a pattern that is none":            {"[A-Za-z0-9._~:@+=,|-]{1,128}", "[A-Za-z0-9._~:@+=,|-{1,128}"},
	} {
		broken := strings.ReplaceAll(string(committed(t)), change[0], change[1])
		if broken == string(committed(t)) {
			t.Errorf("%s: %q is not in the document", name, change[0])
		}
		doc, err := openapi3.NewLoader().LoadFromData([]byte(broken))
		if err == nil {
			err = doc.Validate(t.Context())
		}
		if err == nil {
			t.Errorf("%s: not noticed", name)
		}
	}
}

func TestWhatTheProtosDoNotSay(t *testing.T) {
	doc := load(t, committed(t))
	put := doc.Paths.Value("/v1/videos/{videoId}/reaction").Put
	body := put.RequestBody.Value.Content["application/json"].Schema.Value
	if body.Properties["videoId"] != nil || *body.AdditionalProperties.Has {
		t.Error("the body holds what is in the path, or what is unknown")
	}
	for _, header := range []string{"Idempotency-Key", "If-Match", "If-None-Match"} {
		if put.Parameters.GetByInAndName("header", header) == nil {
			t.Errorf("a write has no header %s", header)
		}
	}
	for _, status := range []string{"409", "410", "412", "413", "415", "422"} {
		answer := put.Responses.Value(status)
		if answer == nil || answer.Value.Content["application/problem+json"] == nil {
			t.Errorf("a write has no problem %s", status)
		}
	}
	if counts := doc.Paths.Value("/v1/videos/{videoId}/reaction-counts").Get; len(*counts.Security) != 2 {
		t.Error("counts need a token")
	}
	for name, schema := range doc.Components.Schemas {
		for field, property := range schema.Value.Properties {
			for _, value := range property.Value.Enum {
				if strings.HasSuffix(fmt.Sprint(value), "_UNSPECIFIED") {
					t.Errorf("%s.%s can be %s", name, field, value)
				}
			}
		}
	}
}

func TestConstrainCEL(t *testing.T) {
	enum := func() *openapi3.Schema { return &openapi3.Schema{Enum: []any{"A"}} }
	for rule, check := range map[string]func(*openapi3.Schema) bool{
		`this.matches('^[a-z]{1,2}$')`:             func(s *openapi3.Schema) bool { return s.Pattern == `^[a-z]{1,2}$` },
		`this.matches('^[\\x21-\\x7e]*$')`:         func(s *openapi3.Schema) bool { return s.Pattern == `^[\x21-\x7e]*$` },
		`this.size() >= 1 && this.size() <= 100`:   func(s *openapi3.Schema) bool { return s.MinItems == 1 && *s.MaxItems == 100 },
		`this in ['like', 'none']`:                 func(s *openapi3.Schema) bool { return len(s.Enum) == 3 && s.Enum[2] == "none" },
		`this in [1, 2]`:                           func(s *openapi3.Schema) bool { return len(s.Enum) == 1 },
		`this > 7`:                                 nil,
		`this.startsWith('a') && this.size() < 10`: nil,
	} {
		schema := enum()
		err := constrainCEL(schema, rule)
		if (err == nil) != (check != nil) {
			t.Errorf("%s: %v", rule, err)
			continue
		}
		if check != nil && !check(schema) {
			t.Errorf("%s: %+v", rule, schema)
		}
	}
}
