package routing

import (
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// genNode draws entries from a small world, so that names, incarnations and
// whole stamps meet often.
func genNode() *rapid.Generator[Node] {
	return rapid.Custom(func(t *rapid.T) Node {
		return Node{
			Name:          rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "name"),
			Region:        rapid.SampledFrom([]Region{"eu", "us", "ap"}).Draw(t, "region"),
			PeerAddr:      rapid.SampledFrom([]string{"", "127.0.0.1:1", "127.0.0.2:2"}).Draw(t, "peer"),
			FrontAddr:     rapid.SampledFrom([]string{"", "127.0.0.1:8"}).Draw(t, "front"),
			Incarnation:   rapid.Uint64Range(1, 3).Draw(t, "incarnation"),
			Seq:           rapid.Uint64Range(0, 2).Draw(t, "seq"),
			State:         rapid.SampledFrom([]State{Joining, Ready, Leaving}).Draw(t, "state"),
			TopologyEpoch: rapid.Int64Range(0, 2).Draw(t, "epoch"),
			TopologyHash:  rapid.Uint64Range(0, 2).Draw(t, "hash"),
			Settled:       rapid.Bool().Draw(t, "settled"),
		}
	})
}

func threeRegions(tb testing.TB, epoch int64) Topology {
	tb.Helper()
	topology, err := NewTopology(epoch, Contiguous([]Region{"a", "b", "c"}))
	if err != nil {
		tb.Fatal(err)
	}
	return topology
}
