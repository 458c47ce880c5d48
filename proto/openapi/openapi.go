// Package openapi holds the description of REST in OpenAPI 3, as it is generated
// from the .proto files.
package openapi

import _ "embed"

// YAML and JSON are the same document. Nobody changes them.
var (
	//go:embed openapi.yaml
	YAML []byte
	//go:embed openapi.json
	JSON []byte
)
