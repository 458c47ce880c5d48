package regions

import (
	"errors"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"likewise/storage"
)

// entryModel is a database with one video, one cache entry, and whatever is on
// the way between the two: pushes in any order, and a load, alone or in a batch,
// from the primary or from a standby that lags.
type entryModel struct {
	entry countEntry

	now    int64 // the database's clock, in microseconds
	state  storage.VideoState
	shards map[storage.Slot]storage.CounterShard
	likes  map[storage.Slot][]committed
	pushes []storage.CounterShard
	past   []storage.CountShards // what a standby may still believe

	flight *flight
	loaded *storage.CountShards // the snapshot of flight, once taken
	newest storage.CountShards  // the newest that the entry was given

	// fault is the first promise that was broken.
	fault error
}

type committed struct{ at, rev int64 }

func newEntryModel() *entryModel {
	return &entryModel{
		now:    1_000_000,
		state:  storage.VideoActive,
		shards: make(map[storage.Slot]storage.CounterShard),
		likes:  make(map[storage.Slot][]committed),
	}
}

func (m *entryModel) commit(slot storage.Slot) {
	shard := m.shards[slot]
	shard.Slot, shard.Likes, shard.Rev = slot, shard.Likes+1, max(shard.Rev+1, m.now)
	m.shards[slot] = shard
	m.now++
	m.likes[slot] = append(m.likes[slot], committed{at: m.now, rev: shard.Rev})
	m.pushes = append(m.pushes, shard)
}

// remove is what a purge does: the shard is gone, and with it its history.
func (m *entryModel) remove(slot storage.Slot) {
	delete(m.shards, slot)
	delete(m.likes, slot)
	m.now += 2
}

func (m *entryModel) push(i int) {
	shard := m.pushes[i]
	m.pushes = slices.Delete(m.pushes, i, i+1)
	known := m.flight != nil || m.entry.read().loaded()
	m.entry.push(shard)
	if known {
		m.requireRev(shard.Slot, shard.Rev, "a push that came is in")
	}
}

func (m *entryModel) setState(state storage.VideoState) {
	m.state = state
	m.now++
}

func (m *entryModel) begin() { m.flight, _ = m.entry.begin(time.UnixMicro(m.now)) }

// snapshot reads the primary, or, where it lags, what was read of late.
func (m *entryModel) snapshot(lag int) {
	m.past = append(m.past, storage.CountShards{
		AsOf: time.UnixMicro(m.now), Video: m.state, Shards: slices.Collect(maps.Values(m.shards)),
	})
	m.now++
	m.loaded = &m.past[max(0, len(m.past)-1-lag)]
}

func (m *entryModel) finish() {
	before := m.revs()
	m.entry.finish(m.flight, *m.loaded, time.Time{})
	if m.loaded.AsOf.After(m.newest.AsOf) {
		m.newest = *m.loaded
	}
	for slot, rev := range before {
		if len(m.likes[slot]) > 0 && m.likes[slot][0].rev <= rev { // not removed since
			m.requireRev(slot, rev, "a load takes nothing back")
		}
	}
	m.flight, m.loaded = nil, nil
}

func (m *entryModel) revs() map[storage.Slot]int64 {
	revs := make(map[storage.Slot]int64)
	for _, s := range m.entry.shards {
		revs[s.Slot] = s.Rev
	}
	return revs
}

func (m *entryModel) requireRev(slot storage.Slot, rev int64, promise string) {
	if m.revs()[slot] < rev && m.fault == nil {
		m.fault = errors.New(promise)
	}
}

// check holds after every step: every write committed before the as-of is in,
// the as-of is never ahead, and the sums are those of the shards.
func (m *entryModel) check() {
	got := m.entry.read()
	if got.asOf.After(time.UnixMicro(m.now)) {
		m.fault = errors.New("the as-of is ahead of the database")
	}
	for slot, writes := range m.likes {
		for _, w := range writes {
			if got.loaded() && w.at < got.asOf.UnixMicro() {
				m.requireRev(slot, w.rev, "a write before the as-of is in")
			}
		}
	}
	var likes int64
	for _, s := range m.entry.shards {
		likes += s.Likes
	}
	if likes != got.likes {
		m.fault = errors.New("the sum is that of the shards")
	}
	if got.state != m.newest.Video || !got.asOf.Equal(m.newest.AsOf) {
		m.fault = errors.New("as-of and state are those of the newest load")
	}
}

// settle delivers everything and loads once more: shown = stored.
func (m *entryModel) settle() {
	if m.flight != nil {
		if m.loaded == nil {
			m.snapshot(0)
		}
		m.finish()
	}
	for len(m.pushes) > 0 {
		m.push(0)
	}
	m.now += 2
	m.begin()
	m.snapshot(0)
	m.finish()
	m.check()
	stored := make(map[storage.Slot]int64)
	for slot, s := range m.shards {
		stored[slot] = s.Rev
	}
	if (!maps.Equal(stored, m.revs()) || m.entry.read().state != m.state) && m.fault == nil {
		m.fault = errors.New("in the quiet, shown = stored")
	}
}

func (m *entryModel) step(t *rapid.T) {
	slot := storage.Slot(rapid.Int64Range(0, 2).Draw(t, "slot"))
	m.now += rapid.Int64Range(0, 3).Draw(t, "pass")
	switch step := rapid.IntRange(0, 12).Draw(t, "step"); {
	case step < 4:
		m.commit(slot)
	case step < 7 && len(m.pushes) > 0:
		m.push(rapid.IntRange(0, len(m.pushes)-1).Draw(t, "push"))
	case step == 7:
		m.remove(slot)
	case step == 8:
		m.setState(storage.VideoState(rapid.IntRange(1, 3).Draw(t, "state")))
	case m.flight == nil:
		m.begin()
	case m.loaded == nil:
		m.snapshot(rapid.IntRange(0, 3).Draw(t, "lag"))
	default:
		m.finish()
	}
	m.check()
}

// R33: loads and pushes in any order end at the highest rev.
func TestLoadsAndPushesMergeInAnyOrder(t *testing.T) {
	t.Parallel()
	if !guarded {
		t.Run("and without revs a fixed order goes wrong", oldLoadAfterPush)
		return
	}
	rapid.Check(t, func(t *rapid.T) {
		m := newEntryModel()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			m.step(t)
		}
		m.settle()
		require.NoError(t, m.fault)
	})
}

func oldLoadAfterPush(t *testing.T) {
	m := newEntryModel()
	m.commit(1)
	m.begin()
	m.snapshot(0)
	m.commit(1)
	m.push(1)
	m.finish()
	require.Error(t, m.fault)
}

func TestAPushWhileALoadRunsIsKept(t *testing.T) {
	t.Parallel()

	t.Run("over an older value in the load", func(t *testing.T) {
		t.Parallel()
		var e countEntry
		f, _ := e.begin(time.Now())
		e.push(storage.CounterShard{Slot: 1, Likes: 2, Rev: 20})
		e.finish(f, storage.CountShards{AsOf: time.UnixMicro(15), Shards: []storage.CounterShard{{Slot: 1, Likes: 1, Rev: 10}}}, time.Time{})
		requireGuard(t, e.read().likes == 2, "the newer value stays")
	})

	t.Run("where the load's snapshot came before the shard", func(t *testing.T) {
		t.Parallel()
		var e countEntry
		f, _ := e.begin(time.Now())
		// The shard's rev is the clock when it was written, before its commit; the
		// snapshot lies between the two.
		e.push(storage.CounterShard{Slot: 1, Likes: 1, Rev: 10})
		e.finish(f, storage.CountShards{AsOf: time.UnixMicro(15)}, time.Time{})
		requireGuard(t, e.read().likes == 1, "the load did not discard the push")
	})
}

// A database that lags answers late what was true before.
func TestAnOlderLoadTakesNothingBack(t *testing.T) {
	t.Parallel()
	var e countEntry
	for _, loaded := range []storage.CountShards{
		{AsOf: time.UnixMicro(30), Video: storage.VideoDeleted, Shards: []storage.CounterShard{{Slot: 1, Likes: 1, Rev: 10}}},
		{AsOf: time.UnixMicro(20), Video: storage.VideoActive},
	} {
		f, _ := e.begin(time.Now())
		e.finish(f, loaded, time.Time{})
	}
	got := e.read()
	requireGuard(t, got.state == storage.VideoDeleted && got.likes == 1 && got.asOf.Equal(time.UnixMicro(30)),
		"state, shards and as-of are those of the newer load")
}

func TestSumsStayAtTheLargestCount(t *testing.T) {
	t.Parallel()
	const most = math.MaxInt64
	for name, c := range map[string]struct {
		shards    []int64
		likes     int64
		saturated bool
	}{
		"beyond a float":     {shards: []int64{1 << 53, 1}, likes: 1<<53 + 1},
		"the largest":        {shards: []int64{most - 1, 1}, likes: most},
		"one more":           {shards: []int64{most, 1}, likes: most, saturated: true},
		"several times that": {shards: []int64{most, most, most, 5}, likes: most, saturated: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var e countEntry
			var loaded storage.CountShards
			for slot, n := range c.shards {
				loaded.Shards = append(loaded.Shards, storage.CounterShard{Slot: storage.Slot(slot), Likes: n, Dislikes: n, Rev: 1})
			}
			loaded.AsOf = time.UnixMicro(10)
			f, _ := e.begin(time.Now())
			e.finish(f, loaded, time.Time{})
			require.Equal(t, tally{likes: c.likes, dislikes: c.likes, saturated: c.saturated}, e.read().tally)

			last := storage.Slot(len(c.shards) - 1)
			for slot := range last + 1 { // shards that go down again end the saturation
				e.push(storage.CounterShard{Slot: slot, Likes: 1, Rev: 2})
			}
			require.Equal(t, tally{likes: int64(last) + 1}, e.read().tally)
		})
	}
}

func TestCountEntry(t *testing.T) {
	t.Parallel()

	t.Run("drops a shard that an own later load does not find", func(t *testing.T) {
		t.Parallel()
		var e countEntry
		f, _ := e.begin(time.Now())
		e.push(storage.CounterShard{Slot: 1, Likes: 1, Rev: 10})
		e.finish(f, storage.CountShards{AsOf: time.UnixMicro(15)}, time.Time{})
		f, _ = e.begin(time.Now())
		e.finish(f, storage.CountShards{AsOf: time.UnixMicro(30)}, time.Time{})
		require.Zero(t, e.read().likes)
	})

	t.Run("takes no push before there is anything to merge it with", func(t *testing.T) {
		t.Parallel()
		var e countEntry
		e.push(storage.CounterShard{Slot: 1, Likes: 1, Rev: 10})
		require.False(t, e.read().loaded())
		require.Empty(t, e.shards)
	})

	t.Run("never lowers its as-of", func(t *testing.T) {
		t.Parallel()
		var e countEntry
		for _, asOf := range []int64{30, 20} {
			f, _ := e.begin(time.Now())
			e.finish(f, storage.CountShards{AsOf: time.UnixMicro(asOf)}, time.Time{})
		}
		e.push(storage.CounterShard{Slot: 1, Likes: 1, Rev: 99})
		require.Equal(t, time.UnixMicro(30), e.read().asOf)
	})
}
