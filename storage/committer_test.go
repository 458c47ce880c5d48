package storage_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"likewise/storage"
	"likewise/storage/storagetest"
)

// holdHead locks a slot's head in a transaction of its own, as a node does that
// is slow between the two round trips, until the test says release.
func holdHead(t *testing.T, url string, slot storage.Slot) (release func()) {
	t.Helper()
	conn := storagetest.Conn(t, url)
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT FROM slots WHERE slot = $1 FOR UPDATE", int64(slot))
	require.NoError(t, err)
	return func() { require.NoError(t, tx.Rollback(t.Context())) }
}

// otherSlot returns a user whose reaction to the video lies in another slot.
func otherSlot(video storage.VideoID, user storage.UserID) storage.UserID {
	for i := 0; ; i++ {
		other := storage.UserID(fmt.Sprintf("user-%d", i))
		if slotOf(video, other) != slotOf(video, user) {
			return other
		}
	}
}

func oneWorker(c *storage.Config) { c.Committer.Workers = 1 }

func TestOneStuckHeadHoldsTheOthersOnlyOnce(t *testing.T) {
	t.Parallel()
	url := storagetest.URL(t)
	store := storagetest.Open(t, url, oneWorker)
	release := holdHead(t, url, slotOf("cat", "ann"))
	var wg sync.WaitGroup
	wg.Go(func() {
		got, err := store.Set(t.Context(), set("cat", "ann", storage.Like))
		require.NoError(t, err)
		require.True(t, got.Changed)
	})
	// The first attempt waits for the lock until the database's limit; from
	// then on the worker goes on without this slot.
	bob := otherSlot("cat", "ann")
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := store.Set(ctx, set("cat", bob, storage.Like))
		return err == nil
	}, 4500*time.Millisecond, 10*time.Millisecond)
	release()
	wg.Wait()
	require.Empty(t, anomalies(t, url))
}

func TestPoisonedRequestFailsAlone(t *testing.T) {
	t.Parallel()
	url := storagetest.URL(t)
	conn := storagetest.Conn(t, url)
	_, err := conn.Exec(t.Context(), `
		CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'poisoned' USING ERRCODE = '22023'; END $$`)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `
		CREATE TRIGGER poison BEFORE INSERT ON changes FOR EACH ROW WHEN (new.video_id = 'poison') EXECUTE FUNCTION poison()`)
	require.NoError(t, err)
	store := storagetest.Open(t, url, oneWorker)
	release := holdHead(t, url, slotOf("first", "ann")) // so that the rest gathers in one batch
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = store.Set(t.Context(), set("first", "ann", storage.Like)) })
	var failed sync.Map
	for i := range 60 {
		video := storage.VideoID(fmt.Sprintf("video-%d", i%20))
		if i == 31 {
			video = "poison"
		}
		wg.Go(func() {
			if _, err := store.Set(t.Context(), set(video, storage.UserID(fmt.Sprintf("user-%d", i)), storage.Like)); err != nil {
				failed.Store(video, err)
			}
		})
	}
	release()
	wg.Wait()
	failed.Range(func(video, err any) bool {
		require.Equal(t, storage.VideoID("poison"), video, err)
		return true
	})
	_, ok := failed.Load(storage.VideoID("poison"))
	require.True(t, ok)
	require.Empty(t, anomalies(t, url))
}

func TestCallerThatLeaves(t *testing.T) {
	t.Parallel()
	url := storagetest.URL(t)
	store := storagetest.Open(t, url, oneWorker)
	release := holdHead(t, url, slotOf("cat", "ann"))
	var wg sync.WaitGroup
	leave := func(user storage.UserID, want error) {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, err := store.Set(ctx, set("cat", user, storage.Like))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, want != nil, errors.Is(err, storage.ErrOutcomeUnknown), err)
		})
	}
	// In flight: nobody knows. Behind it, and never begun: nothing happened.
	leave("ann", storage.ErrOutcomeUnknown)
	require.Eventually(t, func() bool { return waitsForLock(t, url) }, 2*time.Second, 5*time.Millisecond)
	bob := otherSlot("cat", "ann")
	leave(bob, nil)
	wg.Wait()
	release()

	got, err := store.Set(t.Context(), set("cat", "ann", storage.Like))
	require.NoError(t, err)
	require.Equal(t, storage.Like, got.Reaction)
	state, err := store.Get(t.Context(), slotOf("cat", bob), "cat", bob)
	require.NoError(t, err)
	require.Equal(t, storage.State{}, state, "the one that was never begun")
	require.Empty(t, anomalies(t, url))
}

func waitsForLock(t *testing.T, url string) bool {
	var n int
	err := storagetest.Conn(t, url).QueryRow(t.Context(),
		"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n)
	require.NoError(t, err)
	return n > 0
}

func TestFullQueueRefusesAtOnce(t *testing.T) { // R54
	t.Parallel()
	url := storagetest.URL(t)
	store := storagetest.Open(t, url, oneWorker, func(c *storage.Config) { c.Committer.QueueLimit = 5 })
	release := holdHead(t, url, slotOf("cat", "ann"))
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = store.Set(t.Context(), set("cat", "ann", storage.Like)) })
	require.Eventually(t, func() bool { return waitsForLock(t, url) }, 2*time.Second, 5*time.Millisecond)
	refused := make(chan error, 20)
	for i := range 20 {
		wg.Go(func() {
			_, err := store.Set(t.Context(), set("cat", storage.UserID(fmt.Sprintf("user-%d", i)), storage.Like))
			refused <- err
		})
	}
	var overloaded *storage.OverloadedError
	for range 15 { // five wait; the others have their answer while the head is still held
		require.ErrorAs(t, <-refused, &overloaded)
		require.Positive(t, overloaded.RetryAfter)
	}
	release()
	wg.Wait()
	require.Empty(t, anomalies(t, url))
}

func TestDrainFinishesWhatWasAccepted(t *testing.T) { // R44
	t.Parallel()
	url := storagetest.URL(t)
	store, err := storage.Open(t.Context(), storage.Config{URL: url, Committer: storage.CommitterConfig{BatchLimit: 4}})
	require.NoError(t, err)
	defer store.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	var wg sync.WaitGroup
	var done, refused sync.Map
	for i := range 200 {
		wg.Go(func() {
			user := storage.UserID(fmt.Sprintf("user-%d", i))
			switch _, err := store.Set(t.Context(), set("cat", user, storage.Like)); {
			case err == nil:
				done.Store(user, true)
			case errors.Is(err, storage.ErrClosing):
				refused.Store(user, true)
			default:
				t.Errorf("neither done nor refused: %v", err)
			}
		})
	}
	go func() { ended <- store.Run(ctx) }()
	require.Eventually(t, func() bool { // some are done, and others under way
		some := false
		done.Range(func(any, any) bool { some = true; return false })
		return some
	}, 10*time.Second, time.Millisecond)
	stop()
	wg.Wait()
	require.NoError(t, <-ended)
	recount, err := store.Recount(t.Context(), "cat")
	require.NoError(t, err)
	acknowledged := int64(0)
	done.Range(func(any, any) bool { acknowledged++; return true })
	require.Equal(t, acknowledged, recount.Rows.Likes)
	_, err = store.Set(t.Context(), set("cat", "late", storage.Like))
	require.ErrorIs(t, err, storage.ErrClosing)
}

func TestDisabledVideoRefuses(t *testing.T) { // R8
	t.Parallel()
	url := storagetest.URL(t)
	store := storagetest.Open(t, url)
	_, err := storagetest.Conn(t, url).Exec(t.Context(), "INSERT INTO videos (video_id, state, updated_at) VALUES ('cat', 2, now())")
	require.NoError(t, err)
	_, err = store.Set(t.Context(), set("cat", "ann", storage.Like))
	var state *storage.VideoStateError
	require.ErrorAs(t, err, &state)
	require.Equal(t, storage.VideoDisabled, state.State)
	require.Empty(t, anomalies(t, url))
}

func TestExpiredKeyIsForgotten(t *testing.T) { // R9
	t.Parallel()
	store := storagetest.Store(t, func(c *storage.Config) { c.Committer.KeyLifetime = 50 * time.Millisecond })
	ask := set("cat", "ann", storage.Like)
	ask.IdempotencyKey = "k"
	_, err := store.Set(t.Context(), ask)
	require.NoError(t, err)
	ask.Desired = storage.Dislike
	require.Eventually(t, func() bool {
		got, err := store.Set(t.Context(), ask)
		return err == nil && got.Reaction == storage.Dislike
	}, 2*time.Second, 20*time.Millisecond)
}

func TestDriftedCountIsNotClamped(t *testing.T) { // R26, R52
	t.Parallel()
	url := storagetest.URL(t)
	registry := prometheus.NewRegistry()
	store := storagetest.Open(t, url, func(c *storage.Config) { c.Registerer = registry })
	_, err := store.Set(t.Context(), set("cat", "ann", storage.Like))
	require.NoError(t, err)
	_, err = storagetest.Conn(t, url).Exec(t.Context(), "UPDATE counter_shards SET likes = 0") // as no path of Likewise does
	require.NoError(t, err)
	_, err = store.Set(t.Context(), set("cat", "ann", storage.None))
	require.Error(t, err)
	require.NotErrorIs(t, err, storage.ErrOutcomeUnknown)
	require.Positive(t, counted(t, registry, "likewise_storage_refused_negatives_total"))
	state, err := store.Get(t.Context(), slotOf("cat", "ann"), "cat", "ann")
	require.NoError(t, err)
	require.Equal(t, storage.Like, state.Reaction, "refused as a whole")
}

func TestMigrateFromSeveralNodesAtOnce(t *testing.T) { // R30
	t.Parallel()
	url := storagetest.EmptyURL(t)
	var wg sync.WaitGroup
	for node := range 6 {
		wg.Go(func() {
			store, err := storage.Open(t.Context(), storage.Config{URL: url})
			require.NoError(t, err)
			defer store.Close()
			var regions [storage.Slots]string
			for i := range regions {
				regions[i] = fmt.Sprintf("region-%d", node)
			}
			require.NoError(t, store.Migrate(t.Context(), regions))
			require.NoError(t, store.Migrate(t.Context(), regions))
			topology, err := store.Topology(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 1, topology.Epoch)
			for _, region := range topology.Regions {
				require.Equal(t, topology.Regions[0], region, "one node's topology, whole")
			}
		})
	}
	wg.Wait()
}

// Every write acknowledged before a count's as-of is in it.
func TestCountsNeverClaimToBeNewerThanTheyAre(t *testing.T) { // R5, R33
	t.Parallel()
	url := storagetest.URL(t)
	store := storagetest.Open(t, url)
	var mu sync.Mutex
	var acknowledged []time.Time // guarded by mu; commit times, in any order
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	var wg sync.WaitGroup
	for writer := range 8 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				got, err := store.Set(t.Context(), set("hot", storage.UserID(fmt.Sprintf("%d-%d", writer, i)), storage.Like))
				require.NoError(t, err)
				mu.Lock()
				acknowledged = append(acknowledged, got.CommittedAt)
				mu.Unlock()
			}
		})
	}
	for ctx.Err() == nil {
		counts, err := store.CountShards(t.Context(), "hot")
		require.NoError(t, err)
		likes := int64(0)
		for _, s := range counts.Shards {
			likes += s.Likes
		}
		before := int64(0)
		mu.Lock()
		for _, at := range acknowledged {
			if at.Before(counts.AsOf) {
				before++
			}
		}
		mu.Unlock()
		require.GreaterOrEqual(t, likes, before)
	}
	wg.Wait()
}
