package regions

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"likewise/storage"
)

// counter reads all counter shards of a video, or of several, in one snapshot.
type counter interface {
	CountShards(context.Context, storage.VideoID) (storage.CountShards, error)
	CountShardsOf(context.Context, []storage.VideoID) ([]storage.CountShards, error)
}

// countCache keeps the counter shards of the videos that are asked for most. It
// is safe for concurrent use.
//
// An answer is loaded from the database; a write pushes the shard that it
// changed. Loads and pushes merge shard by shard, the highest rev wins, and
// neither makes the other vanish (see countEntry). Only full loads say as of
// when the counts are.
//
// One load runs at a time per video, be it for this video alone or for a batch.
// It belongs to nobody's request: it has a deadline of its own, and a caller who
// gives up fails no other. Answers that are due are given all the same, and
// loaded anew behind the caller's back. Errors are not kept.
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

// outcome is what became of one item: got, or why not.
type outcome[T any] struct {
	got T
	err error
}

// get answers the counts of a video, at least as young as b asks. It fails with
// a VideoDeletedError, a staleCountsError, or with ctx.
func (c *countCache) get(ctx context.Context, video storage.VideoID, b bound) (snapshot, error) {
	got, _, err := c.getEntry(ctx, video, b)
	return got, err
}

func (c *countCache) getEntry(ctx context.Context, video storage.VideoID, b bound) (snapshot, *countEntry, error) {
	arrived := time.Now()
	e := c.entry(video)
	if got, how := c.glance(e, b, arrived); how != wait {
		c.refresh(ctx, arrived, due{e, got})
		return c.answer(how, got), e, got.shown()
	}
	q := question{entry: e}
	c.await(ctx, b, arrived, []*question{&q})
	return q.got, e, q.err
}

// getMany answers the counts of distinct videos, each as get does, with one read
// of the database for all of which no load is under way.
func (c *countCache) getMany(ctx context.Context, videos []storage.VideoID, b bound) []outcome[snapshot] {
	arrived := time.Now()
	questions := make([]question, len(videos))
	var waiting []*question
	var known []due
	for i, video := range videos {
		q := &questions[i]
		q.entry = c.entry(video)
		got, how := c.glance(q.entry, b, arrived)
		if how == wait {
			waiting = append(waiting, q)
			continue
		}
		known = append(known, due{q.entry, got})
		q.outcome = outcome[snapshot]{c.answer(how, got), got.shown()}
	}
	c.refresh(ctx, arrived, known...)
	c.await(ctx, b, arrived, waiting)
	outcomes := make([]outcome[snapshot], len(videos))
	for i := range questions {
		outcomes[i] = questions[i].outcome
	}
	return outcomes
}

// How counts are answered; a label of the metrics.
const (
	hit   = "hit"
	miss  = "miss"
	stale = "stale"
	wait  = "" // not yet
)

// glance looks at what is there, and says whether it will do.
func (c *countCache) glance(e *countEntry, b bound, arrived time.Time) (got snapshot, how string) {
	got = e.read()
	switch {
	case got.loaded() && c.shortfall(got, b, arrived) <= 0:
		return got, hit
	case c.usable(got, b, arrived) && arrived.Before(got.pausedUntil):
		return got, stale // the last load failed just now
	default:
		return got, wait
	}
}

func (c *countCache) answer(how string, got snapshot) snapshot {
	c.metrics.counts.WithLabelValues(how).Inc()
	c.metrics.countsAge.Observe(max(0, c.clock.Now().Sub(got.asOf)).Seconds())
	if got.saturated {
		c.metrics.saturated.Inc()
	}
	return got
}

// shortfall is by how much an answer is older than b allows a caller who came
// at arrived; zero or less if it is young enough.
func (c *countCache) shortfall(got snapshot, b bound, arrived time.Time) time.Duration {
	lack := c.age(got, arrived) - b.maxAge
	if !b.after.IsZero() && !got.asOf.After(b.after) {
		behind := min(b.after.Sub(got.asOf), math.MaxInt64-time.Microsecond) // a token may name any time
		lack = max(lack, behind+time.Microsecond)
	}
	if got.outdated() {
		lack = max(lack, time.Microsecond)
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
	return got.loaded() && !got.outdated() && !b.demanded && c.age(got, arrived) <= c.cfg.MaxStale &&
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

// renew makes every answer from now on come of a load that began later: the state
// of the video may have been changed.
func (c *countCache) renew(ctx context.Context, video storage.VideoID) {
	if e, ok := c.lookup(video); ok {
		e.outdate(time.Now())
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
		got = e.push(*result.Shard)
		return got, true, got.shown() == nil
	}
	return got, got.asOf.After(result.CommittedAt), true
}

// forWrite answers what is there, if it is young enough, and otherwise waits for
// a load. It makes nobody load anew: a writer asks for no younger counts than
// its own change makes them.
func (c *countCache) forWrite(ctx context.Context, video storage.VideoID) (*countEntry, snapshot, error) {
	e := c.entry(video)
	if got := e.read(); got.loaded() && c.shortfall(got, c.defaultBound(), time.Now()) <= 0 {
		return e, c.answer(hit, got), got.shown()
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
