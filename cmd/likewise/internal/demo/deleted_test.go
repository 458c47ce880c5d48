package demo

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"likewise/e2e/traffic"
	"likewise/storage"
)

// withDeleted is a database in which one video is deleted.
type withDeleted storage.VideoID

func (w withDeleted) CountShardsOf(_ context.Context, videos []storage.VideoID) ([]storage.CountShards, error) {
	if len(videos) > statesAtOnce {
		return nil, fmt.Errorf("asked for %d at once", len(videos))
	}
	read := make([]storage.CountShards, len(videos))
	for i, video := range videos {
		if video == storage.VideoID(w) {
			read[i].Video = storage.VideoDeleted
		}
	}
	return read, nil
}

func TestADeletedVideoIsLeftOutOfTheChecks(t *testing.T) {
	t.Parallel()

	videos := make(map[storage.VideoID]bool)
	var ops []traffic.Op
	for i := range 2*statesAtOnce + 1 {
		video := fmt.Sprintf("video-%04d", i)
		videos[storage.VideoID(video)] = true
		ops = append(ops, traffic.Op{Key: traffic.Key{Video: video, User: "alice"}})
	}
	gone, err := deletedOf(t.Context(), withDeleted("video-0150"), videos)
	require.NoError(t, err)
	require.Equal(t, map[storage.VideoID]bool{"video-0150": true}, gone)

	kept, err := readable(t.Context(), withDeleted("video-0150"), ops)
	require.NoError(t, err)
	require.Len(t, kept, len(ops)-1)
	require.Len(t, ops, 2*statesAtOnce+1, "the history stays as it is")
	for _, op := range kept {
		require.NotEqual(t, "video-0150", op.Key.Video)
	}
}
