package regions

import (
	"math"
	"slices"
	"sync"
	"time"

	"likewise/storage"
)

// countEntry holds the counter shards of one video.
//
// Its state is what merging full loads and pushes leads to, in whichever order
// they come: per shard the highest rev wins. What is not in a shard, the as-of,
// the video's state and which shards are gone, is what the newest load says. A
// shard that a load did not find is dropped only if outlives allows it. A push
// raises no as-of: it is one write, and says nothing of the others.
type countEntry struct {
	video storage.VideoID

	mu          sync.Mutex
	shards      []cachedShard      // guarded by mu; of distinct slots
	sum         tally              // guarded by mu; over shards
	asOf        time.Time          // guarded by mu; highest of the merged loads, zero before the first
	begun       time.Time          // guarded by mu; when the load that gave asOf began
	state       storage.VideoState // guarded by mu; as of asOf
	changedAt   time.Time          // guarded by mu; loads that began before it may have missed a change of the state
	refreshAt   time.Time          // guarded by mu
	pausedUntil time.Time          // guarded by mu; after a failed load, when to try again behind callers' backs
	flight      *flight            // guarded by mu; the load under way, or nil
}

// tally is a sum of counter shards.
type tally struct {
	likes, dislikes int64
	// saturated: the true sum is larger than a count can say.
	saturated bool
}

func (t *tally) add(s storage.CounterShard) {
	t.likes = t.plus(t.likes, s.Likes)
	t.dislikes = t.plus(t.dislikes, s.Dislikes)
}

// plus stays at the largest count instead of wrapping around.
func (t *tally) plus(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		t.saturated = true
		return math.MaxInt64
	}
	return a + b
}

type cachedShard struct {
	storage.CounterShard
	// pushedDuring is the load that was under way at the last push, if any.
	pushedDuring *flight
}

// flight is one load of one video.
type flight struct {
	begun time.Time
	done  chan struct{}
	err   error // written before done is closed
}

// snapshot is what an entry held at one moment.
type snapshot struct {
	tally
	state                  storage.VideoState
	asOf                   time.Time
	begun, changedAt       time.Time
	refreshAt, pausedUntil time.Time
}

func (s snapshot) loaded() bool { return !s.asOf.IsZero() }

// shown fails for a video that shows nothing.
func (s snapshot) shown() error {
	if s.state == storage.VideoDeleted {
		return &storage.VideoDeletedError{}
	}
	return nil
}

// outdated reports whether the state may have been changed since, by this node.
func (s snapshot) outdated() bool { return s.begun.Before(s.changedAt) }

func (e *countEntry) read() snapshot {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.readLocked()
}

func (e *countEntry) readLocked() snapshot {
	return snapshot{
		tally: e.sum, state: e.state,
		asOf: e.asOf, begun: e.begun, changedAt: e.changedAt,
		refreshAt: e.refreshAt, pausedUntil: e.pausedUntil,
	}
}

// begin returns the load under way, or a new one, which its caller must end by
// finish or fail.
func (e *countEntry) begin(now time.Time) (f *flight, begun bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.flight != nil {
		return e.flight, false
	}
	e.flight = &flight{begun: now, done: make(chan struct{})}
	return e.flight, true
}

// push merges a shard that a write returned, and returns what the entry holds
// then. It does nothing in an entry that has no load to be merged with.
func (e *countEntry) push(shard storage.CounterShard) snapshot {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.flight != nil || !e.asOf.IsZero() {
		at := e.mergeLocked(shard)
		e.shards[at].pushedDuring = e.flight
		e.addUpLocked()
	}
	return e.readLocked()
}

// finish merges what a load found, and ends it.
func (e *countEntry) finish(f *flight, loaded storage.CountShards, refreshAt time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	found := make(map[storage.Slot]bool, len(loaded.Shards))
	for _, shard := range loaded.Shards {
		found[shard.Slot] = true
		e.mergeLocked(shard)
	}
	if newest(loaded.AsOf, e.asOf) {
		e.asOf, e.begun, e.state = loaded.AsOf, f.begun, loaded.Video
		e.shards = slices.DeleteFunc(e.shards, func(s cachedShard) bool { return !found[s.Slot] && !outlives(s, f, loaded.AsOf) })
	}
	e.addUpLocked()
	e.refreshAt, e.pausedUntil = refreshAt, time.Time{}
	e.endLocked(f, nil)
}

// outdate asks for a load that begins after now: the video's state may have been
// changed just before.
func (e *countEntry) outdate(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changedAt = now
}

// fail ends a load that found nothing.
func (e *countEntry) fail(f *flight, err error, pausedUntil time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pausedUntil = pausedUntil
	e.endLocked(f, err)
}

func (e *countEntry) endLocked(f *flight, err error) {
	e.flight = nil
	f.err = err
	close(f.done)
}

// mergeLocked returns where in shards the slot is.
func (e *countEntry) mergeLocked(came storage.CounterShard) int {
	at := slices.IndexFunc(e.shards, func(s cachedShard) bool { return s.Slot == came.Slot })
	if at < 0 {
		e.shards = append(e.shards, cachedShard{CounterShard: came})
		return len(e.shards) - 1
	}
	if supersedes(came, e.shards[at].CounterShard) {
		e.shards[at].CounterShard = came
	}
	return at
}

func (e *countEntry) addUpLocked() {
	e.sum = tally{}
	for i := range e.shards {
		e.sum.add(e.shards[i].CounterShard)
	}
}
