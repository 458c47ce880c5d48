package storage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cockroachdb/cockroach-go/v2/crdb"
	"go.uber.org/zap"
)

const (
	// restartLimit bounds how often a batch restarts in place, where it holds up
	// the worker's other slots. After that it is recovered aside.
	restartLimit = 2
	backoffBase  = 4 * time.Millisecond
	backoffMax   = 250 * time.Millisecond
	// refusalMargin is how long before its deadline a request is refused that
	// could not be tried with success: a pause, and time for the answer to travel.
	refusalMargin = backoffMax + 50*time.Millisecond
)

// restartError tells crdb's retry loop that the transaction was rolled back for
// the sake of another one. PostgreSQL's deadlock means the same.
type restartError struct{ failure *failure }

func (e *restartError) Error() string    { return e.failure.err.Error() }
func (e *restartError) Unwrap() error    { return e.failure.err }
func (e *restartError) SQLState() string { return "40001" }

// try runs a batch, again where it met a conflict, and answers it if it
// committed. Otherwise nobody is answered.
func (w *worker) try(ctx context.Context, batch []*request) *failure {
	sets := make([]Set, len(batch))
	for i, r := range batch {
		sets[i] = r.set
	}
	began := time.Now()
	var done *attempt
	var f *failure
	tries := 0
	// crdb drives the loop; it does not wait between attempts, so this does.
	_ = crdb.ExecuteCtx(crdb.WithMaxRetries(ctx, restartLimit), func(ctx context.Context, _ ...any) error {
		done, f = w.tx.run(ctx, sets)
		if f == nil {
			return nil
		}
		w.note(f)
		if f.class != restart {
			return f.err
		}
		tries++
		pause(ctx, tries)
		return &restartError{f}
	})
	if f == nil && done == nil { // ctx had ended before the first attempt
		f = &failure{class: outage, err: context.Cause(ctx)}
	}
	if f != nil {
		return f
	}
	w.metrics.batchSize.Observe(float64(len(batch)))
	w.metrics.commit.Observe(time.Since(began).Seconds())
	w.answer(batch, done)
	return nil
}

func (w *worker) note(f *failure) {
	w.metrics.failures.WithLabelValues(f.class.String()).Inc()
	if negativeCounter(f.err) {
		w.metrics.negative.Inc()
	}
	w.log.Warn("transaction failed", zap.Stringer("class", f.class), zap.Error(f.err))
}

// pause waits before the n-th repeat: exponential, with jitter over the whole
// span, so that those who met do not meet again.
func pause(ctx context.Context, n int) {
	limit := min(backoffBase<<min(n, 16), backoffMax)
	timer := time.NewTimer(time.Duration(rand.Int64N(int64(limit)))) //nolint:gosec // jitter
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// answer tells every caller of a batch that committed.
func (w *worker) answer(batch []*request, done *attempt) {
	for i, r := range batch {
		v := done.plan.verdicts[i]
		w.count(v)
		v.result.CommittedAt = done.committedAt
		if v.shard != nil {
			if shard, ok := done.shards[*v.shard]; ok {
				v.result.Shard = &shard
			}
		}
		r.resolve(v)
	}
}

func (w *worker) count(v verdict) {
	switch {
	case v.err != nil:
		w.metrics.setRefused.Inc()
	case v.shard != nil:
		w.metrics.setChanged.Inc()
	case v.result.Changed:
		w.metrics.setReplayed.Inc()
	default:
		w.metrics.setNoOp.Inc()
	}
}

// recover settles a batch whose first attempt failed. It settles each slot by
// itself, so that one stuck head does not hold the others.
func (w *worker) recover(ctx context.Context, batch []*request, f *failure) {
	if f.class == unknown && w.inPlace(ctx, func() bool { return w.settleUnknown(ctx, batch, f) }) {
		w.free(batch)
		return
	}
	w.giveBack(batch)
	groups := bySlot(batch)
	for _, group := range groups {
		w.aside.Go(func() {
			defer w.free(group)
			if len(groups) == 1 {
				w.rerun(ctx, group, f)
			} else {
				w.rerunPart(ctx, group, f)
			}
		})
	}
}

// rerun runs the requests of one slot until all are answered. f is what their
// last attempt met. A definite error that is the batch's own splits it until the culprit
// fails alone; one key's requests stay together and in order.
func (w *worker) rerun(ctx context.Context, batch []*request, f *failure) {
	for n := 1; ; n++ {
		if f.class == broken {
			if first, second, ok := halve(batch); ok {
				w.rerunPart(ctx, first, f)
				w.rerunPart(ctx, second, f)
			} else {
				w.refuse(batch, f.err)
			}
			return
		}
		pause(ctx, n)
		var settled bool
		if batch, f, settled = w.again(ctx, batch, f); settled {
			return
		}
	}
}

// rerunPart runs part of a batch, whose failure f says nothing of the part yet,
// and goes on with what that meets.
func (w *worker) rerunPart(ctx context.Context, batch []*request, f *failure) {
	if batch, f, settled := w.again(ctx, batch, f); !settled {
		w.rerun(ctx, batch, f)
	}
}

// again makes one more attempt for those who still wait. It returns who is
// left, and why.
func (w *worker) again(ctx context.Context, batch []*request, f *failure) ([]*request, *failure, bool) {
	next := f
	settled := w.inPlace(ctx, func() bool {
		if batch = w.retake(ctx, batch, f); len(batch) == 0 {
			return true
		}
		next = w.try(ctx, batch)
		if next == nil || next.class == unknown && w.settleUnknown(ctx, batch, next) {
			return true
		}
		w.giveBack(batch)
		return false
	})
	return batch, next, settled
}

// inPlace runs f while holding one of the places for recoveries, so that the
// worker itself never waits for a connection that they hold. When ctx has ended
// no place is needed: nothing reaches the database any more.
func (w *worker) inPlace(ctx context.Context, f func() bool) bool {
	select {
	case w.recoveries <- struct{}{}:
		defer func() { <-w.recoveries }()
	case <-ctx.Done():
	}
	return f()
}

// settleUnknown finds out what became of an attempt, and answers its batch if
// it was applied, or if that cannot be found out in time. Otherwise it was not
// applied and never will be, and settleUnknown returns false.
func (w *worker) settleUnknown(ctx context.Context, batch []*request, f *failure) bool {
	if len(f.attempt.plan.changes) == 0 || !guardLookUp {
		return false // nothing was to be changed: it is as well to run it again
	}
	deadline := latestDeadline(batch)
	for n := 1; ; n++ {
		applied, err := w.tx.lookUp(ctx, f.attempt)
		switch {
		case err == nil && applied:
			w.metrics.lookUps.WithLabelValues("applied").Inc()
			f.attempt.shards = nil
			w.answer(batch, f.attempt)
			return true
		case err == nil:
			w.metrics.lookUps.WithLabelValues("not applied").Inc()
			return false
		case ctx.Err() != nil || !time.Now().Before(deadline):
			w.metrics.lookUps.WithLabelValues("nothing").Inc()
			w.metrics.setUnknown.Add(float64(len(batch)))
			w.log.Error("outcome stays unknown", zap.Stringer("attempt_id", f.attempt.id), zap.Error(errors.Join(f.err, err)))
			resolveAll(batch, fmt.Errorf("%w: %w", ErrOutcomeUnknown, f.err))
			return true
		}
		w.log.Warn("look-up failed", zap.Stringer("attempt_id", f.attempt.id), zap.Error(err))
		pause(ctx, n)
	}
}

// giveBack lets callers leave without doubt: nothing of the batch was applied.
func (w *worker) giveBack(batch []*request) {
	for _, r := range batch {
		r.untake()
	}
}

// retake takes those who still wait, and refuses those whose time is nearly up:
// they learn why before their deadline says nothing.
func (w *worker) retake(ctx context.Context, batch []*request, f *failure) []*request {
	left := make([]*request, 0, len(batch))
	now := time.Now()
	for _, r := range batch {
		switch {
		case !r.take():
		case ctx.Err() != nil || r.expired(now.Add(refusalMargin)):
			w.refuse([]*request{r}, &UnavailableError{RetryAfter: retryAfter, Cause: f.err})
		default:
			left = append(left, r)
		}
	}
	return left
}

// refuse answers that nothing was applied.
func (w *worker) refuse(batch []*request, err error) {
	w.metrics.setFailed.Add(float64(len(batch)))
	resolveAll(batch, err)
}

func resolveAll(batch []*request, err error) {
	for _, r := range batch {
		r.resolve(verdict{err: err})
	}
}

func latestDeadline(batch []*request) time.Time {
	var latest time.Time
	for _, r := range batch {
		if r.deadline.After(latest) {
			latest = r.deadline
		}
	}
	return latest
}

// bySlot splits a batch into one for each of its slots.
func bySlot(batch []*request) map[Slot][]*request {
	groups := map[Slot][]*request{}
	for _, r := range batch {
		groups[r.set.Slot] = append(groups[r.set.Slot], r)
	}
	return groups
}

// halve splits a batch in two, keys whole. It fails where there is one key.
func halve(batch []*request) (first, second []*request, ok bool) {
	half := map[key]bool{} // whether a key is in the second half
	for _, r := range batch {
		k := r.set.key()
		if _, seen := half[k]; !seen {
			half[k] = len(half)%2 == 1
		}
		if half[k] {
			second = append(second, r)
		} else {
			first = append(first, r)
		}
	}
	return first, second, len(second) > 0
}
