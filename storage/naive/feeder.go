package naive

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"likewise/storage"
)

// Config says how the counters are fed.
type Config struct {
	// URL is the database, postgres://…
	URL string
	// Workers is how many events the counter that reads and then writes takes at
	// once. One worker would hide the lost updates. The blind counter, which
	// loses none, needs no more than one. Zero: 4.
	Workers int
	// Queue is how many events may wait for each of the two counters before
	// Feed blocks. Zero: 4096.
	Queue int
}

func (c Config) withDefaults() Config {
	if c.Workers == 0 {
		c.Workers = 4
	}
	if c.Queue == 0 {
		c.Queue = 4096
	}
	return c
}

// ErrFinished means that an event came after Finish.
var ErrFinished = errors.New("naive counters are finished")

// Feeder feeds the same events to both counters. Its methods may be called
// concurrently.
type Feeder struct {
	pool    *pgxpool.Pool
	workers int
	blind   chan Event
	rtw     chan Event
	fed     atomic.Int64

	mu       sync.RWMutex // held for reading while an event is queued
	finished bool         // guarded by mu
	stopped  chan struct{}
}

//go:embed schema.sql
var schemaSQL string

// Open connects, and makes both tables anew and empty.
func Open(ctx context.Context, cfg Config) (*Feeder, error) {
	cfg = cfg.withDefaults()
	pool, err := openPool(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("opening the naive counters: %w", err)
	}
	if _, err := pool.Exec(ctx, schemaSQL, pgx.QueryExecModeSimpleProtocol); err != nil {
		pool.Close()
		return nil, fmt.Errorf("making the naive counters' tables: %w", err)
	}
	return &Feeder{
		pool: pool, workers: cfg.Workers,
		blind: make(chan Event, cfg.Queue), rtw: make(chan Event, cfg.Queue),
		stopped: make(chan struct{}),
	}, nil
}

func openPool(ctx context.Context, cfg Config) (*pgxpool.Pool, error) {
	pc, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return nil, err
	}
	pc.MaxConns = int32(cfg.Workers) + 2 //nolint:gosec // small
	pc.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
	pc.ConnConfig.RuntimeParams["application_name"] = "likewise-naive"
	return pgxpool.NewWithConfig(ctx, pc)
}

// Close closes the connections. Run must have returned.
func (f *Feeder) Close() { f.pool.Close() }

// Run applies what is fed. It returns after Finish, when every queued event is
// applied; or with the first error; or when ctx ends, leaving the rest.
func (f *Feeder) Run(ctx context.Context) error {
	defer close(f.stopped)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return f.drain(ctx, f.blind, applyBlind) })
	for range f.workers {
		g.Go(func() error { return f.drain(ctx, f.rtw, applyReadThenWrite) })
	}
	return g.Wait()
}

// maxBatch is how many events may share a round trip: on the machine that runs
// everything else as well, the comparison must not cost more than what it
// compares with.
const maxBatch = 64

type applyFunc func(context.Context, *pgxpool.Pool, []Event) error

// drain applies events, those that wait together at once.
func (f *Feeder) drain(ctx context.Context, events <-chan Event, apply applyFunc) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, open := <-events:
			if !open {
				return nil
			}
			if err := persist(ctx, f.pool, waiting(events, []Event{e}), apply); err != nil {
				return err
			}
		}
	}
}

// patience is how long a database that is away is asked again.
const patience = 20 * time.Second

// persist applies events, again where the database failed, as applications do:
// if it had applied them before, they count twice.
func persist(ctx context.Context, pool *pgxpool.Pool, events []Event, apply applyFunc) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		return struct{}{}, apply(ctx, pool, events)
	}, backoff.WithMaxElapsedTime(patience))
	return err
}

// waiting adds events that wait already to batch, up to maxBatch in all.
func waiting(events <-chan Event, batch []Event) []Event {
	for len(batch) < maxBatch {
		select {
		case e, open := <-events:
			if !open {
				return batch
			}
			batch = append(batch, e)
		default:
			return batch
		}
	}
	return batch
}

// Feed queues an event for both counters. It blocks while a queue is full, so
// that no event is dropped. An event that changes nothing is not worth a
// request to an application's counter either, and is not counted as fed.
func (f *Feeder) Feed(ctx context.Context, e Event) error {
	if e.delta() == (storage.Tally{}) {
		return nil
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.finished {
		return ErrFinished
	}
	for _, queue := range []chan<- Event{f.blind, f.rtw} {
		if err := f.enqueue(ctx, queue, e); err != nil {
			return err
		}
	}
	f.fed.Add(1)
	return nil
}

func (f *Feeder) enqueue(ctx context.Context, queue chan<- Event, e Event) error {
	select {
	case queue <- e:
		return nil
	case <-f.stopped:
		return ErrFinished
	case <-ctx.Done():
		return fmt.Errorf("feeding the naive counters: %w", ctx.Err())
	}
}

// Finish says that no more events come. Run returns when the queues are empty.
func (f *Feeder) Finish() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.finished {
		f.finished = true
		close(f.blind)
		close(f.rtw)
	}
}

// Fed is how many events were queued so far.
func (f *Feeder) Fed() int64 { return f.fed.Load() }

// Blind returns what the blind counter counts.
func (f *Feeder) Blind(ctx context.Context) (map[storage.VideoID]storage.Tally, error) {
	return f.counts(ctx, `SELECT video_id, likes, dislikes FROM naive_blind`)
}

// ReadThenWrite returns what the read-then-write counter counts.
func (f *Feeder) ReadThenWrite(ctx context.Context) (map[storage.VideoID]storage.Tally, error) {
	return f.counts(ctx, `SELECT video_id, likes, dislikes FROM naive_read_then_write`)
}

func (f *Feeder) counts(ctx context.Context, query string) (map[storage.VideoID]storage.Tally, error) {
	rows, err := f.pool.Query(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("reading the naive counts: %w", err)
	}
	counts := make(map[storage.VideoID]storage.Tally)
	var video storage.VideoID
	var t storage.Tally
	_, err = pgx.ForEachRow(rows, []any{&video, &t.Likes, &t.Dislikes}, func() error {
		counts[video] = t
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the naive counts: %w", err)
	}
	return counts, nil
}
