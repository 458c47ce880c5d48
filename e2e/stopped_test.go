package e2e

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"likewise/deploy/local/cluster"
	"likewise/e2e/check"
	"likewise/e2e/fault/pgproxy"
	"likewise/storage"
	"likewise/storage/storagetest"
)

// victim is the node to which things happen. Its way to the database leads
// through a proxy.
const victim = "us-1"

// broken is a deployment whose victim can be hurt.
type broken struct {
	*deployment
	link *pgproxy.Proxy
	node *cluster.Node // the victim
}

// deployBroken runs a cluster with one worker for each node: what comes while
// that worker's transaction is under way waits, and the node's metrics say so.
func deployBroken(t *testing.T, options ...func(*cluster.Config)) *broken {
	t.Helper()
	b := &broken{}
	options = append(options, func(cfg *cluster.Config) {
		b.link = proxyTo(t, cfg.DatabaseURL)
		through, err := b.link.URL(cfg.DatabaseURL)
		require.NoError(t, err)
		direct := cfg.DatabaseURL
		cfg.DatabaseURLOf = func(node string) string {
			if node == victim {
				return through
			}
			return direct
		}
		cfg.Args = append(cfg.Args, "--commit-workers", "1")
	})
	b.deployment = deploy(t, options...)
	b.node = b.deployment.node(victim)
	return b
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

// stop pauses the victim, and returns how to let it go on. It goes on at the end
// of the test in any case.
func (b *broken) stop(t *testing.T) (goOn func()) {
	t.Helper()
	require.NoError(t, b.node.Signal(syscall.SIGSTOP))
	goOn = sync.OnceFunc(func() { require.NoError(t, b.node.Signal(syscall.SIGCONT)) })
	t.Cleanup(goOn)
	return goOn
}

// arm puts a fault on the victim's way to the database. It is healed at the end
// of the test in any case.
func (b *broken) arm(t *testing.T, f pgproxy.Fault) *pgproxy.Armed {
	t.Helper()
	armed := b.link.Arm(f)
	t.Cleanup(armed.Heal)
	return armed
}

// A node that stops at the worst moments loses nothing, applies nothing that it
// should not, and does not hold up the others.
func TestNodeStops(t *testing.T) {
	b := deployBroken(t)

	t.Run("with writes in its queue", func(t *testing.T) {
		b.awaitHealth(t)
		b.requireRight(t, b.writesInQueue(t, "queued").history(t))
	})
	t.Run("between the two round trips of a transaction", func(t *testing.T) {
		b.awaitHealth(t)
		p, freed := b.stopsBetween(t, "stopped-between")
		b.requireFreed(t, freed)
		b.requireRight(t, p.history(t))
	})
	t.Run("to reach the database there", func(t *testing.T) {
		b.awaitHealth(t)
		p, freed := b.cutBetween(t, "cut-between")
		b.requireFreed(t, freed)
		b.requireRight(t, p.history(t))
	})
}

// writesInQueue stops the victim while writes wait in it, lets the same users
// write elsewhere, and lets it go on.
func (b *broken) writesInQueue(t *testing.T, video string) *people {
	t.Helper()
	const share = 6
	p := newPeople(t, b.deployment)
	keys := b.keysAt(victim, video, 3*share)
	elsewhere := b.others(victim)
	require.Equal(t, len(keys), count(p.crowd(t.Context(), b.Nodes(), sets(keys, storage.Like)), succeeded))

	hungBefore := b.hung(t)
	dark := b.arm(t, pgproxy.BlackHole())
	var waiting, forwarded sync.WaitGroup
	// First those without an idempotency key, which their front door may not
	// repeat: the victim has begun at least one of them. They come from the same
	// region, and so before the others.
	neighbour := []*cluster.Node{b.deployment.node("us-2")}
	forwarded.Go(func() { p.crowd(t.Context(), neighbour, sets(keys[:share], storage.Dislike)) })
	b.awaitQueue(t, 1)
	waiting.Go(func() { p.crowd(t.Context(), []*cluster.Node{b.node}, sets(keys[share:2*share], storage.Dislike)) })
	forwarded.Go(func() {
		ops := sets(keys[2*share:], storage.Dislike)
		for i := range ops {
			ops[i].IdempotencyKey = "dislike"
		}
		p.crowd(t.Context(), elsewhere, ops)
	})
	b.awaitQueue(t, 2*share)
	goOn := b.stop(t)
	forwarded.Wait()

	later := p.crowd(t.Context(), elsewhere, sets(keys, storage.None))
	later = append(later, p.crowd(t.Context(), elsewhere, sets(keys, storage.Like))...)
	goOn()
	dark.Heal()
	waiting.Wait()

	ops := p.history(t)
	require.Greater(t, b.hung(t), hungBefore, "no forwarded write was queued in the stopped node: the test proves nothing")
	require.Positive(t, count(later, succeeded), "no later write went elsewhere: the test proves nothing")
	repeated := func(op check.Op) bool { return op.IdempotencyKey != "" }
	require.Equal(t, count(ops, repeated), count(ops, func(op check.Op) bool { return repeated(op) && succeeded(op) }),
		"a write under a key is repeated inside until it is acknowledged")
	return p
}

func sets(keys []check.Key, desired storage.Reaction) []check.Op {
	ops := make([]check.Op, len(keys))
	for i, key := range keys {
		ops[i] = set(key, desired)
	}
	return ops
}

// awaitQueue waits until at least n writes wait in the victim.
func (b *broken) awaitQueue(t *testing.T, n int) {
	t.Helper()
	eventually(t, "writes wait in the victim", func() bool {
		return b.metric(t.Context(), b.node, "likewise_storage_waiting_sets") >= float64(n)
	})
}

// hung returns how many writes the other nodes sent to somebody who did not
// answer.
func (b *broken) hung(t *testing.T) float64 {
	t.Helper()
	var sum float64
	for _, n := range b.others(victim) {
		sum += max(0, b.metric(t.Context(), n, `likewise_regions_forwarded_total{call="set",outcome="unknown"}`))
	}
	return sum
}

// stopsBetween stops the victim when the database waits for the second round
// trip of its transaction, and returns a write to the same slot elsewhere.
func (b *broken) stopsBetween(t *testing.T, video string) (*people, check.Op) {
	t.Helper()
	p := newPeople(t, b.deployment)
	key := b.keysAt(victim, video, 1)[0]
	require.True(t, succeeded(p.do(t.Context(), b.node, set(key, storage.Like))))

	// The answer to the first round trip is on its way for long enough to stop
	// the victim before it comes.
	slow := b.arm(t, pgproxy.Delay(time.Second))
	var stuck sync.WaitGroup
	stuck.Go(func() { p.do(t.Context(), b.node, set(key, storage.Dislike)) })
	conn := storagetest.Conn(t, b.url)
	eventually(t, "a transaction waits for its second round trip", func() bool { return idleInTransaction(t.Context(), conn) })
	goOn := b.stop(t)
	require.True(t, idleInTransaction(t.Context(), conn), "the transaction was over when the victim was stopped: the test proves nothing")

	freed := b.writeElsewhere(t, p, key)
	goOn()
	slow.Heal()
	stuck.Wait()
	return p, freed
}

// cutBetween cuts the victim from the database when that waits for the second
// round trip of its transaction, and returns a write to the same slot elsewhere.
func (b *broken) cutBetween(t *testing.T, video string) (*people, check.Op) {
	t.Helper()
	p := newPeople(t, b.deployment)
	key := b.keysAt(victim, video, 1)[0]
	require.True(t, succeeded(p.do(t.Context(), b.node, set(key, storage.Like))))

	dark := b.arm(t, pgproxy.BlackHoleInTransaction())
	var stuck sync.WaitGroup
	stuck.Go(func() { p.do(t.Context(), b.node, set(key, storage.Dislike)) })
	select {
	case <-dark.TookHold():
	case <-time.After(patience):
		require.FailNow(t, "no transaction was cut: the test proves nothing")
	}
	freed := b.writeElsewhere(t, p, key)
	dark.Heal()
	stuck.Wait()
	return p, freed
}

// slotFreeWithin is the promise: how long a node that stopped or vanished can
// hold up a slot.
const slotFreeWithin = 3 * time.Second

// writeElsewhere sets one key through a node of another region, which knows the
// victim as its home, and gives up when the slot should be free.
func (b *broken) writeElsewhere(t *testing.T, p *people, key check.Key) check.Op {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), slotFreeWithin)
	defer cancel()
	return p.do(ctx, b.deployment.node("ap-1"), keyed(set(key, storage.None), "elsewhere"))
}

// requireFreed demands that the write went through although the slot was held,
// and that what held it was not applied before.
func (b *broken) requireFreed(t *testing.T, op check.Op) {
	t.Helper()
	require.True(t, succeeded(op), "the slot was not free within %s: %s", slotFreeWithin, op)
	require.Equal(t, storage.Like, op.Result.Previous, "the stuck transaction was committed: the test proves nothing")
	t.Logf("the slot was free after %s", (op.Return - op.Call).Round(time.Millisecond))
}

// idleInTransaction reports whether the database waits for the next words of a
// node inside a transaction.
func idleInTransaction(ctx context.Context, conn *pgx.Conn) bool {
	var n int
	err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'likewise-write' AND state = 'idle in transaction'`).Scan(&n)
	return err == nil && n > 0
}
