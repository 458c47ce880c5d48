package storage

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// R31: a video heats up and cools down by what its commits do.
func TestHeat(t *testing.T) {
	t.Parallel()
	const held = 5 * time.Millisecond
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	// write lets a video have n writes a second for three seconds.
	write := func(h *heat, video VideoID, from time.Time, n int) time.Time {
		for i := range 3 * n {
			from = from.Add(time.Second / time.Duration(n))
			h.observe([]change{{key: key{video: video}, offset: int64(i)}}, held, from)
		}
		return from
	}

	t.Run("commits that overlap are counted apart, others together", func(t *testing.T) {
		t.Parallel()
		h := newHeat()
		now := write(h, "hot", start, 200) // 200/s for 5 ms each: one at a time, all the time
		write(h, "cold", now, 10)
		require.Equal(t, Slot(7), h.slot("hot", 7, 0))
		require.Equal(t, Slot(0), h.slot("cold", 7, 0))
		require.Equal(t, Slot(0), h.slot("never seen", 7, 0))
	})

	t.Run("between the bounds a video stays what it was", func(t *testing.T) {
		t.Parallel()
		h := newHeat()
		now := write(h, "cat", start, 40)
		require.Equal(t, Slot(0), h.slot("cat", 7, 0))
		now = write(h, "cat", now, 200)
		now = write(h, "cat", now, 40)
		require.Equal(t, Slot(7), h.slot("cat", 7, 0))
		write(h, "cat", now, 5)
		require.Equal(t, Slot(0), h.slot("cat", 7, 0))
	})

	t.Run("memory is bounded", func(t *testing.T) {
		t.Parallel()
		h := newHeat()
		for i := range 3 * heatVideos {
			h.observe([]change{{key: key{video: VideoID(fmt.Sprint(i))}}}, held, start.Add(time.Duration(i)*time.Millisecond))
		}
		require.LessOrEqual(t, len(h.videos), heatVideos)
	})
}
