package regions

import (
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// jsonCodec is Connect's codec for JSON, except that it writes fields of value
// zero: people who read {"likes":"5"} look for the dislikes.
type jsonCodec struct{ name string }

var errNotProto = errors.New("not a protobuf message")

// withJSON replaces the codec under both names that Connect gives it.
func withJSON() connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithCodec(jsonCodec{name: "json"}),
		connect.WithCodec(jsonCodec{name: "json; charset=utf-8"}),
	)
}

func (c jsonCodec) Name() string { return c.name }

func (c jsonCodec) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

func (c jsonCodec) MarshalAppend(dst []byte, message any) ([]byte, error) {
	msg, ok := message.(proto.Message)
	if !ok {
		return nil, errNotProto
	}
	return protojson.MarshalOptions{EmitDefaultValues: true}.MarshalAppend(dst, msg)
}

// Unmarshal refuses fields that it does not know: a condition that was spelt
// wrong must not become a write without one.
func (c jsonCodec) Unmarshal(data []byte, message any) error {
	msg, ok := message.(proto.Message)
	if !ok {
		return errNotProto
	}
	if len(data) == 0 {
		return errors.New("the body is empty: send a JSON object")
	}
	if err := protojson.Unmarshal(data, msg); err != nil {
		return fmt.Errorf("read the body: %w", err)
	}
	return nil
}
