package regions

import (
	"slices"
	"sync"
	"time"

	"likewise/storage"
)

// countEntry holds the counter shards of one video.
//
// Its state is what merging full loads and pushes leads to, in whichever order
// they come: per shard the highest rev wins. A shard that a load did not find is
// dropped only if outlives allows it. A push raises no as-of: it is one write,
// and says nothing of the others.
type countEntry struct {
	video storage.VideoID

	mu          sync.Mutex
	shards      []cachedShard // guarded by mu; of distinct slots
	likes       int64         // guarded by mu; the sum over shards
	dislikes    int64         // guarded by mu; the sum over shards
	asOf        time.Time     // guarded by mu; highest of the merged loads, zero before the first
	begun       time.Time     // guarded by mu; when the load that gave asOf began
	refreshAt   time.Time     // guarded by mu
	pausedUntil time.Time     // guarded by mu; after a failed load, when to try again behind callers' backs
	flight      *flight       // guarded by mu; the load under way, or nil
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
	likes, dislikes        int64
	asOf                   time.Time
	begun                  time.Time
	refreshAt, pausedUntil time.Time
}

func (s snapshot) loaded() bool { return !s.asOf.IsZero() }

func (e *countEntry) read() snapshot {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.readLocked()
}

func (e *countEntry) readLocked() snapshot {
	return snapshot{
		likes: e.likes, dislikes: e.dislikes,
		asOf: e.asOf, begun: e.begun,
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
	e.dropLocked(func(s cachedShard) bool { return !found[s.Slot] && !outlives(s, f, loaded.AsOf) })
	if loaded.AsOf.After(e.asOf) {
		e.asOf, e.begun = loaded.AsOf, f.begun
	}
	e.refreshAt, e.pausedUntil = refreshAt, time.Time{}
	e.endLocked(f, nil)
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
		e.likes, e.dislikes = e.likes+came.Likes, e.dislikes+came.Dislikes
		return len(e.shards) - 1
	}
	if have := e.shards[at].CounterShard; supersedes(came, have) {
		e.shards[at].CounterShard = came
		e.likes, e.dislikes = e.likes+came.Likes-have.Likes, e.dislikes+came.Dislikes-have.Dislikes
	}
	return at
}

func (e *countEntry) dropLocked(gone func(cachedShard) bool) {
	e.shards = slices.DeleteFunc(e.shards, func(s cachedShard) bool {
		if !gone(s) {
			return false
		}
		e.likes, e.dislikes = e.likes-s.Likes, e.dislikes-s.Dislikes
		return true
	})
}
