package regions

import (
	"encoding/json"
	"errors"
	"fmt"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// withCodecs makes the front door read strictly and write what people look for:
// see jsonCodec and protoCodec.
func withCodecs() connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithCodec(protoCodec{}),
		connect.WithCodec(jsonCodec{name: "json"}),
		connect.WithCodec(jsonCodec{name: "json; charset=utf-8"}),
	)
}

// fault is why a message cannot be read. Field, in JSON's spelling, may be empty.
type fault struct{ Field, Say string }

func (f *fault) Error() string {
	if f.Field == "" {
		return f.Say
	}
	return fmt.Sprintf("the field %q %s", f.Field, f.Say)
}

// toConnect gives a fault of a field the details that a broken rule has.
func (f *fault) toConnect() *connect.Error {
	if f.Field == "" {
		return public(connect.CodeInvalidArgument, f.Error())
	}
	return public(connect.CodeInvalidArgument, f.Error(), &validate.Violations{Violations: []*validate.Violation{{
		Field:   &validate.FieldPath{Elements: []*validate.FieldPathElement{{FieldName: new(f.Field)}}},
		RuleId:  new("readable"),
		Message: new(f.Say),
	}}})
}

var errNotProto = errors.New("not a protobuf message")

// jsonCodec is Connect's codec for JSON, except that it writes fields of value
// zero: people who read {"likes":"5"} look for the dislikes. And it refuses
// fields that it does not know: a condition that was spelt wrong must not become
// a write without one.
type jsonCodec struct{ name string }

// Name is what the codec is called in content types.
func (c jsonCodec) Name() string { return c.name }

// Marshal returns message as JSON.
func (c jsonCodec) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

// MarshalAppend appends message as JSON to dst.
func (c jsonCodec) MarshalAppend(dst []byte, message any) ([]byte, error) {
	msg, ok := message.(proto.Message)
	if !ok {
		return nil, errNotProto
	}
	return protojson.MarshalOptions{EmitDefaultValues: true}.MarshalAppend(dst, msg)
}

// Unmarshal never fails for what a caller sent: see markUnread.
func (c jsonCodec) Unmarshal(data []byte, message any) error {
	msg, ok := message.(proto.Message)
	if !ok {
		return errNotProto
	}
	if why := readJSON(data, msg); why != nil {
		markUnread(msg, why)
	}
	return nil
}

func readJSON(data []byte, msg proto.Message) *fault {
	if len(data) > maxBody {
		return &fault{Say: errTooLarge.Error()}
	}
	if err := protojson.Unmarshal(data, msg); err != nil {
		return faultInJSON(data, msg.ProtoReflect().Descriptor())
	}
	return numberForName(data, msg.ProtoReflect().Descriptor())
}

// numberForName refuses the number of an enum's value, which protobuf takes for
// its name: whoever sends 1 for a like would take one back.
func numberForName(data []byte, desc protoreflect.MessageDescriptor) *fault {
	var members map[string]json.RawMessage
	for i := range desc.Fields().Len() {
		field := desc.Fields().Get(i)
		if field.Kind() != protoreflect.EnumKind {
			continue
		}
		if members == nil {
			_ = json.Unmarshal(data, &members) // it was read before
		}
		for _, name := range []string{field.JSONName(), string(field.Name())} {
			if raw := members[name]; len(raw) > 0 && raw[0] != '"' && raw[0] != 'n' {
				return faultInValue(raw, field)
			}
		}
	}
	return nil
}

// protoCodec is Connect's codec for protobuf, except that it refuses fields that
// it does not know, as jsonCodec does.
type protoCodec struct{}

// Name is what the codec is called in content types.
func (protoCodec) Name() string { return "proto" }

// IsBinary tells Connect that a message in a query is in base64.
func (protoCodec) IsBinary() bool { return true }

// Marshal returns message in the wire format.
func (c protoCodec) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

// MarshalAppend appends message in the wire format to dst.
func (protoCodec) MarshalAppend(dst []byte, message any) ([]byte, error) {
	msg, ok := message.(proto.Message)
	if !ok {
		return nil, errNotProto
	}
	return proto.MarshalOptions{}.MarshalAppend(dst, msg)
}

// Unmarshal never fails for what a caller sent: see markUnread.
func (protoCodec) Unmarshal(data []byte, message any) error {
	msg, ok := message.(proto.Message)
	if !ok {
		return errNotProto
	}
	if why := readProto(data, msg); why != nil {
		markUnread(msg, why)
	}
	return nil
}

func readProto(data []byte, msg proto.Message) *fault {
	name := msg.ProtoReflect().Descriptor().Name()
	if len(data) > maxBody {
		return &fault{Say: errTooLarge.Error()}
	}
	if err := proto.Unmarshal(data, msg); err != nil {
		return &fault{Say: fmt.Sprintf("the message is no %s in protobuf's wire format: encode it by this service's .proto", name)}
	}
	number := unknownIn(msg.ProtoReflect())
	field := msg.ProtoReflect().Descriptor().Fields().ByNumber(number)
	if field != nil && len(msg.ProtoReflect().GetUnknown()) > 0 { // otherwise the number is of a message in it
		return &fault{Say: fmt.Sprintf("the %s has its field %s (number %d) in another type: encode it by this service's .proto", name, field.Name(), number)}
	}
	if number != 0 {
		return &fault{Say: fmt.Sprintf("the %s has a field number %d, which this server does not know: leave it out", name, number)}
	}
	return nil
}

// unknownIn returns the number of a field that is in msg and not in its type, or
// 0. Requests nest no lists of messages.
func unknownIn(msg protoreflect.Message) protowire.Number {
	if unknown := msg.GetUnknown(); len(unknown) > 0 {
		number, _, _ := protowire.ConsumeTag(unknown)
		return number
	}
	fields := msg.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if field.Message() == nil || field.IsList() || field.IsMap() || !msg.Has(field) {
			continue
		}
		if number := unknownIn(msg.Get(field).Message()); number != 0 {
			return number
		}
	}
	return 0
}

const (
	unreadSay   = protowire.MaxValidNumber
	unreadField = protowire.MaxValidNumber - 1
)

// markUnread empties msg and leaves in it why it could not be read, for
// refuseUnread. If a codec failed, Connect would answer before the interceptors:
// unmapped, uncounted, and with its own words before ours. No caller can leave
// such a mark, because the codecs refuse what they do not know.
func markUnread(msg proto.Message, why *fault) {
	proto.Reset(msg)
	mark := protowire.AppendTag(nil, unreadSay, protowire.BytesType)
	mark = protowire.AppendString(mark, why.Say)
	mark = protowire.AppendTag(mark, unreadField, protowire.BytesType)
	msg.ProtoReflect().SetUnknown(protowire.AppendString(mark, why.Field))
}

// unread returns the fault that markUnread left in a message, or nil.
func unread(message any) *fault {
	msg, ok := message.(proto.Message)
	if !ok {
		return nil
	}
	mark := msg.ProtoReflect().GetUnknown()
	if len(mark) == 0 {
		return nil
	}
	why := new(fault)
	for len(mark) > 0 {
		number, _, n := protowire.ConsumeTag(mark)
		text, m := protowire.ConsumeString(mark[max(n, 0):])
		if n < 0 || m < 0 {
			break // never: it is our own
		}
		mark = mark[n+m:]
		if number == unreadSay {
			why.Say = text
		} else {
			why.Field = text
		}
	}
	return why
}
