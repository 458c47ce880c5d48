package storage_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"likewise/e2e/fault/pgproxy"
	"likewise/storage"
	"likewise/storage/storagetest"
)

// A scenario runs on a database of its own and returns what it found wrong. The
// tests demand that this is nothing; the negative controls switch a guard off
// and demand that it is something.
type scenario func(t *testing.T) []string

// findings collects what goes wrong at several places at once.
type findings struct {
	mu    sync.Mutex
	found []string // guarded by mu
}

func (f *findings) add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.found) < 20 {
		f.found = append(f.found, fmt.Sprintf(format, args...))
	}
}

func randomShard(storage.Slot) storage.Slot {
	return storage.Slot(rand.IntN(4))
}

func withShards(choose func(storage.Slot) storage.Slot) storagetest.Option {
	return func(c *storage.Config) { c.Committer.ColdSlot = choose }
}

// switching has a hundred callers on four nodes switch a few users' reactions,
// each node believing that every slot is its own.
func switching(t *testing.T) []string {
	url := storagetest.URL(t)
	var nodes []*storage.Store
	for range 4 {
		nodes = append(nodes, storagetest.Open(t, url, withShards(randomShard)))
	}
	var f findings
	var wg sync.WaitGroup
	for caller := range 100 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(caller)))
			for range 12 {
				user := storage.UserID(fmt.Sprintf("user-%d", rng.IntN(5)))
				ask := set("hot", user, storage.Reaction(rng.IntN(3)))
				if _, err := nodes[rng.IntN(len(nodes))].Set(t.Context(), ask); err != nil {
					f.add("set: %v", err)
				}
			}
		})
	}
	wg.Wait()
	return append(f.found, anomalies(t, url)...)
}

// duplicates sends the same like a hundred times at once, to four nodes.
func duplicates(t *testing.T) []string {
	url := storagetest.URL(t)
	var nodes []*storage.Store
	for range 4 {
		nodes = append(nodes, storagetest.Open(t, url, withShards(randomShard)))
	}
	var f findings
	var wg sync.WaitGroup
	results := make([]storage.Result, 100)
	for i := range results {
		wg.Go(func() {
			var err error
			if results[i], err = nodes[i%len(nodes)].Set(t.Context(), set("cat", "ann", storage.Like)); err != nil {
				f.add("set: %v", err)
			}
		})
	}
	wg.Wait()
	changed := 0
	for _, r := range results {
		if r.Changed {
			changed++
		}
		if r.Reaction != storage.Like || r.Version != results[0].Version {
			f.add("one of the repeats says %v", r)
		}
	}
	if changed != 1 {
		f.add("%d of the repeats say that they changed it", changed)
	}
	return append(f.found, anomalies(t, url)...)
}

// sharedShards has eight workers write overlapping sets of counter shards,
// which exist, and reports each time that the database had to break a deadlock.
func sharedShards(t *testing.T) []string {
	url := storagetest.URL(t)
	registry := prometheus.NewRegistry()
	video := func(i int) storage.VideoID { return storage.VideoID(fmt.Sprintf("video-%d", i)) }
	toShard := func(slot storage.Slot) storage.Slot { return slot % 2 }
	store := storagetest.Open(t, url, withShards(toShard), func(c *storage.Config) {
		c.Committer.Workers, c.Committer.BatchLimit, c.Registerer = 8, 16, registry
	})
	storage.KeepCold(store) // so that the shards are those that exist
	var f findings
	var wg sync.WaitGroup
	turn := func(user int, n int, desired func(int) storage.Reaction) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(2, uint64(user)))
			for i := range n {
				ask := set(video(rng.IntN(5)), storage.UserID(fmt.Sprintf("user-%d", user)), desired(i))
				if _, err := store.Set(t.Context(), ask); err != nil {
					f.add("set: %v", err)
				}
			}
		})
	}
	fill(t, store, video)
	before := counted(t, registry, "likewise_storage_attempt_failures_total")
	for user := range 96 {
		turn(user, 40, func(i int) storage.Reaction { return storage.Reaction(i % 3) })
	}
	wg.Wait()
	if n := counted(t, registry, "likewise_storage_attempt_failures_total") - before; n > 0 {
		f.add("%v transactions had to be broken", n)
	}
	return append(f.found, anomalies(t, url)...)
}

// fill makes every counter shard that sharedShards writes.
func fill(t *testing.T, store *storage.Store, video func(int) storage.VideoID) {
	t.Helper()
	for i := range 5 {
		made := map[storage.Slot]bool{}
		for user := 0; len(made) < 2; user++ {
			ask := set(video(i), storage.UserID(fmt.Sprintf("filler-%d", user)), storage.Like)
			if made[ask.Slot%2] {
				continue
			}
			made[ask.Slot%2] = true
			_, err := store.Set(t.Context(), ask)
			require.NoError(t, err)
		}
	}
}

func counted(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	sum := 0.0
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// ambiguous breaks the commit of one conditional Set, and one that changes
// nothing, with a fault, and demands that each has exactly one effect, and that
// the answer says which.
func ambiguous(fault pgproxy.Fault) scenario {
	return func(t *testing.T) []string {
		url := storagetest.URL(t)
		proxy, err := pgproxy.New(t.Context(), target(t, url))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, proxy.Close()) })
		through, err := proxy.URL(url)
		require.NoError(t, err)
		store := storagetest.Open(t, through, func(c *storage.Config) { c.Committer.Workers = 1 })
		var f findings
		first, err := store.Set(t.Context(), set("cat", "ann", storage.Like))
		require.NoError(t, err)

		ask := set("cat", "ann", storage.Dislike)
		ask.ExpectedVersion = new(first.Version)
		armed := proxy.Arm(fault)
		got, err := store.Set(t.Context(), ask)
		tookHold(t, armed)
		if err != nil || !got.Changed || got.Previous != storage.Like || got.Version != first.Version+1 {
			f.add("a change: %+v, %v", got, err)
		}

		armed = proxy.Arm(fault)
		noop, err := store.Set(t.Context(), set("cat", "ann", storage.Dislike))
		tookHold(t, armed)
		if err != nil || noop.Changed || noop.Version != got.Version {
			f.add("no change: %+v, %v", noop, err)
		}
		return append(f.found, anomalies(t, url)...)
	}
}

func target(t *testing.T, url string) string {
	t.Helper()
	addr, err := pgproxy.Target(url)
	require.NoError(t, err)
	return addr
}

func tookHold(t *testing.T, armed *pgproxy.Armed) {
	t.Helper()
	select {
	case <-armed.TookHold():
	case <-time.After(10 * time.Second):
		t.Fatalf("the fault %q did not take hold", armed.Fault().Name)
	}
}

// vanishing makes the link of a node go dark between the two round trips of a
// transaction, and demands that another node can write the slot within 3 s.
func vanishing(t *testing.T) []string {
	url := storagetest.URL(t)
	proxy, err := pgproxy.New(t.Context(), target(t, url))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	through, err := proxy.URL(url)
	require.NoError(t, err)
	lost := storagetest.Open(t, through, func(c *storage.Config) { c.Committer.Workers = 1 })
	other := storagetest.Open(t, url)
	_, err = other.Set(t.Context(), set("cat", "ann", storage.Like))
	require.NoError(t, err)

	armed := proxy.Arm(pgproxy.BlackHoleInTransaction())
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = lost.Set(t.Context(), set("cat", "ann", storage.Dislike)) })
	defer wg.Wait()
	defer armed.Heal()
	tookHold(t, armed)

	var f findings
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if got, err := other.Set(ctx, set("cat", "ann", storage.None)); err != nil || !got.Changed {
		f.add("after %s: %+v, %v", "3 s", got, err)
	}
	return f.found
}

// missingHead takes a slot out of the database and demands that nothing is
// answered from it, not even that nothing changed.
func missingHead(t *testing.T) []string {
	url := storagetest.URL(t)
	store := storagetest.Open(t, url)
	_, err := storagetest.Conn(t, url).Exec(t.Context(), "DELETE FROM slots WHERE slot = $1", int64(slotOf("cat", "ann")))
	require.NoError(t, err)
	if _, err := store.Set(t.Context(), set("cat", "ann", storage.None)); !errors.Is(err, storage.ErrStaleMap) {
		return []string{fmt.Sprintf("set on a slot that is not there: %v", err)}
	}
	return nil
}
