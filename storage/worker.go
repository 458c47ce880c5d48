package storage

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// worker commits the sets of its slots. While one transaction is in flight the
// next batch gathers; there is no timer. A batch that fails is recovered aside,
// with its slots marked busy, while the worker goes on with the others.
type worker struct {
	cfg     CommitterConfig
	tx      transactor
	metrics *metrics
	log     *zap.Logger

	wake       chan struct{}  // holds one
	recoveries chan struct{}  // a place per recovery that may use a connection
	aside      sync.WaitGroup // recoveries
	pace       atomic.Int64   // smoothed nanoseconds of a transaction

	mu      sync.Mutex
	waiting []*request    // guarded by mu; in order of arrival
	busy    map[Slot]bool // guarded by mu; slots of batches that are not settled
	closed  bool          // guarded by mu
}

func newWorker(cfg CommitterConfig, tx transactor, m *metrics, log *zap.Logger) *worker {
	return &worker{
		cfg: cfg, tx: tx, metrics: m, log: log,
		wake:       make(chan struct{}, 1),
		recoveries: make(chan struct{}, recoveriesPerWorker),
		busy:       map[Slot]bool{},
	}
}

// enqueue accepts a request, or refuses it at once.
func (w *worker) enqueue(r *request) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return ErrClosing
	}
	if len(w.waiting) >= w.cfg.QueueLimit {
		w.dropLate(time.Now())
	}
	wait := w.expectedWait()
	if len(w.waiting) >= w.cfg.QueueLimit || time.Until(r.deadline) < wait {
		return &OverloadedError{RetryAfter: max(wait, retryAfter)}
	}
	w.waiting = append(w.waiting, r)
	w.metrics.waiting.Inc()
	w.signal()
	return nil
}

// expectedWait is how long a request that comes now will take, by the pace of
// late. An idle worker promises nothing and refuses nobody: only by trying does
// it learn that the database is fast again. It is called with mu held.
func (w *worker) expectedWait() time.Duration {
	if len(w.waiting) == 0 && len(w.busy) == 0 {
		return 0
	}
	ahead := 1 + len(w.waiting)/w.cfg.BatchLimit
	return time.Duration(w.pace.Load() * int64(ahead))
}

func (w *worker) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // it is awake already
	}
}

// close refuses further requests. The worker ends when it has settled the rest.
func (w *worker) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.signal()
}

// run settles requests until the worker is closed and has none left, or ctx
// ends and they are refused.
func (w *worker) run(ctx context.Context) {
	defer w.aside.Wait()
	for {
		batch, finished := w.gather()
		switch {
		case len(batch) > 0:
			w.commit(ctx, batch)
		case finished:
			return
		default:
			select {
			case <-w.wake:
			case <-ctx.Done():
				w.refuseWaiting(ctx)
				return
			}
		}
	}
}

// gather takes what waits into a batch and marks its slots busy. finished says
// that nothing waits and nothing will.
func (w *worker) gather() (batch []*request, finished bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := w.waiting[:0]
	now := time.Now()
	for _, r := range w.waiting {
		switch {
		case r.late(now): // has an answer already
		case len(batch) == w.cfg.BatchLimit || w.busy[r.set.Slot] || !fits(batch, r):
			kept = append(kept, r)
		case r.take():
			batch = append(batch, r)
		}
	}
	w.keep(kept)
	for _, r := range batch {
		w.busy[r.set.Slot] = true
	}
	return batch, w.closed && len(batch) == 0 && len(kept) == 0
}

// dropLate forgets requests whose callers have gone, such as those of a slot
// that is stuck. It is called with mu held.
func (w *worker) dropLate(now time.Time) {
	kept := w.waiting[:0]
	for _, r := range w.waiting {
		if !r.late(now) {
			kept = append(kept, r)
		}
	}
	w.keep(kept)
}

// keep makes kept, a part of waiting, all that waits. It is called with mu held.
func (w *worker) keep(kept []*request) {
	w.metrics.waiting.Sub(float64(len(w.waiting) - len(kept)))
	clear(w.waiting[len(kept):])
	w.waiting = kept
}

// fits reports whether a request may join a batch.
func fits(batch []*request, r *request) bool {
	return batchSpansSlots || len(batch) == 0 || batch[0].set.Slot == r.set.Slot
}

// commit settles a batch, or hands it to a recovery.
func (w *worker) commit(ctx context.Context, batch []*request) {
	began := time.Now()
	f := w.try(ctx, batch)
	if f == nil {
		w.keepPace(time.Since(began))
		w.free(batch)
		return
	}
	w.aside.Go(func() { w.recover(ctx, batch, f) })
}

func (w *worker) keepPace(took time.Duration) {
	old := w.pace.Load()
	w.pace.Store(old + (int64(took)-old)/8)
}

// free marks the slots of a batch, which is settled, as free.
func (w *worker) free(batch []*request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range batch {
		delete(w.busy, r.set.Slot)
	}
	w.signal()
}

func (w *worker) refuseWaiting(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.metrics.waiting.Sub(float64(len(w.waiting)))
	for _, r := range w.waiting {
		if r.take() {
			r.resolve(verdict{err: &UnavailableError{RetryAfter: retryAfter, Cause: context.Cause(ctx)}})
		}
	}
	w.waiting = nil
}
