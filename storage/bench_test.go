package storage_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"likewise/storage"
	"likewise/storage/storagetest"
)

// benched is a store with a few hundred videos that ann and others reacted to.
func benched(b *testing.B) (s *storage.Store, videos []storage.VideoID, places []storage.Place) {
	b.Helper()
	s = storagetest.Store(b)
	for i := range 300 {
		video := storage.VideoID(fmt.Sprintf("video-%d", i))
		_, err := s.Set(b.Context(), set(video, "ann", storage.Like))
		require.NoError(b, err)
		videos, places = append(videos, video), append(places, place(video))
	}
	return s, videos, places
}

func BenchmarkGet(b *testing.B) {
	s, _, places := benched(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p := places[i%len(places)]
		got, err := s.Get(b.Context(), p.Slot, p.Video, "ann")
		if err != nil || got.Reaction != storage.Like {
			b.Fatal(got, err)
		}
	}
}

func BenchmarkGetMany(b *testing.B) {
	s, _, places := benched(b)
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("videos=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				got, err := s.GetMany(b.Context(), "ann", places[:n])
				if err != nil || len(got) != n {
					b.Fatal(len(got), err)
				}
			}
		})
	}
}

func BenchmarkCountShards(b *testing.B) {
	s, videos, _ := benched(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		got, err := s.CountShards(b.Context(), videos[i%len(videos)])
		if err != nil || len(got.Shards) != 1 {
			b.Fatal(got, err)
		}
	}
}

func BenchmarkCountShardsOf(b *testing.B) {
	s, videos, _ := benched(b)
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("videos=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				got, err := s.CountShardsOf(b.Context(), videos[:n])
				if err != nil || len(got) != n {
					b.Fatal(len(got), err)
				}
			}
		})
	}
}
