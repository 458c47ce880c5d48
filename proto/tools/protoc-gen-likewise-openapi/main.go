// protoc-gen-likewise-openapi describes REST as the .proto files annotate it, in
// OpenAPI 3. Paths, messages and comments come from gnostic's generator; from the
// rules of protovalidate come the constraints, and from edge.yaml what is the
// same for every call.
package main

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/gnostic/cmd/protoc-gen-openapi/generator"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	protogen.Options{}.Run(func(plugin *protogen.Plugin) error {
		plugin.SupportedFeatures = uint64(pluginpb.CodeGeneratorResponse_FEATURE_PROTO3_OPTIONAL)
		return generate(plugin)
	})
}

// generate writes openapi.yaml and openapi.json, which say the same.
func generate(plugin *protogen.Plugin) error {
	raw, err := pathsAndMessages(plugin)
	if err != nil {
		return err
	}
	doc, err := openapi3.NewLoader().LoadFromData(raw)
	if err != nil {
		return fmt.Errorf("read gnostic's document: %w", err)
	}
	if err := complete(doc, plugin.Files); err != nil {
		return err
	}
	return write(plugin, doc)
}

// pathsAndMessages is gnostic's part, in YAML.
func pathsAndMessages(plugin *protogen.Plugin) ([]byte, error) {
	empty, version, naming, enums := "", "v1", "json", "string"
	depth, no, mode := 2, false, "merged"
	gnostic := generator.NewOpenAPIv3Generator(plugin, generator.Configuration{
		Version: &version, Title: &empty, Description: &empty, Naming: &naming, FQSchemaNaming: &no,
		EnumType: &enums, CircularDepth: &depth, DefaultResponse: &no, OutputMode: &mode,
	}, plugin.Files)
	scratch := plugin.NewGeneratedFile("gnostic.yaml", "")
	scratch.Skip()
	if err := gnostic.Run(scratch); err != nil {
		return nil, fmt.Errorf("run gnostic's generator: %w", err)
	}
	return scratch.Content()
}

func write(plugin *protogen.Plugin, doc *openapi3.T) error {
	asJSON, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	var tree yaml.Node
	if err := yaml.Unmarshal(asJSON, &tree); err != nil { // JSON is YAML, and keeps its order
		return fmt.Errorf("read JSON: %w", err)
	}
	plain(&tree)
	readable(tree.Content[0])
	asYAML, err := yaml.Marshal(&tree)
	if err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	plugin.NewGeneratedFile("openapi.json", "").P(string(asJSON))
	plugin.NewGeneratedFile("openapi.yaml", "").P("# Generated from the .proto files by make generate. Do not edit.\n" + string(asYAML))
	return nil
}

// plain takes JSON's quotes and braces from a tree where YAML needs none.
func plain(node *yaml.Node) {
	node.Style = 0
	for _, child := range node.Content {
		plain(child)
	}
}

// readable puts the keys of the document into the order in which one reads it.
func readable(root *yaml.Node) {
	order := []string{"openapi", "info", "servers", "security", "tags", "paths", "components"}
	pairs := make([][]*yaml.Node, 0, len(root.Content)/2)
	for pair := range slices.Chunk(root.Content, 2) {
		pairs = append(pairs, pair)
	}
	slices.SortStableFunc(pairs, func(a, b []*yaml.Node) int {
		return slices.Index(order, a[0].Value) - slices.Index(order, b[0].Value)
	})
	root.Content = slices.Concat(pairs...)
}
