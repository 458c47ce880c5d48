package regions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// faultInJSON finds out why data is not a message of that type in JSON. It is
// called once that is certain, and reads the data again, in its own way: the
// library's errors name no field that one could rely on.
func faultInJSON(data []byte, desc protoreflect.MessageDescriptor) *fault {
	if len(bytes.TrimSpace(data)) == 0 {
		return &fault{Say: "the body is empty: send a JSON object with " + fieldNames(desc)}
	}
	if at := notUTF8(data); at >= 0 {
		return &fault{Say: fmt.Sprintf("the body is not UTF-8 at byte %d: send JSON in UTF-8", at)}
	}
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		return &fault{Say: fmt.Sprintf("the body is not JSON from byte %d on: send a JSON object", offsetOf(err, data))}
	}
	if why := faultInObject(whole, desc); why != nil {
		return why
	}
	return &fault{Say: fmt.Sprintf("the body is no %s in JSON: see /openapi.yaml", desc.Name())}
}

// notUTF8 returns where data is not UTF-8, or -1.
func notUTF8(data []byte) int {
	for at := 0; at < len(data); {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return -1
}

func offsetOf(err error, data []byte) int64 {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return syntax.Offset
	}
	return int64(len(data))
}

func faultInObject(raw json.RawMessage, desc protoreflect.MessageDescriptor) *fault {
	dec := json.NewDecoder(bytes.NewReader(raw)) // of what is JSON: it does not fail
	if begin, _ := dec.Token(); begin != json.Delim('{') {
		return &fault{Say: "the body is not a JSON object: send one with " + fieldNames(desc)}
	}
	seen := make(map[protoreflect.Name]bool)
	for dec.More() {
		key, _ := dec.Token()
		name, _ := key.(string)
		var value json.RawMessage
		_ = dec.Decode(&value)
		field := fieldCalled(desc, name)
		switch {
		case field == nil:
			return &fault{Field: short(name), Say: "is unknown: this takes " + fieldNames(desc)}
		case seen[field.Name()]:
			return &fault{Field: field.JSONName(), Say: "is there twice: send it once"}
		}
		seen[field.Name()] = true
		if why := faultInField(value, field); why != nil {
			return why
		}
	}
	return nil
}

// short keeps what a caller made up from making an answer long.
func short(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

func fieldCalled(desc protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if field := desc.Fields().ByJSONName(name); field != nil {
		return field
	}
	return desc.Fields().ByTextName(name)
}

func fieldNames(desc protoreflect.MessageDescriptor) string {
	names := make([]string, desc.Fields().Len())
	for i := range names {
		names[i] = desc.Fields().Get(i).JSONName()
	}
	return strings.Join(names, ", ")
}

func faultInField(raw json.RawMessage, field protoreflect.FieldDescriptor) *fault {
	if string(raw) == "null" {
		return nil // as if it were not there
	}
	if !field.IsList() {
		return faultInValue(raw, field)
	}
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return &fault{Field: field.JSONName(), Say: "must be a JSON array"}
	}
	for i, item := range items {
		if why := faultInValue(item, field); why != nil {
			return &fault{Field: fmt.Sprintf("%s[%d]", why.Field, i), Say: why.Say}
		}
	}
	return nil
}

func faultInValue(raw json.RawMessage, field protoreflect.FieldDescriptor) *fault {
	var probe proto.Message
	var want string
	switch field.Kind() {
	case protoreflect.EnumKind:
		if isEnum(raw, field.Enum()) {
			return nil
		}
		want = "must be " + enumNames(field.Enum())
	case protoreflect.StringKind:
		probe, want = &wrapperspb.StringValue{}, "must be a string of valid Unicode"
	case protoreflect.Int64Kind:
		probe, want = &wrapperspb.Int64Value{}, "must be a whole number of 64 bits"
	case protoreflect.BoolKind:
		probe, want = &wrapperspb.BoolValue{}, "must be true or false"
	case protoreflect.MessageKind:
		probe, want = &durationpb.Duration{}, `must be a duration in seconds, such as "1.5s"`
	default:
		return nil // no request has another
	}
	if probe != nil && protojson.Unmarshal(raw, probe) == nil {
		return nil
	}
	return &fault{Field: field.JSONName(), Say: want}
}

func isEnum(raw json.RawMessage, enum protoreflect.EnumDescriptor) bool {
	var name string
	return json.Unmarshal(raw, &name) == nil && enum.Values().ByName(protoreflect.Name(name)) != nil
}

// enumNames lists what may be said; the zero value stands for nothing said.
func enumNames(enum protoreflect.EnumDescriptor) string {
	var names []string
	for i := range enum.Values().Len() {
		if value := enum.Values().Get(i); value.Number() != 0 {
			names = append(names, string(value.Name()))
		}
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
