package routing

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Reactions are stored under these slots: a change here needs a migration of
// every row there is. To recompute one:
//
//	printf '%s\0%s' cat alice | sha256sum | cut -c1-2                    (hexadecimal)
//	SELECT get_byte(sha256('cat'::bytea || '\x00'::bytea || 'alice'::bytea), 0)
func TestSlotOfGoldenVectors(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 128)
	for _, v := range []struct {
		video, user string
		want        Slot
	}{
		{"cat", "alice", 0x87},
		{"cat", "bob", 0xa5},
		{"dog", "alice", 0x55},
		{"a", "b", 0x59},
		{"ab", "c", 0x6c},
		{"a", "bc", 0x40},
		{"v:1|x", "u@example.com", 0x68},
		{"", "", 0x6e},
		{long, long, 0x29},
	} {
		require.Equal(t, v.want, SlotOf(v.video, v.user), "SlotOf(%q, %q)", v.video, v.user)
	}
}

func TestSlotOfKeepsIDsApart(t *testing.T) {
	t.Parallel()
	differ := 0
	for i := range 64 {
		s := fmt.Sprint(i)
		if SlotOf("v"+s, "u") != SlotOf("v", s+"u") {
			differ++
		}
	}
	require.Greater(t, differ, 56, "the border between video and user must count")
}

// R34: neither a hot video nor a busy user is a hot slot.
func TestSlotsAreBalanced(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[A-Za-z0-9._~:@+=,|-]{1,64}`).Draw(t, "name")
		key := rapid.SampledFrom([]func(int) (string, string){
			func(i int) (string, string) { return name, fmt.Sprintf("user-%d", i) },
			func(i int) (string, string) { return fmt.Sprintf("video-%d", i), name },
			func(i int) (string, string) { return fmt.Sprintf("%s-%d", name, i/7), fmt.Sprintf("%d-%s", i, name) },
		}).Draw(t, "one of video, user and both vary")

		const perSlot = 16
		var hits [Slots]float64
		for i := range Slots * perSlot {
			hits[SlotOf(key(i))]++
		}
		chi := 0.0
		for _, n := range hits {
			chi += (n - perSlot) * (n - perSlot) / perSlot
		}
		// 255 degrees of freedom: mean 255, standard deviation 22.6. A fair
		// hash is above 400 (6.4 deviations) about once in ten million runs.
		require.Less(t, chi, 400.0)
	})
}

func TestSlotOfAllocatesNothing(t *testing.T) {
	long := strings.Repeat("x", 128)
	require.Zero(t, testing.AllocsPerRun(100, func() { SlotOf(long, long) }))
}

func BenchmarkSlotOf(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if SlotOf("cat", "alice") != 0x87 {
			b.Fatal("wrong slot")
		}
	}
}
