package routing

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// A gossip message is
//
//	version  1 byte
//	count    uvarint
//	nodes    count times: name, region, peer address, front address (each a
//	         uvarint length and that many bytes), incarnation, seq (uvarint),
//	         state (1 byte), topology epoch (uvarint), topology hash (8 bytes,
//	         big-endian), flags (1 byte: 1 settled; the others are ignored)
//
// A change of this layout takes a new version. Nodes ignore versions that they
// do not know, so a release must read the next version before another sends it.
const codecVersion = 1

const (
	// maxNodes bounds a message and a roster. A deployment of Likewise has a
	// dozen regions with a few nodes each.
	maxNodes = 1024
	// minNodeSize is the fewest bytes that a node takes: nine fields of a byte,
	// and a hash.
	minNodeSize = 17

	flagSettled = 1
)

var (
	errVersion   = errors.New("unknown version of a gossip message")
	errMalformed = errors.New("malformed gossip message")
)

// encode returns the message that says nodes. The nodes must be valid and at
// most maxNodes.
func encode(nodes []Node) []byte {
	buf := []byte{codecVersion}
	buf = binary.AppendUvarint(buf, uint64(len(nodes)))
	for _, n := range nodes {
		buf = appendNode(buf, n)
	}
	return buf
}

func appendNode(buf []byte, n Node) []byte {
	for _, s := range []string{n.Name, string(n.Region), n.PeerAddr, n.FrontAddr} {
		buf = binary.AppendUvarint(buf, uint64(len(s)))
		buf = append(buf, s...)
	}
	buf = binary.AppendUvarint(buf, n.Incarnation)
	buf = binary.AppendUvarint(buf, n.Seq)
	buf = append(buf, byte(n.State))
	buf = binary.AppendUvarint(buf, uint64(n.TopologyEpoch)) //nolint:gosec // a valid epoch is not negative
	buf = binary.BigEndian.AppendUint64(buf, n.TopologyHash)
	return append(buf, n.flags())
}

func (n Node) flags() (flags byte) {
	if n.Settled {
		flags |= flagSettled
	}
	return flags
}

// decode reads a message. It returns valid nodes or an error, never some of the
// nodes; it allocates no more than the message is long, a few times over, and
// keeps no reference to buf.
func decode(buf []byte) ([]Node, error) {
	r := reader{buf: buf}
	if version := r.byte(); r.bad || version != codecVersion {
		return nil, errVersion
	}
	count := r.uvarint()
	if r.bad || count > maxNodes || count*minNodeSize > uint64(len(r.buf)) {
		return nil, errMalformed
	}
	nodes := make([]Node, 0, count)
	for range count {
		n := r.node()
		if r.bad {
			return nil, errMalformed
		}
		if err := n.Validate(); err != nil {
			return nil, fmt.Errorf("%w: %w", errMalformed, err)
		}
		nodes = append(nodes, n)
	}
	if len(r.buf) > 0 {
		return nil, errMalformed
	}
	return nodes, nil
}

// reader consumes buf. After the first thing that is not there it is bad, and
// reads zeros.
type reader struct {
	buf []byte
	bad bool
}

func (r *reader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.buf)) {
		r.bad = true
		return nil
	}
	taken := r.buf[:n]
	r.buf = r.buf[n:]
	return taken
}

func (r *reader) byte() byte {
	b := r.take(1)
	if r.bad {
		return 0
	}
	return b[0]
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.buf)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.take(uint64(n))
	return v
}

func (r *reader) string() string { return string(r.take(r.uvarint())) }

func (r *reader) int64() int64 {
	v := r.uvarint()
	if v > math.MaxInt64 {
		r.bad = true
		return 0
	}
	return int64(v)
}

func (r *reader) uint64() uint64 {
	b := r.take(8)
	if r.bad {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func (r *reader) node() Node {
	return Node{
		Name:          r.string(),
		Region:        Region(r.string()),
		PeerAddr:      r.string(),
		FrontAddr:     r.string(),
		Incarnation:   r.uvarint(),
		Seq:           r.uvarint(),
		State:         State(r.byte()),
		TopologyEpoch: r.int64(),
		TopologyHash:  r.uint64(),
		Settled:       r.byte()&flagSettled != 0,
	}
}
