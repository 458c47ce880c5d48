package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/getkin/kin-openapi/openapi3"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func rulesOf(field *protogen.Field) *validate.FieldRules {
	rules, _ := proto.GetExtension(field.Desc.Options(), validate.E_Field).(*validate.FieldRules)
	return rules
}

// constrain says in a schema what the rules of a field say. A rule that it
// cannot say is an error: the document would promise too much.
func constrain(schema *openapi3.Schema, field *protogen.Field) error {
	if field == nil {
		return fmt.Errorf("%q is no field", schema.Title)
	}
	rules := rulesOf(field)
	for _, rule := range rules.GetCel() {
		if err := constrainCEL(schema, rule.GetExpression()); err != nil {
			return fmt.Errorf("%s: %w", field.Desc.Name(), err)
		}
	}
	for _, rule := range rules.GetRepeated().GetItems().GetCel() {
		if err := constrainCEL(schema.Items.Value, rule.GetExpression()); err != nil {
			return fmt.Errorf("%s: %w", field.Desc.Name(), err)
		}
	}
	if rules.GetString().HasMaxLen() {
		longest := rules.GetString().GetMaxLen()
		schema.MaxLength = &longest
	}
	// The only bound of numbers and durations is that they are not negative.
	switch {
	case field.Desc.Kind() == protoreflect.Int64Kind && rules.GetInt64().HasGte():
		schema.Pattern = "^[0-9]{1,19}$"
	case rules.GetDuration().HasGte():
		schema.Pattern = strings.Replace(schema.Pattern, "-?", "", 1)
	}
	return nil
}

var (
	matches = regexp.MustCompile(`^this\.matches\('(.*)'\)$`)
	sizes   = regexp.MustCompile(`^this\.size\(\) >= ([0-9]+) && this\.size\(\) <= ([0-9]+)$`)
	words   = regexp.MustCompile(`^this in \['(.*)'\]$`)
	numbers = regexp.MustCompile(`^this in \[[0-9, ]+\]$`)
)

// constrainCEL knows the forms in which this service's rules are written.
func constrainCEL(schema *openapi3.Schema, rule string) error {
	if found := matches.FindStringSubmatch(rule); found != nil {
		schema.Pattern = strings.ReplaceAll(found[1], `\\`, `\`)
		return nil
	}
	if found := words.FindStringSubmatch(rule); found != nil {
		for word := range strings.SplitSeq(found[1], "', '") {
			schema.Enum = append(schema.Enum, word)
		}
		return nil
	}
	if found := sizes.FindStringSubmatch(rule); found != nil {
		least, _ := strconv.ParseUint(found[1], 10, 64) // digits, by the pattern
		most, _ := strconv.ParseUint(found[2], 10, 64)
		schema.MinItems, schema.MaxItems = least, &most
		return nil
	}
	if numbers.MatchString(rule) && len(schema.Enum) > 0 {
		return nil // an enum, whose zero value is left out anyway
	}
	return fmt.Errorf("the rule %q has no form that is known here", rule)
}

// needed reports whether a request without the field breaks a rule: its zero
// value is none of those that are allowed.
func needed(field *protogen.Field) bool {
	for _, rule := range rulesOf(field).GetCel() {
		found := matches.FindStringSubmatch(rule.GetExpression())
		if found == nil {
			return true // all other forms refuse the zero value
		}
		pattern, err := regexp.Compile(strings.ReplaceAll(found[1], `\\`, `\`))
		if err != nil || !pattern.MatchString("") {
			return true
		}
	}
	return false
}
