package storage_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"likewise/e2e/fault/pgproxy"
	"likewise/storage"
	"likewise/storage/storagetest"
)

func videoStates() []storage.VideoState {
	return []storage.VideoState{storage.VideoActive, storage.VideoDisabled, storage.VideoDeleted}
}

// setState sets a video's state and returns what that led to.
func setState(t *testing.T, s *storage.Store, video storage.VideoID, state storage.VideoState) storage.VideoChange {
	t.Helper()
	change, err := s.SetVideoState(t.Context(), video, state)
	require.NoError(t, err)
	return change
}

// R13: each state from each, and again.
func TestEveryVideoStateFromEvery(t *testing.T) {
	t.Parallel()
	s := storagetest.Store(t)
	for _, previous := range videoStates() {
		for _, desired := range videoStates() {
			t.Run(fmt.Sprintf("%d to %d", previous, desired), func(t *testing.T) {
				t.Parallel()
				video := storage.VideoID(fmt.Sprintf("video-%d-%d", previous, desired))
				first := setState(t, s, video, previous)
				require.Equal(t, storage.VideoActive, first.Previous, "all begin so")

				generation := first.Generation
				if previous != desired {
					generation++
				}
				require.Equal(t, storage.VideoChange{Previous: previous, State: desired, Changed: previous != desired, Generation: generation},
					setState(t, s, video, desired))
				require.Equal(t, storage.VideoChange{Previous: desired, State: desired, Generation: generation},
					setState(t, s, video, desired), "a repeat changes nothing")
				requireVideoState(t, s, video, desired)
			})
		}
	}
}

// requireVideoState demands that every call goes by the state.
func requireVideoState(t *testing.T, s *storage.Store, video storage.VideoID, want storage.VideoState) {
	t.Helper()
	counts, err := s.CountShards(t.Context(), video)
	require.NoError(t, err)
	require.Equal(t, want, counts.Video)
	many, err := s.CountShardsOf(t.Context(), []storage.VideoID{video})
	require.NoError(t, err)
	require.Equal(t, want, many[0].Video)
	readings, err := s.GetMany(t.Context(), "ann", []storage.Place{{Slot: slotOf(video, "ann"), Video: video}})
	require.NoError(t, err)
	require.Equal(t, want, readings[0].Video)

	_, err = s.Get(t.Context(), slotOf(video, "ann"), video, "ann")
	var deleted *storage.VideoDeletedError
	if want == storage.VideoDeleted {
		require.ErrorAs(t, err, &deleted)
	} else {
		require.NoError(t, err)
	}
	_, err = s.Set(t.Context(), set(video, "bob", storage.Like))
	if want == storage.VideoActive {
		require.NoError(t, err)
		return
	}
	var refused *storage.VideoStateError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, want, refused.State)
}

func TestAnUnknownVideoThatStaysActiveLeavesNoRow(t *testing.T) {
	t.Parallel()
	url := storagetest.URL(t)
	s := storagetest.Open(t, url)
	require.Equal(t, storage.VideoChange{Previous: storage.VideoActive, State: storage.VideoActive}, setState(t, s, "cat", storage.VideoActive))
	require.Zero(t, count(t, url, "SELECT count(*) FROM videos"))
}

// count returns the number that a query finds.
func count(t *testing.T, url, query string) (n int64) {
	t.Helper()
	require.NoError(t, storagetest.Conn(t, url).QueryRow(t.Context(), query).Scan(&n))
	return n
}

func TestARestoredVideoHasItsReactionsAndCounts(t *testing.T) {
	t.Parallel()
	s := storagetest.Store(t)
	liked, err := s.Set(t.Context(), set("cat", "ann", storage.Like))
	require.NoError(t, err)
	_, err = s.Set(t.Context(), set("cat", "bob", storage.Dislike))
	require.NoError(t, err)
	for _, state := range []storage.VideoState{storage.VideoDisabled, storage.VideoDeleted} {
		setState(t, s, "cat", state)
		setState(t, s, "cat", storage.VideoActive)
		reaction, err := s.Get(t.Context(), slotOf("cat", "ann"), "cat", "ann")
		require.NoError(t, err)
		require.Equal(t, storage.State{Reaction: storage.Like, Version: liked.Version}, reaction)
		requireExact(t, s, "cat", storage.Tally{Likes: 1, Dislikes: 1})
	}
	again, err := s.Set(t.Context(), set("cat", "ann", storage.None))
	require.NoError(t, err)
	require.Equal(t, liked.Version+1, again.Version)
}

// A key that was used while the video was active is replayed afterwards: what
// happened, happened.
func TestAReplayOutlivesTheVideosState(t *testing.T) {
	t.Parallel()
	s := storagetest.Store(t)
	ask := set("cat", "ann", storage.Like)
	ask.IdempotencyKey = "once"
	first, err := s.Set(t.Context(), ask)
	require.NoError(t, err)
	setState(t, s, "cat", storage.VideoDisabled)
	again, err := s.Set(t.Context(), ask)
	require.NoError(t, err)
	requireSameResult(t, first, again)
}

// Whoever comes at once, each change of state is one generation.
func TestAdministratorsAtOnce(t *testing.T) {
	t.Parallel()
	url := storagetest.URL(t)
	var wg sync.WaitGroup
	var changed atomic.Int64
	for caller := range 4 {
		s := storagetest.Open(t, url)
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(3, uint64(caller)))
			for range 10 {
				change, err := s.SetVideoState(t.Context(), "cat", videoStates()[rng.IntN(3)])
				require.NoError(t, err)
				require.Equal(t, change.Previous != change.State, change.Changed)
				if change.Changed {
					changed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, changed.Load(), count(t, url, "SELECT coalesce(max(generation), 0) FROM videos"))
}

// through returns the URL of a proxy before a database.
func through(t *testing.T, url string) (*pgproxy.Proxy, string) {
	t.Helper()
	proxy, err := pgproxy.New(t.Context(), target(t, url))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	proxied, err := proxy.URL(url)
	require.NoError(t, err)
	return proxy, proxied
}

// barrier disables a video while three nodes write it, and while the flush of a
// fourth, which has read that the video is active, is held by a fault. It
// reports changes that were committed after SetVideoState had returned.
func barrier(fault pgproxy.Fault) scenario {
	return func(t *testing.T) []string {
		url := storagetest.URL(t)
		proxy, proxied := through(t, url)
		slow := storagetest.Open(t, proxied, oneWorker)
		nodes := []*storage.Store{storagetest.Open(t, url), storagetest.Open(t, url), storagetest.Open(t, url)}
		_, err := slow.Set(t.Context(), set("cat", "ann", storage.Like))
		require.NoError(t, err)

		var wg sync.WaitGroup
		var disabled atomic.Bool
		for caller := range 12 {
			wg.Go(func() {
				for i := 0; !disabled.Load(); i++ {
					user := storage.UserID(fmt.Sprintf("user-%d-%d", caller, i))
					_, _ = nodes[i%len(nodes)].Set(t.Context(), set("cat", user, storage.Like)) // refused in the end
				}
			})
		}
		armed := proxy.Arm(fault)
		wg.Go(func() { _, _ = slow.Set(t.Context(), set("cat", "ann", storage.Dislike)) })
		tookHold(t, armed)

		change, err := nodes[0].SetVideoState(t.Context(), "cat", storage.VideoDisabled)
		before := count(t, url, "SELECT count(*) FROM changes WHERE video_id = 'cat'")
		var f findings
		if err != nil || !change.Changed {
			f.add("disable: %+v, %v", change, err)
		}
		disabled.Store(true)
		wg.Wait()
		if after := count(t, url, "SELECT count(*) FROM changes WHERE video_id = 'cat'"); after != before {
			f.add("%d changes were committed after the video was disabled", after-before)
		}
		if before < 2 {
			f.add("nobody wrote")
		}
		return append(f.found, anomalies(t, url)...)
	}
}

// Nobody who saw the video active commits after it was disabled: held between
// two round trips, in the middle of the last, or gone for good.
func TestNothingCommitsBehindTheBarrier(t *testing.T) {
	t.Parallel()
	for _, fault := range []pgproxy.Fault{
		pgproxy.HoldFlush().HealAfter(700 * time.Millisecond),
		pgproxy.HoldCommit().HealAfter(700 * time.Millisecond),
		pgproxy.HoldFlush().HealAfter(2500 * time.Millisecond), // the database has given up on it before
		pgproxy.BlackHoleInTransaction().HealAfter(4 * time.Second),
	} {
		t.Run(fault.Name+" "+fault.After.String(), func(t *testing.T) {
			t.Parallel()
			require.Empty(t, barrier(fault)(t))
		})
	}
}

// A node that was stopped while it holds heads holds up the barrier until the
// database ends its transaction.
func TestTheBarrierEndsWithoutAStoppedNode(t *testing.T) {
	t.Parallel()
	url := storagetest.URL(t)
	proxy, proxied := through(t, url)
	stopped := storagetest.Open(t, proxied, oneWorker)
	armed := proxy.Arm(pgproxy.BlackHoleInTransaction())
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = stopped.Set(t.Context(), set("cat", "ann", storage.Like)) })
	tookHold(t, armed)

	other := storagetest.Open(t, url)
	require.True(t, setState(t, other, "cat", storage.VideoDisabled).Changed, "idle_in_transaction_session_timeout is 2 s")
	armed.Heal()
	wg.Wait()
	require.Zero(t, count(t, url, "SELECT count(*) FROM changes"))
}

func TestAVideoStateThatIsNotInForceIsUnsettled(t *testing.T) {
	t.Parallel()
	url := storagetest.URL(t)
	s := storagetest.Open(t, url)
	release := holdHead(t, url, 200)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := s.SetVideoState(ctx, "cat", storage.VideoDisabled)
		ended <- err
	}()
	require.Eventually(t, func() bool { return count(t, url, "SELECT count(*) FROM videos WHERE state = 2") == 1 }, time.Minute, 5*time.Millisecond)
	require.Empty(t, ended, "it waits for the head")
	cancel()
	err := <-ended
	var unsettled *storage.UnsettledError
	require.ErrorAs(t, err, &unsettled)
	require.ErrorIs(t, err, context.Canceled)
	release()

	require.Equal(t, storage.VideoChange{Previous: storage.VideoDisabled, State: storage.VideoDisabled, Generation: 1},
		setState(t, s, "cat", storage.VideoDisabled), "it was committed, and the repeat brings it into force")
}

func TestAVideoStateWithoutADatabaseIsDefinite(t *testing.T) {
	t.Parallel()
	url := storagetest.URL(t)
	proxy, proxied := through(t, url)
	s := storagetest.Open(t, proxied)
	proxy.Arm(pgproxy.Refuse())
	proxy.ResetAll()
	set := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.SetVideoState(ctx, "cat", storage.VideoDisabled)
		return err
	}
	require.Error(t, set(), "it meets the connections that broke, which might have carried it")
	var unavailable *storage.UnavailableError
	require.ErrorAs(t, set(), &unavailable, "nothing was sent")
	require.Zero(t, count(t, url, "SELECT count(*) FROM videos"))
}

func TestAVideoStateWithoutItsSlotsIsAnError(t *testing.T) {
	t.Parallel()
	url := storagetest.URL(t)
	s := storagetest.Open(t, url)
	_, err := storagetest.Conn(t, url).Exec(t.Context(), "DELETE FROM slots WHERE slot = 99")
	require.NoError(t, err)
	_, err = s.SetVideoState(t.Context(), "cat", storage.VideoDisabled)
	require.ErrorIs(t, err, storage.ErrStaleMap, "at once, although the context has time")
}

// Lost commits, and lost answers to them, of the state and of the barrier.
func TestAVideoStateOutlivesLostCommits(t *testing.T) {
	t.Parallel()
	for _, fault := range []pgproxy.Fault{
		pgproxy.DropCommitBefore(),
		pgproxy.DropCommitReplyAfter(),
		pgproxy.DropCommitReplyAfter().On(2),
		pgproxy.DropCommitBefore().On(9),
		pgproxy.HoldFlush().HealAfter(300 * time.Millisecond),
	} {
		t.Run(fmt.Sprintf("%s, commit %d, %s", fault.Name, max(fault.Nth, 1), fault.After), func(t *testing.T) {
			t.Parallel()
			url := storagetest.URL(t)
			proxy, proxied := through(t, url)
			s := storagetest.Open(t, proxied)
			armed := proxy.Arm(fault)
			change := setState(t, s, "cat", storage.VideoDisabled)
			tookHold(t, armed)
			require.Equal(t, storage.VideoDisabled, change.State)
			require.EqualValues(t, 1, change.Generation, "once, however often it was tried")
			requireVideoState(t, s, "cat", storage.VideoDisabled)
		})
	}
}
