package naive

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"likewise/deploy/local/postgres"
	"likewise/storage"
)

// newURL returns a database with nothing in it.
func newURL(t *testing.T, server *postgres.Server, name string) string {
	t.Helper()
	require.NoError(t, server.CreateDatabase(t.Context(), name))
	return server.URL(name)
}

func startServer(t *testing.T) *postgres.Server {
	t.Helper()
	o := postgres.FromEnvironment()
	o.Durability = postgres.Volatile
	server, err := postgres.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close(context.WithoutCancel(t.Context()))) })
	return server
}

// run opens a feeder, lets feed feed it and waits until all is counted.
func run(t *testing.T, cfg Config, feed func(context.Context, *Feeder) error) *Feeder {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	f, err := Open(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(f.Close)

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return f.Run(ctx) })
	require.NoError(t, feed(ctx, f))
	f.Finish()
	require.NoError(t, g.Wait())
	return f
}

func offBy(t *testing.T, f *Feeder, truth map[storage.VideoID]storage.Tally) (blind, readThenWrite int64) {
	t.Helper()
	counts, err := f.Blind(t.Context())
	require.NoError(t, err)
	blind = OffBy(counts, truth)
	counts, err = f.ReadThenWrite(t.Context())
	require.NoError(t, err)
	return blind, OffBy(counts, truth)
}

func TestNaiveCounters(t *testing.T) {
	t.Parallel()
	server := startServer(t)

	t.Run("both are exact when fed serially and never twice", func(t *testing.T) {
		f := run(t, Config{URL: newURL(t, server, "serial"), Workers: 1}, func(ctx context.Context, f *Feeder) error {
			for _, e := range []Event{
				{"cat", storage.None, storage.Like},
				{"cat", storage.None, storage.Like},
				{"cat", storage.Like, storage.Dislike},
				{"cat", storage.Like, storage.Like},
				{"dog", storage.None, storage.Dislike},
				{"dog", storage.Dislike, storage.None},
			} {
				if err := f.Feed(ctx, e); err != nil {
					return err
				}
			}
			return nil
		})
		blind, readThenWrite := offBy(t, f, map[storage.VideoID]storage.Tally{"cat": {Likes: 1, Dislikes: 1}})
		require.Zero(t, blind)
		require.Zero(t, readThenWrite)
		require.EqualValues(t, 5, f.Fed(), "an event that changes nothing is not fed")
	})

	t.Run("a request that is sent twice is counted twice", func(t *testing.T) {
		f := run(t, Config{URL: newURL(t, server, "twice"), Workers: 1}, func(ctx context.Context, f *Feeder) error {
			like := Event{"cat", storage.None, storage.Like}
			if err := f.Feed(ctx, like); err != nil {
				return err
			}
			return f.Feed(ctx, like)
		})
		blind, readThenWrite := offBy(t, f, map[storage.VideoID]storage.Tally{"cat": {Likes: 1}})
		require.EqualValues(t, 1, blind)
		require.EqualValues(t, 1, readThenWrite)
	})

	t.Run("reading and then writing loses updates under concurrency, adding blindly does not", func(t *testing.T) {
		const events = 4000
		// A short queue: Feed has to wait, and must not drop.
		f := run(t, Config{URL: newURL(t, server, "concurrent"), Queue: 16}, func(ctx context.Context, f *Feeder) error {
			for range events {
				if err := f.Feed(ctx, Event{"hot", storage.None, storage.Like}); err != nil {
					return err
				}
			}
			return nil
		})
		blind, readThenWrite := offBy(t, f, map[storage.VideoID]storage.Tally{"hot": {Likes: events}})
		require.Zero(t, blind)
		require.Positive(t, readThenWrite)
	})

	t.Run("opening again starts from nothing", func(t *testing.T) {
		url := newURL(t, server, "again")
		run(t, Config{URL: url}, func(ctx context.Context, f *Feeder) error {
			return f.Feed(ctx, Event{"cat", storage.None, storage.Like})
		})
		f := run(t, Config{URL: url}, func(context.Context, *Feeder) error { return nil })
		blind, readThenWrite := offBy(t, f, nil)
		require.Zero(t, blind+readThenWrite)
	})

	t.Run("an event after Finish is refused, and so is one after Run ended early", func(t *testing.T) {
		f := run(t, Config{URL: newURL(t, server, "finished")}, func(context.Context, *Feeder) error { return nil })
		require.ErrorIs(t, f.Feed(t.Context(), Event{"cat", storage.None, storage.Like}), ErrFinished)

		f, err := Open(t.Context(), Config{URL: newURL(t, server, "stopped"), Queue: 1})
		require.NoError(t, err)
		t.Cleanup(f.Close)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, f.Run(ctx), context.Canceled)
		require.ErrorIs(t, feedUntilRefused(t.Context(), f), ErrFinished)
	})
}

func feedUntilRefused(ctx context.Context, f *Feeder) error {
	for i := range 10 {
		if err := f.Feed(ctx, Event{storage.VideoID(fmt.Sprint(i)), storage.None, storage.Like}); err != nil {
			return err
		}
	}
	return nil
}

func TestOffByAddsUpBothSides(t *testing.T) {
	t.Parallel()

	counted := map[storage.VideoID]storage.Tally{"cat": {Likes: 3, Dislikes: 0}, "ghost": {Dislikes: 2}}
	recount := map[storage.VideoID]storage.Tally{"cat": {Likes: 1, Dislikes: 1}, "missed": {Likes: 5}}
	require.EqualValues(t, 2+1+2+5, OffBy(counted, recount))
}
