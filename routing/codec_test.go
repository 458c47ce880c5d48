package routing

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestMessagesSurviveTheirEncoding(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.SliceOfN(genNode(), 0, 20).Draw(t, "nodes")
		decoded, err := decode(encode(nodes))
		require.NoError(t, err)
		require.ElementsMatch(t, nodes, decoded)
	})
}

const golden = "\x01\x01\x03a-1\x01a\x03p:1\x03f:2\xac\x02\x02\x01\x07\x00\x00\x00\x00\x00\x00\x01\x02\x01"

// The layout is what other releases read.
func TestMessageGoldenBytes(t *testing.T) {
	t.Parallel()
	n := Node{Name: "a-1", Region: "a", PeerAddr: "p:1", FrontAddr: "f:2", Incarnation: 300, Seq: 2, State: Ready, TopologyEpoch: 7, TopologyHash: 258, Settled: true}
	require.Equal(t, golden, string(encode([]Node{n})))
}

func TestTheLargestEntryFitsAPacket(t *testing.T) {
	t.Parallel()
	n := Node{
		Name: strings.Repeat("n", maxNodeName), Region: Region(strings.Repeat("r", maxRegion)),
		PeerAddr: strings.Repeat("p", maxAddr), FrontAddr: strings.Repeat("f", maxAddr),
		Incarnation: math.MaxUint64, Seq: math.MaxUint64, State: Leaving, TopologyEpoch: math.MaxInt64, TopologyHash: math.MaxUint64, Settled: true,
	}
	require.NoError(t, n.Validate())
	message := encode([]Node{n})
	require.Less(t, len(message), 1000, "memberlist's packets hold 1400 bytes, with its own part")
	decoded, err := decode(message)
	require.NoError(t, err)
	require.Equal(t, []Node{n}, decoded)
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	good := encode([]Node{{Name: "a", Region: "r", Incarnation: 1}})
	huge := binary.AppendUvarint([]byte{codecVersion}, math.MaxUint64)
	for name, c := range map[string]struct {
		message []byte
		want    error
	}{
		"nothing":                    {nil, errVersion},
		"another version":            {[]byte{codecVersion + 1, 0}, errVersion},
		"a cut message":              {good[:len(good)-1], errMalformed},
		"bytes after the end":        {append(slices.Clip(good), 0), errMalformed},
		"a count beyond the bytes":   {huge, errMalformed},
		"an entry without a name":    {encode([]Node{{Region: "r", Incarnation: 1}}), errMalformed},
		"an entry that says dead":    {encode([]Node{{Name: "a", Region: "r", Incarnation: 1, State: Dead}}), errMalformed},
		"an incarnation never drawn": {encode([]Node{{Name: "a", Region: "r"}}), errMalformed},
	} {
		nodes, err := decode(c.message)
		require.ErrorIs(t, err, c.want, name)
		require.Empty(t, nodes, name)
	}
}

// Whatever arrives: no panic, and what is accepted is valid and means the same
// after another hop.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add(encode(nil))
	f.Add(encode(sixNodes()))
	f.Add([]byte{codecVersion, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte(golden))
	f.Add([]byte(golden[:len(golden)-1] + "\xff")) // flags of a later release
	f.Fuzz(func(t *testing.T, message []byte) {
		nodes, err := decode(message)
		if err != nil {
			require.Empty(t, nodes)
			return
		}
		require.LessOrEqual(t, len(nodes), maxNodes)
		for _, n := range nodes {
			require.NoError(t, n.Validate())
		}
		again, err := decode(encode(nodes))
		require.NoError(t, err)
		require.Equal(t, nodes, again)
	})
}
