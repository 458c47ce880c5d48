package storage_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"likewise/storage"
	"likewise/storage/storagetest"
)

// mark gives a video a reaction of ann's: the i-th of a cycle, or none.
func mark(t *testing.T, s *storage.Store, video storage.VideoID, i int) storage.State {
	t.Helper()
	got, err := s.Set(t.Context(), set(video, "ann", storage.Reaction(i%3)))
	require.NoError(t, err)
	return storage.State{Reaction: got.Reaction, Version: got.Version}
}

func place(video storage.VideoID) storage.Place {
	return storage.Place{Slot: slotOf(video, "ann"), Video: video}
}

// R11: a batch of reactions is what single reads say, in the order asked for.
func TestGetMany(t *testing.T) {
	t.Parallel()
	s := storagetest.Store(t)
	var places []storage.Place
	var want []storage.Reading
	for i := range 100 {
		video := storage.VideoID(fmt.Sprintf("video-%d", 7*i%100)) // not in the order of the bytes
		places = append(places, place(video))
		want = append(want, storage.Reading{State: mark(t, s, video, i), Video: storage.VideoActive})
	}
	setState(t, s, places[10].Video, storage.VideoDisabled)
	setState(t, s, places[20].Video, storage.VideoDeleted)
	want[10].Video, want[20].Video = storage.VideoDisabled, storage.VideoDeleted

	t.Run("a hundred", func(t *testing.T) {
		t.Parallel()
		got, err := s.GetMany(t.Context(), "ann", places)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
	t.Run("the other way round, some twice", func(t *testing.T) {
		t.Parallel()
		asked, expected := append(slices.Clone(places), places[:30]...), append(slices.Clone(want), want[:30]...)
		slices.Reverse(asked)
		slices.Reverse(expected)
		got, err := s.GetMany(t.Context(), "ann", asked)
		require.NoError(t, err)
		require.Equal(t, expected, got)
	})
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		got, err := s.GetMany(t.Context(), "ann", nil)
		require.NoError(t, err)
		require.Empty(t, got)
	})
	t.Run("of somebody else, and of videos that nobody reacted to", func(t *testing.T) {
		t.Parallel()
		got, err := s.GetMany(t.Context(), "bob", []storage.Place{place("nowhere"), places[1]})
		require.NoError(t, err)
		require.Equal(t, []storage.Reading{{Video: storage.VideoActive}, {Video: storage.VideoActive}}, got)
	})
	t.Run("single reads agree", func(t *testing.T) {
		t.Parallel()
		for i, p := range places[:25] {
			got, err := s.Get(t.Context(), p.Slot, p.Video, "ann")
			var deleted *storage.VideoDeletedError
			if want[i].Video == storage.VideoDeleted {
				require.ErrorAs(t, err, &deleted)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, want[i].State, got)
		}
	})
}

func sum(c storage.CountShards) (total storage.Tally) {
	for _, shard := range c.Shards {
		total.Likes += shard.Likes
		total.Dislikes += shard.Dislikes
	}
	return total
}

// R11: a batch of counts is what single reads say, in the order asked for and
// of one moment.
func TestCountShardsOf(t *testing.T) {
	t.Parallel()
	s := storagetest.Store(t)
	var videos []storage.VideoID
	for i := range 100 {
		video := storage.VideoID(fmt.Sprintf("video-%d", 7*i%100))
		videos = append(videos, video)
		for user := range i % 4 { // some have no counter shard
			_, err := s.Set(t.Context(), set(video, storage.UserID(fmt.Sprintf("user-%d", user)), storage.Reaction(1+user%2)))
			require.NoError(t, err)
		}
	}
	setState(t, s, videos[10], storage.VideoDisabled)
	setState(t, s, videos[20], storage.VideoDeleted)

	t.Run("a hundred", func(t *testing.T) {
		t.Parallel()
		got, err := s.CountShardsOf(t.Context(), videos)
		require.NoError(t, err)
		require.Len(t, got, 100)
		for i, c := range got {
			single, err := s.CountShards(t.Context(), videos[i])
			require.NoError(t, err)
			require.ElementsMatch(t, single.Shards, c.Shards, videos[i])
			require.Equal(t, single.Video, c.Video)
			require.Equal(t, got[0].AsOf, c.AsOf, "one moment")
			require.False(t, single.AsOf.Before(c.AsOf), "a later read is not of an earlier moment")
			require.Equal(t, storage.Tally{Likes: int64((i%4 + 1) / 2), Dislikes: int64(i % 4 / 2)}, sum(c))
		}
		require.Equal(t, storage.VideoDisabled, got[10].Video)
		require.Equal(t, storage.VideoDeleted, got[20].Video)
	})
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		got, err := s.CountShardsOf(t.Context(), nil)
		require.NoError(t, err)
		require.Empty(t, got)
	})
	t.Run("a video that nobody reacted to has counts as of now", func(t *testing.T) {
		t.Parallel()
		now, err := s.Now(t.Context())
		require.NoError(t, err)
		got, err := s.CountShardsOf(t.Context(), []storage.VideoID{"nowhere", videos[3], "elsewhere"})
		require.NoError(t, err)
		require.Len(t, got, 3)
		for _, c := range []storage.CountShards{got[0], got[2]} {
			require.Empty(t, c.Shards)
			require.Equal(t, storage.VideoActive, c.Video)
			require.False(t, c.AsOf.Before(now))
		}
		require.Equal(t, storage.Tally{Likes: 2, Dislikes: 1}, sum(got[1]))
	})
}

// acknowledged is a write of the n-th like of each of two videos, the first
// before the second.
type acknowledged struct {
	at time.Time
	n  int64
}

// R17, R18: under writes, a batch of counts is of one snapshot, and it includes
// what was acknowledged before its as-of, as a single read does.
func TestCountsIncludeWhatWasAcknowledgedBeforeTheirAsOf(t *testing.T) {
	t.Parallel()
	url := storagetest.URL(t)
	writer, reader := storagetest.Open(t, url), storagetest.Open(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var acks []acknowledged // written until wg is done, read afterwards
	wg.Go(func() {
		defer cancel()
		for n := range int64(150) {
			user := storage.UserID(fmt.Sprintf("user-%d", n))
			_, err := writer.Set(t.Context(), set("first", user, storage.Like))
			require.NoError(t, err)
			second, err := writer.Set(t.Context(), set("second", user, storage.Like))
			require.NoError(t, err)
			acks = append(acks, acknowledged{second.CommittedAt, n + 1})
		}
	})
	type seen struct {
		asOf          time.Time
		first, second int64
	}
	var batches, singles []seen
	wg.Go(func() {
		for ctx.Err() == nil {
			got, err := reader.CountShardsOf(t.Context(), []storage.VideoID{"first", "second"})
			require.NoError(t, err)
			batches = append(batches, seen{got[0].AsOf, sum(got[0]).Likes, sum(got[1]).Likes})
		}
	})
	wg.Go(func() {
		for ctx.Err() == nil {
			got, err := reader.CountShards(t.Context(), "second")
			require.NoError(t, err)
			singles = append(singles, seen{got.AsOf, math.MaxInt64, sum(got).Likes})
		}
	})
	wg.Wait()
	for _, s := range batches {
		require.GreaterOrEqual(t, s.first, s.second, "the second is written after the first")
		require.LessOrEqual(t, s.first, s.second+1, "of one snapshot")
	}
	for _, s := range append(batches, singles...) {
		before := int64(0)
		for _, ack := range acks {
			if ack.at.Before(s.asOf) {
				before = ack.n
			}
		}
		require.GreaterOrEqual(t, s.second, before, "as of %s", s.asOf)
	}
	require.Greater(t, len(batches), 10)
	require.Greater(t, len(singles), 10)
}

// R25: counts that no float holds come through, and never wrap.
func TestHugeCounts(t *testing.T) {
	t.Parallel()
	const beyondFloats = 1<<53 + 1
	url := storagetest.URL(t)
	s := storagetest.Open(t, url, func(c *storage.Config) { c.Committer.ColdSlot = func(storage.Slot) storage.Slot { return 0 } })
	conn := storagetest.Conn(t, url)
	for video, shards := range map[storage.VideoID][]storage.Tally{
		"floats": {{Likes: beyondFloats, Dislikes: beyondFloats}},
		"full":   {{Likes: math.MaxInt64, Dislikes: 7}},
		"over":   {{Likes: math.MaxInt64, Dislikes: math.MaxInt64}, {Likes: 1, Dislikes: math.MaxInt64}},
	} {
		for slot, shard := range shards {
			_, err := conn.Exec(t.Context(), "INSERT INTO counter_shards VALUES ($1, $2, $3, $4, 1, now())", video, slot, shard.Likes, shard.Dislikes)
			require.NoError(t, err)
		}
		single, err := s.CountShards(t.Context(), video)
		require.NoError(t, err)
		many, err := s.CountShardsOf(t.Context(), []storage.VideoID{video})
		require.NoError(t, err)
		for _, c := range []storage.CountShards{single, many[0]} {
			require.Len(t, c.Shards, len(shards))
			for _, shard := range c.Shards {
				want := shards[shard.Slot]
				require.Equal(t, want, storage.Tally{Likes: shard.Likes, Dislikes: shard.Dislikes})
			}
		}
	}
	recount, err := s.Recount(t.Context(), "over")
	require.NoError(t, err)
	require.Equal(t, storage.Tally{Likes: math.MaxInt64, Dislikes: math.MaxInt64}, recount.Stored, "a sum stays at its highest")

	got, err := s.Set(t.Context(), set("floats", "ann", storage.Like))
	require.NoError(t, err)
	require.EqualValues(t, beyondFloats+1, got.Shard.Likes)

	_, err = s.Set(t.Context(), set("full", "ann", storage.Like))
	require.Error(t, err, "a counter shard that is full refuses")
	require.NotErrorIs(t, err, storage.ErrOutcomeUnknown)
	state, err := s.Get(t.Context(), slotOf("full", "ann"), "full", "ann")
	require.NoError(t, err)
	require.Equal(t, storage.State{}, state, "nothing was applied")
	_, err = s.Set(t.Context(), set("full", "ann", storage.Dislike))
	require.NoError(t, err)
}
