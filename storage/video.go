package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
)

// VideoChange is what SetVideoState led to.
type VideoChange struct {
	Previous VideoState
	State    VideoState
	Changed  bool
	// Generation goes up by one at every change of the video's state. 0: there
	// never was one.
	Generation int64
}

// UnsettledError means that a video's state may or may not have been set, or
// is set but not yet in force everywhere. Setting it again has one effect.
type UnsettledError struct{ Cause error }

func (e *UnsettledError) Error() string { return fmt.Sprintf("video state is unsettled: %v", e.Cause) }
func (e *UnsettledError) Unwrap() error { return e.Cause }

// barrierSlots is how many heads the barrier holds at once: few, because the
// writes of all of them wait for the busiest.
const barrierSlots = 16

// SetVideoState brings a video to a state. When it returns without an error, no
// Set commits any more, at any node, that saw another state: the state is
// committed first, and then every slot's head is taken once and released, so
// that each transaction which had read the old state has ended.
//
// It is tried again until ctx ends, which then is an UnsettledError, or an
// UnavailableError if the database was never reached. After a repeat inside,
// Previous and Changed are those of the last attempt.
func (s *Store) SetVideoState(ctx context.Context, video VideoID, state VideoState) (VideoChange, error) {
	reached := false
	change, err := persist(ctx, func() (VideoChange, error) {
		change, err := s.setVideoState(ctx, video, state)
		reached = reached || !notReached(err)
		return change, err
	})
	if err != nil && !reached {
		return VideoChange{}, fmt.Errorf("set the state of %q: %w", video, &UnavailableError{RetryAfter: retryAfter, Cause: err})
	}
	if err == nil && guardVideoBarrier {
		err = s.barrier(ctx)
	}
	if err != nil {
		return VideoChange{}, fmt.Errorf("set the state of %q: %w", video, &UnsettledError{err})
	}
	return change, nil
}

// setVideoState commits the state, in a transaction that writes nothing else.
func (s *Store) setVideoState(ctx context.Context, video VideoID, state VideoState) (VideoChange, error) {
	change := VideoChange{Previous: VideoActive, State: state}
	batch := &pgx.Batch{}
	batch.Queue(beginSQL)
	batch.Queue(insertVideoSQL, video, state)
	batch.Queue(lockVideoSQL, video).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&change.Previous, &change.Generation}, func() error { return nil })
		return err
	})
	batch.Queue(updateVideoSQL, video, state)
	batch.Queue("COMMIT").Exec(expectCommit(func() {}))
	if err := s.sendAlone(ctx, batch); err != nil {
		return VideoChange{}, err
	}
	if change.Changed = change.Previous != state; change.Changed {
		change.Generation++
	}
	return change, nil
}

// barrier takes and releases the head of every slot.
func (s *Store) barrier(ctx context.Context) error {
	for first := 0; first < Slots; first += barrierSlots {
		slots := make([]int64, barrierSlots)
		for i := range slots {
			slots[i] = int64(first + i)
		}
		_, err := persist(ctx, func() (struct{}, error) { return struct{}{}, s.passHeads(ctx, slots) })
		if err != nil {
			return fmt.Errorf("wait for writes in flight: %w", err)
		}
	}
	return nil
}

// passHeads takes heads as a write does, and releases them.
func (s *Store) passHeads(ctx context.Context, slots []int64) error {
	locked := 0
	batch := &pgx.Batch{}
	batch.Queue(beginSQL)
	batch.Queue(lockHeadsSQL, slots).Query(func(rows pgx.Rows) error {
		tag, err := pgx.ForEachRow(rows, []any{nil, nil}, func() error { return nil })
		locked = int(tag.RowsAffected())
		return err
	})
	batch.Queue("COMMIT").Exec(expectCommit(func() {}))
	if err := s.sendAlone(ctx, batch); err != nil {
		return err
	}
	if locked != len(slots) {
		return ErrStaleMap
	}
	return nil
}

// sendAlone runs a whole transaction in one flush on a connection that writes.
func (s *Store) sendAlone(ctx context.Context, batch *pgx.Batch) error {
	ctx, cancel := context.WithTimeoutCause(ctx, attemptTimeout, errAttemptTimeout)
	defer cancel()
	conn, err := s.writes.Acquire(ctx)
	if err != nil {
		return &notReachedError{err}
	}
	defer release(ctx, conn)
	return conn.SendBatch(ctx, batch).Close()
}

// notReachedError means that there was no connection to send anything on.
type notReachedError struct{ cause error }

func (e *notReachedError) Error() string { return fmt.Sprintf("acquire connection: %v", e.cause) }
func (e *notReachedError) Unwrap() error { return e.cause }

func notReached(err error) bool {
	_, is := errors.AsType[*notReachedError](err)
	return is
}

// persist repeats what is harmless to repeat, until ctx ends or an error says
// that no repeat will help.
func persist[T any](ctx context.Context, do func() (T, error)) (T, error) {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = backoffBase, backoffMax
	return backoff.Retry(ctx, func() (T, error) {
		done, err := do()
		hopeless := errors.Is(err, ErrStaleMap) || !notReached(err) && classify(err, commitSent) == broken
		if err != nil && ctx.Err() == nil && hopeless {
			return done, backoff.Permanent(err)
		}
		return done, err
	}, backoff.WithBackOff(wait), backoff.WithMaxElapsedTime(time.Duration(0)))
}
