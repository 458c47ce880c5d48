package demo

import (
	"context"
	"maps"
	"slices"

	"likewise/e2e/traffic"
	"likewise/storage"
)

// statesAtOnce is how many videos' states are read in one statement.
const statesAtOnce = 100

// states reads the states of videos, beside their counts.
type states interface {
	CountShardsOf(context.Context, []storage.VideoID) ([]storage.CountShards, error)
}

// deletedOf returns those of some videos that somebody has deleted while the demo
// ran: no node shows anything of them, so there is nothing to compare.
func deletedOf(ctx context.Context, from states, videos map[storage.VideoID]bool) (map[storage.VideoID]bool, error) {
	gone := make(map[storage.VideoID]bool)
	for some := range slices.Chunk(slices.Sorted(maps.Keys(videos)), statesAtOnce) {
		read, err := from.CountShardsOf(ctx, some)
		if err != nil {
			return nil, err
		}
		for i, counts := range read {
			if counts.Video == storage.VideoDeleted {
				gone[some[i]] = true
			}
		}
	}
	return gone, nil
}

// readable leaves out the operations on videos that were deleted.
func readable(ctx context.Context, from states, ops []traffic.Op) ([]traffic.Op, error) {
	videos := make(map[storage.VideoID]bool)
	for _, key := range traffic.Keys(ops) {
		videos[storage.VideoID(key.Video)] = true
	}
	gone, err := deletedOf(ctx, from, videos)
	return slices.DeleteFunc(slices.Clone(ops), func(op traffic.Op) bool { return gone[storage.VideoID(op.Key.Video)] }), err
}
