package regions

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/storage"
)

// The three ways to lose an answer.
func losses() map[string]func(c cluster) {
	return map[string]func(c cluster){
		"the node hangs before it has applied it": func(c cluster) { c.home.store.beforeSet = hang },
		"the node hangs after it has applied it":  func(c cluster) { c.home.store.afterSet = hang },
		"the connection breaks": func(c cluster) {
			c.home.store.afterSet = func(context.Context, storage.Set) error { panic(http.ErrAbortHandler) }
		},
	}
}

func TestALostAnswerWithoutAKeyIsUnknown(t *testing.T) {
	t.Parallel()
	for name, lose := range losses() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t)
			lose(c)
			_, err := c.set(t, like("cat"))
			if !guarded {
				require.NoError(t, err, "sent again, blindly")
				return
			}
			got := requireCode(t, connect.CodeUnavailable, err)
			detailOf[*likewisev1.OutcomeUnknown](t, got)
			require.Equal(t, "outcome unknown; repeat with an idempotency key", got.Message())
			c.requireSets(t, 1, 0, 0)
		})
	}
}

func TestALostAnswerUnderAKeyIsAskedForElsewhere(t *testing.T) {
	t.Parallel()
	for name, lose := range losses() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t)
			lose(c)
			resp, err := c.set(t, withKey(like("cat"), "k1"))
			require.NoError(t, err)
			require.True(t, resp.GetChanged())
			require.EqualValues(t, 1, resp.GetVersion(), "one effect")
			c.requireSets(t, 1, 1, 0)
		})
	}
}

// A refusal may be due to this very write.
func TestARefusalAfterALostAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]error{
		"version mismatch": &storage.VersionMismatchError{Current: storage.State{Reaction: storage.Like, Version: 1}},
		"key reused":       &storage.KeyReusedError{Key: "k1"},
		"video disabled":   &storage.VideoStateError{State: storage.VideoDisabled},
		"overload":         &storage.OverloadedError{RetryAfter: time.Second},
		"no database":      &storage.UnavailableError{RetryAfter: time.Second, Cause: errDriver},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t)
			c.home.store.afterSet = func(context.Context, storage.Set) error { panic(http.ErrAbortHandler) }
			c.second.store.beforeSet = func(context.Context, storage.Set) error { return refusal }
			_, err := c.set(t, withKey(like("cat"), "k1"))
			got, want := connect.CodeOf(err), toConnect(storage.ErrOutcomeUnknown)
			requireGuard(t, got == want.Code() && err.Error() == want.Error(), "unknown, and no refusal")
			c.requireSets(t, 1, 1, 0)
		})
	}
}

func TestAllAnswersLostUnderAKeyIsUnknown(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	for _, n := range []*node{c.home, c.second} {
		n.store.afterSet = func(context.Context, storage.Set) error { panic(http.ErrAbortHandler) }
	}
	c.front.store.beforeSet = func(context.Context, storage.Set) error { return storage.ErrClosing }
	_, err := c.set(t, withKey(like("cat"), "k1"))
	detailOf[*likewisev1.OutcomeUnknown](t, requireCode(t, connect.CodeUnavailable, err))
	c.requireSets(t, 1, 1, 1)
}

func TestANodeThatHangsIsAvoidedUntilItAnswers(t *testing.T) {
	t.Parallel()
	proxy := startProxy(t)
	c := startCluster(t, func(cfg *Config, _ *Deps) { cfg.Peers.Proxy = proxy.url })
	_, err := c.set(t, withKey(like("cat"), "k1"))
	require.NoError(t, err)
	c.requireSets(t, 1, 0, 0)

	heal := proxy.cut()
	_, err = c.set(t, withKey(like("cat"), "k2"))
	require.NoError(t, err)
	require.True(t, c.front.router.health.avoids(c.home.routingNode()))
	began := time.Now()
	_, err = c.set(t, like("cat"))
	require.NoError(t, err)
	require.Less(t, time.Since(began), patientHop, "no second timeout")

	heal()
	require.Eventually(t, func() bool { return c.front.router.health.count() == 0 }, 20*time.Second, 20*time.Millisecond)
	sets := c.home.store.sets.Load()
	_, err = c.set(t, like("cat"))
	require.NoError(t, err)
	require.Equal(t, sets+1, c.home.store.sets.Load())
}

// A killed process: its connections break with calls on them. net/http, which
// holds the body and could, does not send them again.
func TestBrokenConnectionsRepeatNothing(t *testing.T) {
	t.Parallel()
	proxy := startProxy(t)
	c := startCluster(t, func(cfg *Config, _ *Deps) { cfg.Peers.Proxy = proxy.url })
	_, err := c.set(t, like("warm-up"))
	require.NoError(t, err)

	const calls = 20
	var arrived sync.WaitGroup
	arrived.Add(calls)
	var sets atomic.Int64
	wait := func(ctx context.Context, _ storage.Set) error {
		if sets.Add(1) > calls {
			return nil // it came a second time
		}
		arrived.Done()
		<-ctx.Done()
		return storage.ErrOutcomeUnknown
	}
	for _, n := range []*node{c.home, c.second, c.front} {
		n.store.beforeSet = wait
	}
	c.front.router.peers.hopTimeout = time.Minute
	client := c.front.as(t, c.user)
	codes := make(chan connect.Code, calls)
	for range calls {
		go func() {
			_, err := client.SetReaction(t.Context(), like("cat"))
			codes <- connect.CodeOf(err)
		}()
	}
	arrived.Wait()
	proxy.breakAll()
	for range calls {
		code := <-codes
		require.True(t, code == connect.CodeUnavailable || !guarded, "%v", code)
	}
	requireGuard(t, sets.Load() == calls, "nothing came a second time")
}
