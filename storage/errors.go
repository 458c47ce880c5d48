package storage

import (
	"errors"
	"fmt"
	"time"
)

// ErrOutcomeUnknown means that the write may or may not have been applied.
// Repeating it with the same idempotency key has one effect; without a key, or
// with another one, it may overtake a later write of the same user.
var ErrOutcomeUnknown = errors.New("outcome unknown")

// ErrStaleMap means that the database does not hold the slots that were asked
// for. Nothing was applied.
var ErrStaleMap = errors.New("stale map: the database does not hold these slots")

// ErrClosing means that the committer is draining. Nothing was applied.
var ErrClosing = errors.New("committer is closing")

// OverloadedError means that the Set was refused before anything was tried:
// the queue is full, or the deadline cannot be met.
type OverloadedError struct {
	// RetryAfter is when it is worth coming back.
	RetryAfter time.Duration
}

func (e *OverloadedError) Error() string {
	return fmt.Sprintf("overloaded: retry after %s", e.RetryAfter)
}

// UnavailableError means that the database could not do it within the
// deadline. Nothing was applied.
type UnavailableError struct {
	RetryAfter time.Duration
	// Cause is for the log, never for a client.
	Cause error
}

func (e *UnavailableError) Error() string { return fmt.Sprintf("database unavailable: %v", e.Cause) }
func (e *UnavailableError) Unwrap() error { return e.Cause }

// VersionMismatchError refuses a conditional Set. Nothing was applied.
type VersionMismatchError struct{ Current State }

func (e *VersionMismatchError) Error() string {
	return fmt.Sprintf("version is %d (%s)", e.Current.Version, e.Current.Reaction)
}

// VideoStateError refuses a Set on a video that takes no reactions.
type VideoStateError struct{ State VideoState }

func (e *VideoStateError) Error() string { return fmt.Sprintf("video is in state %d", e.State) }

// VideoDeletedError answers a read of a deleted video.
type VideoDeletedError struct{}

func (*VideoDeletedError) Error() string { return "video is deleted" }

// KeyReusedError refuses an idempotency key that was used with another
// reaction or condition.
type KeyReusedError struct{ Key string }

func (e *KeyReusedError) Error() string { return fmt.Sprintf("idempotency key %q was reused", e.Key) }
