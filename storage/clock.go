package storage

import (
	"sync"
	"time"
)

// Clock estimates the time of the database's primary: the highest time seen
// from it, carried forward by this process's monotonic clock. It never runs
// ahead of a database whose clock runs evenly, and no wall clock of a node
// decides anything. The zero Clock is ready; it is safe for concurrent use.
type Clock struct {
	mu   sync.Mutex
	seen time.Time // guarded by mu; highest database time, without a monotonic reading
	at   time.Time // guarded by mu; when seen was observed, for its monotonic reading
}

// Observe takes note of a time that the database's primary gave.
func (c *Clock) Observe(t time.Time) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen.IsZero() || t.After(c.forward(now)) {
		c.seen, c.at = t.Round(0), now
	}
}

// Now returns the estimate, or the zero time if nothing was observed yet.
func (c *Clock) Now() time.Time {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.forward(now)
}

// forward is called with mu held.
func (c *Clock) forward(now time.Time) time.Time {
	if c.seen.IsZero() {
		return time.Time{}
	}
	return c.seen.Add(now.Sub(c.at))
}
