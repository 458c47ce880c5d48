package check

import (
	"testing"

	"github.com/stretchr/testify/require"

	"likewise/storage"
)

func TestCountsThatAgreePass(t *testing.T) {
	t.Parallel()
	seven := storage.Tally{Likes: 7, Dislikes: 2}
	require.Empty(t, Count(nil))
	require.Empty(t, Count([]Counts{
		{Video: "cat", Shown: map[string]storage.Tally{"eu": seven, "us": seven}, Stored: seven, Rows: seven},
		{Video: "dog"},
	}))
}

func TestDriftIsFoundWhereItIs(t *testing.T) {
	t.Parallel()
	right, wrong := storage.Tally{Likes: 7, Dislikes: 2}, storage.Tally{Likes: 8, Dislikes: 2}
	violations := Count([]Counts{
		{Video: "cat", Shown: map[string]storage.Tally{"eu": right, "us": wrong}, Stored: right, Rows: right},
		{Video: "dog", Stored: wrong, Rows: right},
		{Video: "eel", Stored: storage.Tally{Likes: -1}, Rows: storage.Tally{Likes: -1}},
	})
	require.Equal(t, `drift: cat: shown in us: 8 likes, 2 dislikes; the rows say 7 likes, 2 dislikes
drift: dog: stored: 8 likes, 2 dislikes; the rows say 7 likes, 2 dislikes
negative count: eel: stored: -1 likes, 0 dislikes`, Report(violations))
}
