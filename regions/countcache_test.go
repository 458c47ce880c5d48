package regions

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"likewise/storage"
)

var errDatabaseDown = errors.New("connect to 10.0.0.1:5432: connection refused")

// cacheBundle is a cache over a fake database, in a bubble whose time the test
// moves.
type cacheBundle struct {
	*countCache
	store *fakeStore
}

func inCache(t *testing.T, test func(t *testing.T, c cacheBundle)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := newFakeStore()
		cache, err := newCountCache(store, &storage.Clock{}, CountsConfig{}.withDefaults(), newMetrics())
		require.NoError(t, err)
		test(t, cacheBundle{countCache: cache, store: store})
		cache.close()
	})
}

func (c cacheBundle) like(users ...storage.UserID) storage.Result {
	var result storage.Result
	for _, user := range users {
		result = c.store.db.set(storage.Set{Slot: slotOf("v", user), Video: "v", User: user, Desired: storage.Like})
	}
	return result
}

func (c cacheBundle) mustGet(t *testing.T, b bound) snapshot {
	t.Helper()
	got, err := c.get(t.Context(), "v", b)
	require.NoError(t, err)
	return got
}

// warmUp loads, and lets the database go on by one like that the cache has not
// seen.
func (c cacheBundle) warmUp(t *testing.T) snapshot {
	t.Helper()
	c.like("a")
	got := c.mustGet(t, c.defaultBound())
	require.EqualValues(t, 1, got.likes)
	c.like("b")
	return got
}

func after(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // in a bubble: moves its clock
	synctest.Wait()
}

func TestManyCallersShareOneLoad(t *testing.T) {
	t.Parallel()
	inCache(t, func(t *testing.T, c cacheBundle) {
		c.like("a")
		release := make(chan struct{})
		c.store.beforeCount = func(context.Context) error { <-release; return nil }

		first, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := c.get(first, "v", c.defaultBound())
			require.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		for range 100 {
			wg.Go(func() { require.EqualValues(t, 1, c.mustGet(t, c.defaultBound()).likes) })
		}
		synctest.Wait()
		leave() // the load is not the first caller's
		synctest.Wait()
		close(release)
		wg.Wait()
		require.EqualValues(t, 1, c.store.counts.Load())
	})
}

func TestAnAnswerThatIsDueIsGivenAndLoadedAnew(t *testing.T) {
	t.Parallel()
	inCache(t, func(t *testing.T, c cacheBundle) {
		c.warmUp(t)
		after(269 * time.Millisecond)
		require.EqualValues(t, 1, c.mustGet(t, c.defaultBound()).likes)
		synctest.Wait()
		require.EqualValues(t, 1, c.store.counts.Load(), "not due yet, whatever the jitter")

		after(62 * time.Millisecond)
		require.EqualValues(t, 1, c.mustGet(t, c.defaultBound()).likes, "at once")
		synctest.Wait()
		require.EqualValues(t, 2, c.mustGet(t, c.defaultBound()).likes, "loaded behind it")
		require.EqualValues(t, 2, c.store.counts.Load())
	})
}

func TestAnOldAnswerBeatsNoneUpToALimit(t *testing.T) {
	t.Parallel()

	t.Run("it waits for a load when it is older than the default", func(t *testing.T) {
		t.Parallel()
		inCache(t, func(t *testing.T, c cacheBundle) {
			c.warmUp(t)
			after(3 * time.Second)
			require.EqualValues(t, 2, c.mustGet(t, c.defaultBound()).likes)
		})
	})

	t.Run("it is given, with its as-of, while loads fail", func(t *testing.T) {
		t.Parallel()
		inCache(t, func(t *testing.T, c cacheBundle) {
			loaded := c.warmUp(t)
			c.store.beforeCount = func(context.Context) error { return errDatabaseDown }
			after(59 * time.Second)
			got := c.mustGet(t, c.defaultBound())
			require.EqualValues(t, 1, got.likes)
			require.Equal(t, loaded.asOf, got.asOf)

			loads := c.store.counts.Load()
			c.mustGet(t, c.defaultBound())
			require.Equal(t, loads, c.store.counts.Load(), "not every caller tries a database that is down")

			after(2 * time.Second)
			_, err := c.get(t.Context(), "v", c.defaultBound())
			var stale *staleCountsError
			require.ErrorAs(t, err, &stale, "over the limit")
		})
	})

	t.Run("it is given in time when loads hang", func(t *testing.T) {
		t.Parallel()
		inCache(t, func(t *testing.T, c cacheBundle) {
			c.warmUp(t)
			c.store.beforeCount = func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
			after(3 * time.Second)
			began := time.Now()
			require.EqualValues(t, 1, c.mustGet(t, c.defaultBound()).likes)
			require.LessOrEqual(t, time.Since(began), patience)
		})
	})

	t.Run("it is refused to a caller who gave the bound", func(t *testing.T) {
		t.Parallel()
		inCache(t, func(t *testing.T, c cacheBundle) {
			c.warmUp(t)
			c.store.beforeCount = func(context.Context) error { return errDatabaseDown }
			after(3 * time.Second)
			_, err := c.get(t.Context(), "v", bound{maxAge: 2 * time.Second, demanded: true})
			var stale *staleCountsError
			require.ErrorAs(t, err, &stale)
		})
	})
}

func TestErrorsAreNotKept(t *testing.T) {
	t.Parallel()
	inCache(t, func(t *testing.T, c cacheBundle) {
		c.like("a")
		c.store.beforeCount = func(context.Context) error { return errDatabaseDown }
		_, err := c.get(t.Context(), "v", c.defaultBound())
		require.Error(t, err)
		c.store.beforeCount = nil
		require.EqualValues(t, 1, c.mustGet(t, c.defaultBound()).likes)
	})
}

func TestALoadUnderWayMayBeTooOldForWhoJoinsIt(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]func(time.Time) bound{
		"by age":   func(time.Time) bound { return bound{demanded: true} },
		"by token": func(committed time.Time) bound { return bound{maxAge: time.Hour, after: committed} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCache(t, func(t *testing.T, c cacheBundle) {
				c.like("a")
				c.store.afterCount = func(context.Context) error { time.Sleep(100 * time.Millisecond); return nil } //nolint:forbidigo // in a bubble
				c.warm(t.Context(), "v")
				after(50 * time.Millisecond) // its snapshot is taken
				result := c.like("b")
				got := c.mustGet(t, b(result.CommittedAt))
				require.EqualValues(t, 2, got.likes)
				require.EqualValues(t, 2, c.store.counts.Load())
			})
		})
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()

	t.Run("a generous one is met from the cache", func(t *testing.T) {
		t.Parallel()
		inCache(t, func(t *testing.T, c cacheBundle) {
			c.warmUp(t)
			after(200 * time.Millisecond)
			require.EqualValues(t, 1, c.mustGet(t, bound{maxAge: time.Second, demanded: true}).likes)
			require.EqualValues(t, 1, c.store.counts.Load())
		})
	})

	t.Run("none at all is met by a load that begins now", func(t *testing.T) {
		t.Parallel()
		inCache(t, func(t *testing.T, c cacheBundle) {
			c.warmUp(t)
			after(time.Microsecond)
			require.EqualValues(t, 2, c.mustGet(t, bound{demanded: true}).likes)
		})
	})

	t.Run("one that no database will meet is refused, however far it lies", func(t *testing.T) {
		t.Parallel()
		inCache(t, func(t *testing.T, c cacheBundle) {
			c.warmUp(t)
			for _, after := range []time.Time{time.UnixMicro(math.MaxInt64), time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC), databaseTime().Add(time.Hour)} {
				_, err := c.get(t.Context(), "v", bound{maxAge: time.Second, after: after})
				var stale *staleCountsError
				require.ErrorAs(t, err, &stale)
			}
		})
	})

	t.Run("one that the database will soon meet is waited for", func(t *testing.T) {
		t.Parallel()
		inCache(t, func(t *testing.T, c cacheBundle) {
			c.like("a")
			soon := databaseTime().Add(100 * time.Millisecond)
			got := c.mustGet(t, bound{maxAge: time.Hour, after: soon})
			require.True(t, got.asOf.After(soon))
		})
	})

	t.Run("a token of another world is refused, at once", func(t *testing.T) {
		t.Parallel()
		inCache(t, func(t *testing.T, c cacheBundle) {
			began := time.Now()
			_, err := c.get(t.Context(), "v", bound{maxAge: time.Hour, after: databaseTime().Add(time.Hour)})
			var stale *staleCountsError
			require.ErrorAs(t, err, &stale)
			require.Zero(t, time.Since(began))
		})
	})

	t.Run("a clock of this node that runs ahead makes no load too old", func(t *testing.T) {
		t.Parallel()
		inCache(t, func(t *testing.T, c cacheBundle) {
			c.clock.Observe(databaseTime().Add(15 * time.Millisecond))
			c.mustGet(t, bound{demanded: true})
		})
	})
}

func TestPushes(t *testing.T) {
	t.Parallel()

	t.Run("raise the counts and not the as-of", func(t *testing.T) {
		t.Parallel()
		inCache(t, func(t *testing.T, c cacheBundle) {
			loaded := c.warmUp(t)
			after(time.Millisecond)
			c.learn("v", c.like("c"))
			got := c.mustGet(t, c.defaultBound())
			require.EqualValues(t, 2, got.likes, "b's like was not pushed")
			require.Equal(t, loaded.asOf, got.asOf)
		})
	})

	t.Run("make no entry", func(t *testing.T) {
		t.Parallel()
		inCache(t, func(t *testing.T, c cacheBundle) {
			c.learn("v", c.like("a"))
			_, ok := c.lookup("v")
			require.False(t, ok)
		})
	})
}

func TestTheReplyToAWriteIncludesIt(t *testing.T) {
	t.Parallel()

	t.Run("when the load beside it is older", func(t *testing.T) {
		t.Parallel()
		inCache(t, func(t *testing.T, c cacheBundle) {
			c.like("a", "b")
			c.store.afterCount = func(context.Context) error { time.Sleep(20 * time.Millisecond); return nil } //nolint:forbidigo // in a bubble
			c.warm(t.Context(), "v")
			after(10 * time.Millisecond)
			result := c.like("c")
			got, included, ok := c.besideWrite(t.Context(), "v", result)
			require.True(t, ok)
			require.True(t, included)
			require.EqualValues(t, 3, got.likes, "the writer's own like is in")
		})
	})

	t.Run("and says no where that is not sure", func(t *testing.T) {
		t.Parallel()
		inCache(t, func(t *testing.T, c cacheBundle) {
			c.warmUp(t)
			after(time.Millisecond)
			result := c.like("c")
			result.Shard = nil
			_, included, ok := c.besideWrite(t.Context(), "v", result)
			require.True(t, ok)
			require.False(t, included)
		})
	})

	t.Run("and waits for counts only so long", func(t *testing.T) {
		t.Parallel()
		inCache(t, func(t *testing.T, c cacheBundle) {
			c.store.beforeCount = func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
			began := time.Now()
			_, _, ok := c.besideWrite(t.Context(), "v", c.like("a"))
			require.False(t, ok)
			require.Equal(t, c.cfg.BesideWrite, time.Since(began))
		})
	})
}

func TestTheCacheIsBounded(t *testing.T) {
	t.Parallel()
	cfg := CountsConfig{Videos: 50}.withDefaults()
	c, err := newCountCache(newFakeStore(), &storage.Clock{}, cfg, newMetrics())
	require.NoError(t, err)
	t.Cleanup(c.close)
	for i := range 1000 {
		_, err := c.get(t.Context(), storage.VideoID(fmt.Sprint("v", i)), c.defaultBound())
		require.NoError(t, err)
	}
	c.entries.CleanUp()
	require.LessOrEqual(t, c.entries.EstimatedSize(), 50)
	require.Empty(t, c.loading)
}

func TestAnEvictedEntryStillHasOneLoad(t *testing.T) {
	t.Parallel()
	inCache(t, func(t *testing.T, c cacheBundle) {
		c.like("a")
		c.store.afterCount = func(context.Context) error { time.Sleep(time.Millisecond); return nil } //nolint:forbidigo // in a bubble
		c.warm(t.Context(), "v")
		c.entries.Invalidate("v")
		c.learn("v", c.like("b"))
		require.EqualValues(t, 2, c.mustGet(t, c.defaultBound()).likes)
		require.EqualValues(t, 1, c.store.counts.Load())
	})
}

func TestAClosedCacheLoadsNothing(t *testing.T) {
	t.Parallel()
	c, err := newCountCache(newFakeStore(), &storage.Clock{}, CountsConfig{}.withDefaults(), newMetrics())
	require.NoError(t, err)
	c.close()
	_, err = c.get(t.Context(), "v", c.defaultBound())
	require.ErrorIs(t, err, storage.ErrClosing)
}
