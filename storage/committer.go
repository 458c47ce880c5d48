package storage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// CommitterConfig configures group commit. The zero value is good.
type CommitterConfig struct {
	// Workers own disjoint sets of slots; each has one transaction in flight.
	// Default 3, which keeps a database on one machine busy.
	Workers int

	// BatchLimit bounds the sets of one transaction. Default 512.
	BatchLimit int

	// QueueLimit bounds the sets that wait at one worker; more are refused.
	// Default 4096.
	QueueLimit int

	// RequestTimeout caps the time of a Set; its context may end earlier. Default
	// 5 s.
	RequestTimeout time.Duration

	// DrainTimeout bounds how long Run finishes what was accepted after its
	// context has ended. Default 5 s.
	DrainTimeout time.Duration

	// KeyLifetime is how long the result of a Set with an idempotency key is
	// kept. Default 24 h.
	KeyLifetime time.Duration

	// ColdSlot says in which counter shard a key is counted whose video is cold,
	// such as the lowest slot of its region, so that a count read touches few
	// rows. A hot video is counted in the key's own slot. Any choice is correct.
	// It must be fast and safe for concurrent use. nil: always the own slot.
	ColdSlot func(Slot) Slot
}

func (c CommitterConfig) withDefaults() CommitterConfig {
	setDefault(&c.Workers, 3)
	setDefault(&c.BatchLimit, 512)
	setDefault(&c.QueueLimit, 4096)
	setDefault(&c.RequestTimeout, 5*time.Second)
	setDefault(&c.DrainTimeout, 5*time.Second)
	setDefault(&c.KeyLifetime, 24*time.Hour)
	if c.ColdSlot == nil {
		c.ColdSlot = func(slot Slot) Slot { return slot }
	}
	return c
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

func (c CommitterConfig) validate() error {
	var errs []error
	if c.Workers < 1 || c.Workers > Slots {
		errs = append(errs, fmt.Errorf("Committer.Workers: want 1 to %d, have %d", Slots, c.Workers))
	}
	if c.BatchLimit < 1 {
		errs = append(errs, fmt.Errorf("Committer.BatchLimit: want at least 1, have %d", c.BatchLimit))
	}
	if c.QueueLimit < 1 {
		errs = append(errs, fmt.Errorf("Committer.QueueLimit: want at least 1, have %d", c.QueueLimit))
	}
	if c.RequestTimeout < 0 || c.DrainTimeout < 0 || c.KeyLifetime < 0 {
		errs = append(errs, errors.New("Committer: timeouts and lifetimes cannot be negative"))
	}
	return errors.Join(errs...)
}

// recoveriesPerWorker is how many failed batches of a worker may use a
// connection at once while it goes on with its other slots.
const recoveriesPerWorker = 3

func (c CommitterConfig) connections() int { return c.Workers * (1 + recoveriesPerWorker) }

// retryAfter is what refused callers are told where nothing better is known.
const retryAfter = 250 * time.Millisecond

// transactor runs one transaction. Its implementation is the attempter.
type transactor interface {
	run(context.Context, []Set) (*attempt, *failure)
	lookUp(context.Context, *attempt) (applied bool, err error)
}

// committer gathers sets into transactions.
type committer struct {
	cfg     CommitterConfig
	workers []*worker
	metrics *metrics
	log     *zap.Logger
	closing atomic.Bool
}

func newCommitter(cfg CommitterConfig, tx transactor, m *metrics, log *zap.Logger) *committer {
	c := &committer{cfg: cfg, metrics: m, log: log}
	for range cfg.Workers {
		c.workers = append(c.workers, newWorker(cfg, tx, m, log))
	}
	return c
}

// Run commits what Set brings, until ctx ends. Then it refuses new sets,
// finishes those that it has accepted, and returns nil; or an error, where it
// could not finish all of them in time.
func (s *Store) Run(ctx context.Context) error { return s.committer.run(ctx) }

var errDrainTimeout = errors.New("drain timed out")

func (c *committer) run(ctx context.Context) error {
	// Detached: accepted sets outlive the cancellation that stops new ones.
	work, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abort(nil)
	var workers sync.WaitGroup
	for _, w := range c.workers {
		workers.Go(func() { w.run(work) })
	}
	<-ctx.Done()
	c.closing.Store(true)
	for _, w := range c.workers {
		w.close()
	}
	late := time.AfterFunc(c.cfg.DrainTimeout, func() { abort(errDrainTimeout) })
	workers.Wait()
	if late.Stop() {
		return nil
	}
	return fmt.Errorf("commit accepted sets: %w", errDrainTimeout)
}

// Set brings one (video, user) to the desired reaction, in a transaction that
// it may share with others. An error is one of those in this package, or the
// context's if nothing was tried before it ended. A Set that ends with its
// context while its transaction is on the way returns [ErrOutcomeUnknown].
func (s *Store) Set(ctx context.Context, set Set) (Result, error) {
	result, err := s.committer.set(ctx, set)
	if err != nil {
		return Result{}, fmt.Errorf("set reaction to %q: %w", set.Video, err)
	}
	return result, nil
}

func (c *committer) set(ctx context.Context, set Set) (Result, error) {
	if set.Slot < 0 || set.Slot >= Slots || !set.Desired.Valid() {
		return Result{}, fmt.Errorf("slot %d, reaction %d: no such thing", set.Slot, set.Desired)
	}
	if c.closing.Load() {
		return Result{}, ErrClosing
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	r := newRequest(set, deadline)
	if err := c.workers[int(set.Slot)%len(c.workers)].enqueue(r); err != nil {
		return Result{}, err
	}
	select {
	case v := <-r.answer:
		return v.result, v.err
	case <-ctx.Done():
		return r.abandon(context.Cause(ctx))
	}
}
