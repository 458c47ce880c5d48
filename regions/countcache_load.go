package regions

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"likewise/storage"
)

// question is what one caller wants to know of one video, and cannot be told at
// once.
type question struct {
	outcome[snapshot]
	entry *countEntry
	// easy: there is an older answer, and the wait for a younger one is short.
	easy bool
}

// await answers questions from loads that are under way, or that it begins. A
// load under way may have begun too early for this caller; then the next one is
// its own. All loads that a round needs are one read of the database.
func (c *countCache) await(ctx context.Context, b bound, arrived time.Time, questions []*question) {
	if len(questions) == 0 {
		return
	}
	brief, cancel := context.WithTimeoutCause(ctx, patience, errPatience)
	defer cancel()
	for _, q := range questions {
		q.easy = c.usable(q.entry.read(), b, arrived)
		q.err = errTooOld // unless one of the rounds says something else
	}
	open := questions
	for range maxLoads {
		if open = c.round(ctx, brief, b, arrived, open); len(open) == 0 {
			break
		}
	}
	for _, q := range questions {
		c.conclude(ctx, b, arrived, q)
	}
}

// round waits for one load of each question and returns those that are still
// open.
func (c *countCache) round(ctx, brief context.Context, b bound, arrived time.Time, questions []*question) []*question {
	entries := make([]*countEntry, len(questions))
	for i, q := range questions {
		entries[i] = q.entry
	}
	var open []*question
	var lag time.Duration
	for i, f := range c.load(ctx, entries...) {
		q, patient := questions[i], ctx
		if q.easy {
			patient = brief
		}
		if q.err = waitFor(patient, f); q.err != nil {
			continue
		}
		again, lacks := c.judge(q, f, b, arrived)
		if !again {
			continue
		}
		q.err = errTooOld
		open, lag = append(open, q), max(lag, lacks)
	}
	until := ctx
	if !slices.ContainsFunc(open, func(q *question) bool { return !q.easy }) {
		until = brief
	}
	if err := pause(until, lag); err != nil {
		for _, q := range open {
			q.err = err
		}
		return nil
	}
	return open
}

func waitFor(ctx context.Context, f *flight) error {
	select {
	case <-f.done: // first: both may be
		return nil
	default:
	}
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// judge takes what a load led to. It reports whether the question stays open,
// and for how long it is of no use to ask the database again.
func (c *countCache) judge(q *question, f *flight, b bound, arrived time.Time) (again bool, lag time.Duration) {
	if f.err == nil {
		q.got = q.entry.read()
		if lag = c.shortfall(q.got, b, arrived); lag <= 0 {
			return false, 0
		}
	}
	switch {
	case f.begun.Before(arrived):
		return true, 0
	case f.err != nil:
		q.err = f.err
		return false, 0
	case lag > maxLag:
		q.err = errTooOld
		return false, 0
	default:
		return true, lag
	}
}

// pause waits for a database that lags a little.
func pause(ctx context.Context, lag time.Duration) error {
	if lag == 0 {
		return nil
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

// conclude makes an answer of what the rounds led to: an older one beats none.
func (c *countCache) conclude(ctx context.Context, b bound, arrived time.Time, q *question) {
	if q.err == nil {
		q.got, q.err = c.answer(miss, q.got), q.got.shown()
		return
	}
	if older := q.entry.read(); c.usable(older, b, arrived) {
		q.got, q.err = c.answer(stale, older), older.shown()
		return
	}
	c.metrics.counts.WithLabelValues("error").Inc()
	if ended := context.Cause(ctx); ended != nil && errors.Is(q.err, ended) {
		q.err = fmt.Errorf("wait for counts of %q: %w", q.entry.video, q.err)
		return
	}
	q.err = fmt.Errorf("counts of %q: %w", q.entry.video, &staleCountsError{Cause: q.err})
}

// due is an entry whose answer was given, and may have to be loaded anew.
type due struct {
	entry *countEntry
	got   snapshot
}

// refresh begins to load what is due, behind the callers' backs.
func (c *countCache) refresh(ctx context.Context, now time.Time, known ...due) {
	var entries []*countEntry
	for _, d := range known {
		if !now.Before(d.got.refreshAt) && !now.Before(d.got.pausedUntil) {
			entries = append(entries, d.entry)
		}
	}
	if len(entries) > 0 {
		c.metrics.refreshes.Add(float64(len(entries)))
		c.load(ctx, entries...)
	}
}

// takeoff is a load that was begun, and must be ended.
type takeoff struct {
	entry  *countEntry
	flight *flight
}

// load returns the loads under way of distinct entries, after it has begun those
// that are not, as one. It takes from ctx nothing but its values.
func (c *countCache) load(ctx context.Context, entries ...*countEntry) []*flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	flights := make([]*flight, len(entries))
	var begun []takeoff
	for i, e := range entries {
		f, isNew := e.begin(now)
		if flights[i] = f; isNew {
			begun = append(begun, takeoff{e, f})
		}
	}
	if len(begun) > 0 {
		c.startLocked(ctx, begun)
	}
	return flights
}

func (c *countCache) startLocked(ctx context.Context, begun []takeoff) {
	if c.closed {
		for _, t := range begun {
			t.entry.fail(t.flight, storage.ErrClosing, time.Time{})
		}
		return
	}
	for _, t := range begun {
		c.loading[t.entry.video] = t.entry
	}
	c.loads.Go(func() { c.run(ctx, begun) })
}

func (c *countCache) run(ctx context.Context, begun []takeoff) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), c.cfg.LoadTimeout, errLoadTimeout)
	defer cancel()
	loaded, err := c.read(ctx, begun)
	c.metrics.countLoads.WithLabelValues(loadOutcome(err)).Inc()

	c.mu.Lock()
	defer c.mu.Unlock()
	for i, t := range begun {
		next := time.Now().Add(jitter(c.cfg.RefreshAfter))
		delete(c.loading, t.entry.video)
		if err != nil {
			t.entry.fail(t.flight, err, next)
			continue
		}
		c.clock.Observe(loaded[i].AsOf)
		t.entry.finish(t.flight, loaded[i], next)
		// It may have been evicted while it loaded.
		c.entries.SetIfAbsent(t.entry.video, t.entry)
	}
}

// read reads the database, once, when there is a place.
func (c *countCache) read(ctx context.Context, begun []takeoff) (loaded []storage.CountShards, err error) {
	defer caught(&err)
	select {
	case c.places <- struct{}{}:
		defer func() { <-c.places }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if len(begun) == 1 {
		one, err := c.store.CountShards(ctx, begun[0].entry.video)
		return []storage.CountShards{one}, err
	}
	videos := make([]storage.VideoID, len(begun))
	for i, t := range begun {
		videos[i] = t.entry.video
	}
	return c.store.CountShardsOf(ctx, videos)
}

func loadOutcome(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

// jitter spreads refreshes of videos that were first asked for together.
func jitter(d time.Duration) time.Duration {
	return d*9/10 + time.Duration(rand.Int64N(int64(d/5)+1)) //nolint:gosec // not a secret
}
