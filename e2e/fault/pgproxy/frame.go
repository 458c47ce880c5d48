package pgproxy

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// headerSize is a message's type byte and its length, which counts itself.
const headerSize = 5

// maxFrameSize is the limit that PostgreSQL sets to a message (1 GiB).
const maxFrameSize = 1 << 30

var errFrameSize = errors.New("impossible message length")

// The types of the messages that the proxy looks into.
const (
	msgParse    = 'P'
	msgBind     = 'B'
	msgDescribe = 'D' // from the client
	msgExecute  = 'E' // from the client
	msgClose    = 'C' // from the client
	msgQuery    = 'Q'

	msgCommandComplete = 'C' // from the server
	msgBackendKeyData  = 'K' // from the server
	msgErrorResponse   = 'E' // from the server
	msgReadyForQuery   = 'Z'
)

// frame is one message as it stands on the wire, header included.
type frame []byte

func (f frame) kind() byte   { return f[0] }
func (f frame) body() []byte { return f[headerSize:] }

// readFrame reads one message. The frame belongs to the caller.
func readFrame(r *bufio.Reader) (frame, error) {
	header, err := r.Peek(headerSize)
	if err != nil {
		return nil, fmt.Errorf("reading a message: %w", err)
	}
	length := binary.BigEndian.Uint32(header[1:])
	if length < headerSize-1 || length > maxFrameSize {
		return nil, fmt.Errorf("message %q of %d bytes: %w", header[0], length, errFrameSize)
	}
	f := make(frame, length+1)
	if _, err := io.ReadFull(r, f); err != nil {
		return nil, fmt.Errorf("reading a message: %w", err)
	}
	return f, nil
}

// readFlush reads messages up to the next one that makes the server answer, or
// that stands outside the extended query protocol. With an error it returns
// what had come before it.
func readFlush(r *bufio.Reader) ([]frame, error) {
	var flush []frame
	for {
		f, err := readFrame(r)
		if err != nil {
			return flush, err
		}
		flush = append(flush, f)
		switch f.kind() {
		case msgParse, msgBind, msgDescribe, msgExecute, msgClose:
		default:
			return flush, nil
		}
	}
}

// join returns the bytes of all frames.
func join(frames []frame) []byte {
	var size int
	for _, f := range frames {
		size += len(f)
	}
	out := make([]byte, 0, size)
	for _, f := range frames {
		out = append(out, f...)
	}
	return out
}
