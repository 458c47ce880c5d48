package regions

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"likewise/storage"
)

// counter reads all counter shards of a video in one snapshot.
type counter interface {
	CountShards(context.Context, storage.VideoID) (storage.CountShards, error)
}

// countCache keeps the counter shards of the videos that are asked for most. It
// is safe for concurrent use.
//
// An answer is loaded from the database; a write pushes the shard that it
// changed. Loads and pushes merge shard by shard, the highest rev wins, and
// neither makes the other vanish (see countEntry). Only full loads say as of
// when the counts are.
//
// One load runs at a time per video. It belongs to nobody's request: it has a
// deadline of its own, and a caller who gives up fails no other. Answers that
// are due are given all the same, and loaded anew behind the caller's back.
// Errors are not kept.
type countCache struct {
	store   counter
	clock   *storage.Clock
	cfg     CountsConfig
	metrics *metrics
	entries *otter.Cache[storage.VideoID, *countEntry]
	places  chan struct{} // one for each load that reads the database

	mu      sync.Mutex
	loading map[storage.VideoID]*countEntry // guarded by mu; pins entries while they load
	closed  bool                            // guarded by mu
	loads   sync.WaitGroup                  // grows only while mu is held and closed is false
}

func newCountCache(store counter, clock *storage.Clock, cfg CountsConfig, m *metrics) (*countCache, error) {
	entries, err := otter.New(&otter.Options[storage.VideoID, *countEntry]{MaximumSize: cfg.Videos})
	if err != nil {
		return nil, fmt.Errorf("make the cache of counts: %w", err)
	}
	return &countCache{
		store:   store,
		clock:   clock,
		cfg:     cfg,
		metrics: m,
		entries: entries,
		places:  make(chan struct{}, cfg.Loads),
		loading: make(map[storage.VideoID]*countEntry),
	}, nil
}

// close lets no new load begin and returns when those under way have ended,
// which their own deadline bounds.
func (c *countCache) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.loads.Wait()
}

// bound says how old an answer may be.
type bound struct {
	// maxAge is the greatest age when the caller arrived.
	maxAge time.Duration
	// demanded is whether the caller gave maxAge. If not, an older answer is
	// better than none.
	demanded bool
	// after is a time that the as-of must be later than. Zero: none.
	after time.Time
}

func (c *countCache) defaultBound() bound { return bound{maxAge: c.cfg.MaxAge} }

var (
	errLoadTimeout = fmt.Errorf("%w: loading counts took too long", context.DeadlineExceeded)
	errPatience    = fmt.Errorf("%w: waited long enough for younger counts", context.DeadlineExceeded)
	errTooOld      = errors.New("the database's own answer is older than asked for")
)

const (
	// maxLoads bounds the loads that one caller waits for: one under way when it
	// came, and some of its own where the database lags a little.
	maxLoads = 4
	// maxLag is the longest wait for a database that lags.
	maxLag = 500 * time.Millisecond
	// patience is how long a caller without a demand waits for a load while there
	// is an older answer.
	patience = 500 * time.Millisecond
	// clockSlack is by how much the clocks of two machines may differ in rate
	// between two looks at the database's, before age is seen where there is none.
	clockSlack = 20 * time.Millisecond
)

// get answers the counts of a video, at least as young as b asks. It fails with
// a staleCountsError, or with ctx.
func (c *countCache) get(ctx context.Context, video storage.VideoID, b bound) (snapshot, error) {
	got, _, err := c.getEntry(ctx, video, b)
	return got, err
}

func (c *countCache) getEntry(ctx context.Context, video storage.VideoID, b bound) (snapshot, *countEntry, error) {
	arrived := time.Now()
	e := c.entry(video)
	got := e.read()
	switch {
	case got.loaded() && c.shortfall(got, b, arrived) <= 0:
		c.refresh(ctx, e, got, arrived)
		return c.answer("hit", got), e, nil
	case c.usable(got, b, arrived) && arrived.Before(got.pausedUntil):
		return c.answer("stale", got), e, nil // the last load failed just now
	}
	fresh, err := c.await(ctx, e, b, arrived)
	if err == nil {
		return c.answer("miss", fresh), e, nil
	}
	if older := e.read(); c.usable(older, b, arrived) && ctx.Err() == nil {
		return c.answer("stale", older), e, nil
	}
	c.metrics.counts.WithLabelValues("error").Inc()
	if ctx.Err() != nil {
		return snapshot{}, e, fmt.Errorf("wait for counts of %q: %w", video, context.Cause(ctx))
	}
	return snapshot{}, e, fmt.Errorf("counts of %q: %w", video, &staleCountsError{Cause: err})
}

func (c *countCache) answer(how string, got snapshot) snapshot {
	c.metrics.counts.WithLabelValues(how).Inc()
	c.metrics.countsAge.Observe(max(0, c.clock.Now().Sub(got.asOf)).Seconds())
	return got
}

// await joins loads until one of them satisfies the bound. A load under way may
// have begun too early for this caller; then the next one is its own.
func (c *countCache) await(ctx context.Context, e *countEntry, b bound, arrived time.Time) (snapshot, error) {
	if c.usable(e.read(), b, arrived) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, patience, errPatience)
		defer cancel()
	}
	for range maxLoads {
		f := c.load(ctx, e)
		select {
		case <-f.done:
		case <-ctx.Done():
			return snapshot{}, context.Cause(ctx)
		}
		lag := time.Duration(0)
		if f.err == nil {
			got := e.read()
			if lag = c.shortfall(got, b, arrived); lag <= 0 {
				return got, nil
			}
		}
		if f.begun.Before(arrived) {
			continue
		}
		if f.err != nil {
			return snapshot{}, f.err
		}
		if err := pause(ctx, lag); err != nil {
			return snapshot{}, err
		}
	}
	return snapshot{}, errTooOld
}

// pause waits for a database that lags, if that will soon be over.
func pause(ctx context.Context, lag time.Duration) error {
	if lag > maxLag {
		return errTooOld
	}
	timer := time.NewTimer(lag)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// shortfall is by how much an answer is older than b allows a caller who came
// at arrived; zero or less if it is young enough.
func (c *countCache) shortfall(got snapshot, b bound, arrived time.Time) time.Duration {
	lack := c.age(got, arrived) - b.maxAge
	if !b.after.IsZero() && !got.asOf.After(b.after) {
		lack = max(lack, b.after.Sub(got.asOf)+time.Microsecond)
	}
	return lack
}

// age is how old an answer was at a moment of this process. Two things are
// known: the database's time at that moment, by the highest time seen from it,
// carried forward; and that the load had not begun before it did, which is exact
// where the load read the primary. The greater age counts. No wall clock of this
// node has a say.
func (c *countCache) age(got snapshot, at time.Time) time.Duration {
	databaseTime := c.clock.Now().Add(-time.Since(at))
	return max(databaseTime.Sub(got.asOf)-clockSlack, at.Sub(got.begun))
}

// usable reports whether an answer that is older than b wishes may be given if
// no other can be had.
func (c *countCache) usable(got snapshot, b bound, arrived time.Time) bool {
	return got.loaded() && !b.demanded && c.age(got, arrived) <= c.cfg.MaxStale &&
		(b.after.IsZero() || got.asOf.After(b.after))
}

// warm begins to load the counts of a video if the present ones would not do,
// and returns at once.
func (c *countCache) warm(ctx context.Context, video storage.VideoID) {
	e, now := c.entry(video), time.Now()
	got := e.read()
	if (!got.loaded() || c.shortfall(got, c.defaultBound(), now) > 0) && !now.Before(got.pausedUntil) {
		c.load(ctx, e)
	}
}

// learn takes what a write returned: the time of its commit, and the counter
// shard that it changed. It begins no load, and keeps no video that nobody asked
// for.
func (c *countCache) learn(video storage.VideoID, result storage.Result) {
	c.clock.Observe(result.CommittedAt)
	if result.Shard == nil {
		return
	}
	if e, ok := c.lookup(video); ok {
		e.push(*result.Shard)
	}
}

// besideWrite answers counts for the reply to a write, and whether they surely
// include it. It does not wait long, and ok is false if there are none.
func (c *countCache) besideWrite(ctx context.Context, video storage.VideoID, result storage.Result) (got snapshot, included, ok bool) {
	c.learn(video, result)
	ctx, cancel := context.WithTimeout(ctx, c.cfg.BesideWrite)
	defer cancel()
	e, got, err := c.forWrite(ctx, video)
	if err != nil {
		return snapshot{}, false, false
	}
	if result.Shard != nil {
		// Once more, into the very entry that answered: it may not have been there
		// before, and its load may have been too early to see this write.
		return e.push(*result.Shard), true, true
	}
	return got, got.asOf.After(result.CommittedAt), true
}

// forWrite answers what is there, if it is young enough, and otherwise waits for
// a load. It makes nobody load anew: a writer asks for no younger counts than
// its own change makes them.
func (c *countCache) forWrite(ctx context.Context, video storage.VideoID) (*countEntry, snapshot, error) {
	e := c.entry(video)
	if got := e.read(); got.loaded() && c.shortfall(got, c.defaultBound(), time.Now()) <= 0 {
		return e, c.answer("hit", got), nil
	}
	got, e, err := c.getEntry(ctx, video, c.defaultBound())
	return e, got, err
}

func (c *countCache) lookup(video storage.VideoID) (*countEntry, bool) {
	if e, ok := c.entries.GetIfPresent(video); ok {
		return e, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.loading[video]
	return e, ok
}

// entry returns the entry of a video, and makes an empty one if there is none.
func (c *countCache) entry(video storage.VideoID) *countEntry {
	e, ok := c.lookup(video)
	if ok {
		return e
	}
	e, _ = c.entries.SetIfAbsent(video, &countEntry{video: video})
	return e
}

// refresh begins to load what is due.
func (c *countCache) refresh(ctx context.Context, e *countEntry, got snapshot, now time.Time) {
	if now.Before(got.refreshAt) || now.Before(got.pausedUntil) {
		return
	}
	c.metrics.refreshes.Inc()
	c.load(ctx, e)
}

// load returns the load under way, or begins one. It takes from ctx nothing but
// its values.
func (c *countCache) load(ctx context.Context, e *countEntry) *flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, begun := e.begin(time.Now())
	switch {
	case !begun:
	case c.closed:
		e.fail(f, storage.ErrClosing, time.Time{})
	default:
		c.loading[e.video] = e
		c.loads.Go(func() { c.run(ctx, e, f) })
	}
	return f
}

func (c *countCache) run(ctx context.Context, e *countEntry, f *flight) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), c.cfg.LoadTimeout, errLoadTimeout)
	defer cancel()
	loaded, err := c.read(ctx, e.video)
	c.metrics.countLoads.WithLabelValues(outcome(err)).Inc()
	next := time.Now().Add(jitter(c.cfg.RefreshAfter))

	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.loading, e.video)
	if err != nil {
		e.fail(f, err, next)
		return
	}
	c.clock.Observe(loaded.AsOf)
	e.finish(f, loaded, next)
	// It may have been evicted while it loaded.
	c.entries.SetIfAbsent(e.video, e)
}

// read reads the database when there is a place.
func (c *countCache) read(ctx context.Context, video storage.VideoID) (storage.CountShards, error) {
	select {
	case c.places <- struct{}{}:
		defer func() { <-c.places }()
		return c.store.CountShards(ctx, video)
	case <-ctx.Done():
		return storage.CountShards{}, context.Cause(ctx)
	}
}

func outcome(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

// jitter spreads refreshes of videos that were first asked for together.
func jitter(d time.Duration) time.Duration {
	return d*9/10 + time.Duration(rand.Int64N(int64(d/5)+1)) //nolint:gosec // not a secret
}
