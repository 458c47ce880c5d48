package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"likewise/e2e/check"
	"likewise/e2e/fault/pgproxy"
	"likewise/storage"
	"likewise/storage/storagetest"
)

func TestMain(m *testing.M) { storagetest.Main(m) }

const (
	clients      = 6
	opsPerClient = 12
	slot         = storage.Slot(200)
	// holdFor is how long a late COMMIT is late: long enough for others to run
	// into its locks, short of the limit on idle transactions (2 s).
	holdFor = 500 * time.Millisecond
	// darkFor is longer than that limit.
	darkFor = 3 * time.Second
)

// Whatever becomes of a COMMIT, each Set has one effect or none, and its client
// is not told otherwise.
func TestCommitFaultsUnderTraffic(t *testing.T) {
	t.Parallel()
	for _, f := range pgproxy.Faults() {
		if f.When == pgproxy.Now {
			continue
		}
		for nth := range 2 {
			t.Run(fmt.Sprintf("%s/%d", f.Name, nth+1), func(t *testing.T) {
				t.Parallel()
				at := storagetest.URL(t)
				proxy := proxyTo(t, at)
				throughProxy, err := proxy.URL(at)
				require.NoError(t, err)
				stores := []*storage.Store{storagetest.Open(t, throughProxy), storagetest.Open(t, at)}

				t.Cleanup(proxy.ResetAll) // pgx waits 15 s for the end of a connection that it gave up

				armed := proxy.Arm(f.On(nth + 1).HealAfter(duration(f)))
				r := &recorder{began: time.Now()}
				r.traffic(t.Context(), stores, uint64(nth))
				requireClosed(t, armed.TookHold())
				armed.Heal()
				_, err = stores[1].Get(t.Context(), slot, key().Video, key().User)
				require.NoError(t, err)
				r.do(t.Context(), stores[1], check.Op{Kind: check.Get, Key: key(), Client: clients})

				require.NoError(t, errors.Join(r.unexpected...))
				require.Empty(t, check.Report(check.Linearizable(r.ops, check.Options{})))
				require.Empty(t, check.Report(check.Versions(r.ops)))
				storagetest.Audit(t, at)
				t.Logf("the commit: %s; %s", armed.Outcome(), r.summary())
			})
		}
	}
}

func duration(f pgproxy.Fault) time.Duration {
	if f.Link == pgproxy.Dark {
		return darkFor
	}
	return holdFor
}

func proxyTo(t *testing.T, url string) *pgproxy.Proxy {
	t.Helper()
	target, err := pgproxy.Target(url)
	require.NoError(t, err)
	proxy, err := pgproxy.New(t.Context(), target)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	return proxy
}

func requireClosed(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	default:
		require.FailNow(t, "the fault did not take hold: the test proves nothing")
	}
}

// recorder collects what clients were told.
type recorder struct {
	began time.Time

	mu         sync.Mutex
	ops        []check.Op // guarded by mu
	unexpected []error    // guarded by mu
}

// traffic lets clients set and read one reaction, each through any store.
func (r *recorder) traffic(ctx context.Context, stores []*storage.Store, seed uint64) {
	var running sync.WaitGroup
	for id := range clients {
		rng := rand.New(rand.NewPCG(seed, uint64(id)))
		running.Go(func() {
			for range opsPerClient {
				r.do(ctx, stores[rng.IntN(len(stores))], draw(rng, id))
			}
		})
	}
	running.Wait()
}

func key() check.Key { return check.Key{Video: "cat", User: "alice"} }

func draw(rng *rand.Rand, client int) check.Op {
	op := check.Op{Kind: check.Set, Key: key(), Client: client}
	op.Desired = storage.Reaction(rng.IntN(3))
	switch rng.IntN(6) {
	case 0:
		op.Kind = check.Get
	case 1: // few keys, so that they are repeated; each with one reaction
		op.IdempotencyKey = fmt.Sprintf("%s-%d", op.Desired, rng.IntN(2))
	case 2:
		expected := int64(rng.IntN(10))
		op.Expected = &expected
	}
	return op
}

// do carries out an operation and records how it ended.
func (r *recorder) do(ctx context.Context, store *storage.Store, op check.Op) {
	op.Call = time.Since(r.began)
	var err error
	if op.Kind == check.Get {
		var state storage.State
		state, err = store.Get(ctx, slot, op.Key.Video, op.Key.User)
		op.Result = check.Result{Reaction: state.Reaction, Version: state.Version}
	} else {
		var result storage.Result
		result, err = store.Set(ctx, storage.Set{
			Slot: slot, Video: op.Key.Video, User: op.Key.User,
			Desired: op.Desired, ExpectedVersion: op.Expected, IdempotencyKey: op.IdempotencyKey,
		})
		op.Result = check.Result{Previous: result.Previous, Reaction: result.Reaction, Version: result.Version, Changed: result.Changed}
	}
	op.Return = time.Since(r.began)
	r.end(op, err)
}

func (r *recorder) end(op check.Op, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var mismatch *storage.VersionMismatchError
	var overloaded *storage.OverloadedError
	var unavailable *storage.UnavailableError
	switch {
	case err == nil:
		op.Outcome = check.OK
	case errors.As(err, &mismatch):
		op.Outcome = check.Refused
		op.Result = check.Result{Reaction: mismatch.Current.Reaction, Version: mismatch.Current.Version}
	case errors.Is(err, storage.ErrOutcomeUnknown):
		op.Outcome = check.Unknown
	case op.Kind == check.Get, errors.As(err, &overloaded), errors.As(err, &unavailable),
		errors.Is(err, context.DeadlineExceeded): // nothing was tried
		op.Outcome = check.Failed
	default:
		r.unexpected = append(r.unexpected, err)
	}
	r.ops = append(r.ops, op)
}

func (r *recorder) summary() string {
	counts := map[check.Outcome]int{}
	for _, op := range r.ops {
		counts[op.Outcome]++
	}
	return fmt.Sprintf("%d acknowledged, %d refused, %d failed, %d unknown",
		counts[check.OK], counts[check.Refused], counts[check.Failed], counts[check.Unknown])
}
