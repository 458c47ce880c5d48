package regions

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"likewise/storage"
)

func videoIDs(n int) []storage.VideoID {
	videos := make([]storage.VideoID, n)
	for i := range videos {
		videos[i] = storage.VideoID(fmt.Sprint("v", i))
	}
	return videos
}

// likeAll gives video i as many likes as i.
func (c cacheBundle) likeAll(videos []storage.VideoID) {
	for i, video := range videos {
		c.store.db.put(video, storage.CounterShard{Likes: int64(i), Rev: 1})
	}
}

func (c cacheBundle) countBatches() []int { return c.store.batches.of(&c.store.batches.counts) }

// slowly makes each load take 100 ms after its snapshot.
func (c cacheBundle) slowly() {
	c.store.afterCount = func(context.Context) error { time.Sleep(100 * time.Millisecond); return nil } //nolint:forbidigo // in a bubble
}

func requireLikes(t *testing.T, want int64, o outcome[snapshot]) {
	t.Helper()
	require.NoError(t, o.err)
	require.Equal(t, want, o.got.likes)
}

// R11
func TestABatchReadsTheDatabaseOnceForAllThatIsMissing(t *testing.T) {
	t.Parallel()
	inCache(t, func(t *testing.T, c cacheBundle) {
		videos := videoIDs(100)
		c.likeAll(videos)
		_, err := c.get(t.Context(), "v7", c.defaultBound())
		require.NoError(t, err)
		for range 2 {
			for i, got := range c.getMany(t.Context(), videos, c.defaultBound()) {
				requireLikes(t, int64(i), got)
			}
		}
		require.EqualValues(t, 2, c.store.counts.Load())
		require.Equal(t, []int{99}, c.countBatches())

		after(331 * time.Millisecond)
		c.getMany(t.Context(), videos, c.defaultBound())
		synctest.Wait()
		require.Equal(t, []int{99, 100}, c.countBatches(), "what is due is loaded anew in one read too")
	})
}

func TestABatchAndASingleCallShareLoads(t *testing.T) {
	t.Parallel()

	t.Run("a batch joins a load of one", func(t *testing.T) {
		t.Parallel()
		inCache(t, func(t *testing.T, c cacheBundle) {
			videos := videoIDs(3)
			c.likeAll(videos)
			c.slowly()
			c.warm(t.Context(), "v1")
			synctest.Wait()
			for i, got := range c.getMany(t.Context(), videos, c.defaultBound()) {
				requireLikes(t, int64(i), got)
			}
			require.Equal(t, []int{2}, c.countBatches())
			require.EqualValues(t, 2, c.store.counts.Load())
		})
	})

	t.Run("others join the load of a batch, which is not its caller's", func(t *testing.T) {
		t.Parallel()
		inCache(t, func(t *testing.T, c cacheBundle) {
			videos := videoIDs(3)
			c.likeAll(videos)
			c.slowly()
			first, leave := context.WithCancel(t.Context())
			var calls sync.WaitGroup
			calls.Go(func() {
				for _, got := range c.getMany(first, videos, c.defaultBound()) {
					require.ErrorIs(t, got.err, context.Canceled)
				}
			})
			synctest.Wait()
			calls.Go(func() {
				got, err := c.get(t.Context(), "v2", c.defaultBound())
				requireLikes(t, 2, outcome[snapshot]{got, err})
			})
			calls.Go(func() { requireLikes(t, 1, c.getMany(t.Context(), videos[1:], c.defaultBound())[0]) })
			synctest.Wait()
			leave()
			calls.Wait()
			require.EqualValues(t, 1, c.store.counts.Load())
		})
	})
}

func TestABatchThatJoinedTooOldLoadsLoadsOnceMore(t *testing.T) {
	t.Parallel()
	inCache(t, func(t *testing.T, c cacheBundle) {
		videos := videoIDs(10)
		c.likeAll(videos)
		c.slowly()
		go c.getMany(t.Context(), videos, c.defaultBound())
		after(50 * time.Millisecond) // its snapshot is taken
		for i, got := range c.getMany(t.Context(), videos, bound{demanded: true}) {
			require.NoError(t, got.err)
			require.LessOrEqual(t, time.Since(got.got.begun), 100*time.Millisecond, "load %d began after the call", i)
		}
		require.Equal(t, []int{10, 10}, c.countBatches())
	})
}

func TestBoundsOfABatch(t *testing.T) {
	t.Parallel()

	t.Run("a token that the database will soon meet is waited for", func(t *testing.T) {
		t.Parallel()
		inCache(t, func(t *testing.T, c cacheBundle) {
			soon := databaseTime().Add(100 * time.Millisecond)
			for _, got := range c.getMany(t.Context(), videoIDs(5), bound{maxAge: time.Hour, after: soon}) {
				require.NoError(t, got.err)
				require.True(t, got.got.asOf.After(soon))
			}
			require.Equal(t, []int{5, 5}, c.countBatches())
		})
	})

	t.Run("one of another world is refused for each", func(t *testing.T) {
		t.Parallel()
		inCache(t, func(t *testing.T, c cacheBundle) {
			for _, got := range c.getMany(t.Context(), videoIDs(5), bound{maxAge: time.Hour, after: databaseTime().Add(time.Hour)}) {
				var stale *staleCountsError
				require.ErrorAs(t, got.err, &stale)
			}
		})
	})
}

func TestALoadThatFailsFailsItsOwnIDs(t *testing.T) {
	t.Parallel()
	inCache(t, func(t *testing.T, c cacheBundle) {
		videos := videoIDs(4)
		c.likeAll(videos)
		c.getMany(t.Context(), videos[:2], c.defaultBound())
		c.store.beforeCount = func(context.Context) error { return errDatabaseDown }
		after(3 * time.Second) // the first two are older than the default, and better than nothing
		got := c.getMany(t.Context(), videos, c.defaultBound())
		requireLikes(t, 0, got[0])
		requireLikes(t, 1, got[1])
		for _, failed := range got[2:] {
			var stale *staleCountsError
			require.ErrorAs(t, failed.err, &stale)
			require.ErrorIs(t, failed.err, errDatabaseDown)
		}

		c.store.beforeCount = nil
		requireLikes(t, 3, c.getMany(t.Context(), videos, c.defaultBound())[3])
	})
}

func TestALoadThatPanicsFailsItsCallersAlone(t *testing.T) {
	t.Parallel()
	inCache(t, func(t *testing.T, c cacheBundle) {
		c.store.beforeCount = func(context.Context) error { panic("a row that cannot be") }
		_, err := c.get(t.Context(), "v", c.defaultBound())
		require.ErrorIs(t, err, errPanicked)
		c.store.beforeCount = nil
		c.mustGet(t, c.defaultBound())
	})
}

func TestABatchEndsInTimeWithWhatIsThere(t *testing.T) {
	t.Parallel()
	inCache(t, func(t *testing.T, c cacheBundle) {
		videos := videoIDs(3)
		c.likeAll(videos)
		c.getMany(t.Context(), videos[:1], c.defaultBound()) // known
		c.store.beforeCount = func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
		after(3 * time.Second)
		began := time.Now()
		ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, errBatchTimeout)
		defer cancel()
		got := c.getMany(ctx, videos, c.defaultBound())
		require.Equal(t, 200*time.Millisecond, time.Since(began))
		requireLikes(t, 0, got[0])
		for _, late := range got[1:] {
			require.ErrorIs(t, late.err, errBatchTimeout)
			require.ErrorContains(t, late.err, "wait for counts")
		}
	})
}

func TestABatchThatHasAnOlderAnswerWaitsBriefly(t *testing.T) {
	t.Parallel()
	inCache(t, func(t *testing.T, c cacheBundle) {
		videos := videoIDs(3)
		c.likeAll(videos)
		c.getMany(t.Context(), videos, c.defaultBound())
		c.store.beforeCount = func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
		after(3 * time.Second)
		began := time.Now()
		for i, got := range c.getMany(t.Context(), videos, c.defaultBound()) {
			requireLikes(t, int64(i), got)
		}
		require.Equal(t, patience, time.Since(began))
	})
}

func TestABatchTakesOnePlaceAmongTheLoads(t *testing.T) {
	t.Parallel()
	inCache(t, func(t *testing.T, c cacheBundle) {
		var running, most atomic.Int64
		c.store.beforeCount = func(context.Context) error {
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(time.Millisecond) //nolint:forbidigo // in a bubble
			running.Add(-1)
			return nil
		}
		var calls sync.WaitGroup
		videos := videoIDs(200)
		for i := range 20 {
			calls.Go(func() {
				for _, got := range c.getMany(t.Context(), videos[10*i:10*i+10], c.defaultBound()) {
					require.NoError(t, got.err)
				}
			})
		}
		calls.Wait()
		require.EqualValues(t, c.cfg.Loads, most.Load())
		require.EqualValues(t, 20, c.store.counts.Load())
	})
}

// R33
func TestAPushIsKeptByTheLoadOfABatch(t *testing.T) {
	t.Parallel()
	inCache(t, func(t *testing.T, c cacheBundle) {
		c.like("a")
		c.slowly()
		var calls sync.WaitGroup
		calls.Go(func() {
			got := c.getMany(t.Context(), []storage.VideoID{"other", "v"}, c.defaultBound())
			requireLikes(t, 2, got[1])
		})
		after(50 * time.Millisecond) // its snapshot is taken
		c.learn("v", c.like("b"))
		calls.Wait()
	})
}

// R8
func TestAVideoThatIsDeletedWhileItIsCached(t *testing.T) {
	t.Parallel()

	requireDeleted := func(t *testing.T, err error) {
		t.Helper()
		var deleted *storage.VideoDeletedError
		require.ErrorAs(t, err, &deleted)
	}

	t.Run("by another node is seen with the next load", func(t *testing.T) {
		t.Parallel()
		inCache(t, func(t *testing.T, c cacheBundle) {
			c.warmUp(t)
			c.store.db.setVideo("v", storage.VideoDeleted)
			c.mustGet(t, c.defaultBound())
			after(3 * time.Second)
			_, err := c.get(t.Context(), "v", c.defaultBound())
			requireDeleted(t, err)
			_, err = c.get(t.Context(), "v", c.defaultBound())
			requireDeleted(t, err)
			got := c.getMany(t.Context(), []storage.VideoID{"other", "v"}, c.defaultBound())
			require.NoError(t, got[0].err)
			requireDeleted(t, got[1].err)
		})
	})

	t.Run("by this node is seen at once, and so is its return", func(t *testing.T) {
		t.Parallel()
		inCache(t, func(t *testing.T, c cacheBundle) {
			c.warmUp(t)
			after(time.Millisecond)
			c.store.db.setVideo("v", storage.VideoDeleted)
			c.renew(t.Context(), "v")
			_, err := c.get(t.Context(), "v", c.defaultBound())
			requireDeleted(t, err)

			after(time.Millisecond)
			c.store.db.setVideo("v", storage.VideoActive)
			c.renew(t.Context(), "v")
			require.EqualValues(t, 2, c.mustGet(t, c.defaultBound()).likes)
		})
	})

	t.Run("by this node while an older load runs is seen at once", func(t *testing.T) {
		t.Parallel()
		inCache(t, func(t *testing.T, c cacheBundle) {
			c.slowly()
			c.warm(t.Context(), "v")
			after(50 * time.Millisecond) // its snapshot is taken
			c.store.db.setVideo("v", storage.VideoDeleted)
			c.renew(t.Context(), "v")
			_, err := c.get(t.Context(), "v", c.defaultBound())
			requireDeleted(t, err)
		})
	})

	t.Run("by this node is not shown as it was, whatever the database does", func(t *testing.T) {
		t.Parallel()
		inCache(t, func(t *testing.T, c cacheBundle) {
			c.warmUp(t)
			after(time.Millisecond)
			c.store.beforeCount = func(context.Context) error { return errDatabaseDown }
			c.renew(t.Context(), "v")
			_, err := c.get(t.Context(), "v", c.defaultBound())
			var stale *staleCountsError
			require.ErrorAs(t, err, &stale)
		})
	})

	t.Run("shows no counts beside a repeated write", func(t *testing.T) {
		t.Parallel()
		inCache(t, func(t *testing.T, c cacheBundle) {
			result := c.like("a")
			c.store.db.setVideo("v", storage.VideoDeleted)
			_, _, ok := c.besideWrite(t.Context(), "v", result)
			require.False(t, ok)
			_, _, ok = c.besideWrite(t.Context(), "v", result)
			require.False(t, ok)
		})
	})
}

func TestASaturatedCountIsNoticed(t *testing.T) {
	t.Parallel()
	inCache(t, func(t *testing.T, c cacheBundle) {
		c.store.db.put("v", storage.CounterShard{Slot: 1, Likes: 1<<63 - 1, Rev: 1}, storage.CounterShard{Slot: 2, Likes: 1, Dislikes: 1, Rev: 1})
		got := c.mustGet(t, c.defaultBound())
		require.EqualValues(t, 1<<63-1, got.likes)
		require.EqualValues(t, 1, got.dislikes)
		require.InDelta(t, 1, testutil.ToFloat64(c.metrics.saturated), 0)
	})
}
