package storage

import (
	"fmt"
	"sync/atomic"
	"time"
)

// request is one Set on its way through a worker. Exactly one side decides its
// fate: the worker by take, or its caller by abandon.
type request struct {
	set      Set
	deadline time.Time
	answer   chan verdict // holds one
	state    atomic.Int32
}

const (
	requestWaiting int32 = iota
	requestTaken
	requestAbandoned
)

func newRequest(set Set, deadline time.Time) *request {
	return &request{set: set, deadline: deadline, answer: make(chan verdict, 1)}
}

// take claims the request for a transaction. It fails if the caller has gone.
func (r *request) take() bool { return r.state.CompareAndSwap(requestWaiting, requestTaken) }

// untake gives a request back of which nothing was applied, so that its caller
// may leave it without doubt. It fails if the caller has gone meanwhile.
func (r *request) untake() bool { return r.state.CompareAndSwap(requestTaken, requestWaiting) }

// abandon is the caller's end of waiting. Before the request was taken it means
// that nothing happened, afterwards that nobody knows.
func (r *request) abandon(cause error) (Result, error) {
	if r.state.CompareAndSwap(requestWaiting, requestAbandoned) {
		return Result{}, cause
	}
	r.state.Store(requestAbandoned)
	select {
	case v := <-r.answer: // it came in the same moment
		return v.result, v.err
	default:
		return Result{}, fmt.Errorf("%w: %w", ErrOutcomeUnknown, cause)
	}
}

// resolve answers the request. It is called once.
func (r *request) resolve(v verdict) { r.answer <- v }

func (r *request) expired(now time.Time) bool { return !now.Before(r.deadline) }

// late reports whether nobody waits for the request any more: its caller has
// gone, or goes at this moment.
func (r *request) late(now time.Time) bool {
	return r.expired(now) || r.state.Load() == requestAbandoned
}
