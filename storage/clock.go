package storage

import (
	"sync"
	"time"
)

// clockMemory is for how long an observation counts. Two clocks that differ in
// rate by 100 millionths part by 6 ms in twice that time.
const clockMemory = 30 * time.Second

// Clock estimates the time of the database's primary: the highest time seen
// from it of late, carried forward by this process's monotonic clock. No wall
// clock of a node decides anything. The zero Clock is ready; it is safe for
// concurrent use.
type Clock struct {
	mu     sync.Mutex
	older  sighting  // guarded by mu; the highest of the memory before
	newer  sighting  // guarded by mu; the highest of the present memory
	rotate time.Time // guarded by mu; when newer becomes older
}

// sighting is a time of the database, and when it was seen.
type sighting struct{ database, local time.Time }

// at is the database's time at a local time, by this sighting.
func (s sighting) at(local time.Time) time.Time {
	if s.database.IsZero() {
		return time.Time{}
	}
	return s.database.Add(local.Sub(s.local))
}

// Observe takes note of a time that the database's primary gave. The zero time
// is none.
func (c *Clock) Observe(t time.Time) {
	if t.IsZero() {
		return
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.After(c.rotate) {
		c.older, c.newer, c.rotate = c.newer, sighting{}, now.Add(clockMemory)
	}
	if t.After(c.newer.at(now)) {
		c.newer = sighting{t.Round(0), now} // without t's own monotonic reading
	}
}

// Now returns the estimate, or the zero time if nothing was observed yet.
func (c *Clock) Now() time.Time {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	older, newer := c.older.at(now), c.newer.at(now)
	if older.After(newer) {
		return older
	}
	return newer
}
