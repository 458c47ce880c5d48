package pgproxy

import (
	"context"
	"sync"
	"time"
)

// Outcome is what became of the COMMIT that a fault hit.
type Outcome int

// The outcomes.
const (
	// Unknown: the fault hit no COMMIT, is not over, or the server ended
	// without an answer.
	Unknown Outcome = iota
	// Committed: the server said so.
	Committed
	// NotCommitted: the COMMIT never reached the server, or the server refused
	// it.
	NotCommitted
)

// String names the outcome.
func (o Outcome) String() string {
	switch o {
	case Committed:
		return "committed"
	case NotCommitted:
		return "not committed"
	default:
		return "unknown"
	}
}

// Armed is a fault in wait, in force, or over. It is safe for concurrent use.
type Armed struct {
	fault Fault

	left int // guarded by Proxy.mu: how many moments until it takes hold

	tookHold, healed, done  chan struct{}
	holdOnce, healOnce, end sync.Once
	outcome                 Outcome // written before done is closed
}

func newArmed(f Fault) *Armed {
	return &Armed{
		fault:    f,
		left:     max(f.Nth, 1),
		tookHold: make(chan struct{}),
		healed:   make(chan struct{}),
		done:     make(chan struct{}),
	}
}

// Fault returns what was armed.
func (a *Armed) Fault() Fault { return a.fault }

// TookHold is closed when the fault has happened: the client is cut or
// silenced, the link is dark, slow or has refused a connection.
func (a *Armed) TookHold() <-chan struct{} { return a.tookHold }

// Heal ends the fault: what it holds back is delivered, the link is clear. A
// fault that has not taken hold never will. It may be called again.
func (a *Armed) Heal() { a.healOnce.Do(func() { close(a.healed) }) }

// Done is closed when the fate of the COMMIT that was hit is settled. Only
// faults at [CommitSent] and [CommitAnswered] come to that, and only after they
// took hold.
func (a *Armed) Done() <-chan struct{} { return a.done }

// Outcome returns what became of the COMMIT, once Done is closed; Unknown
// before.
func (a *Armed) Outcome() Outcome {
	select {
	case <-a.done:
		return a.outcome
	default:
		return Unknown
	}
}

func (a *Armed) hold() {
	a.holdOnce.Do(func() {
		close(a.tookHold)
		if a.fault.Link == Dark && a.fault.After > 0 {
			time.AfterFunc(a.fault.After, a.Heal)
		}
	})
}

func (a *Armed) settle(o Outcome) {
	a.end.Do(func() {
		a.outcome = o
		close(a.done)
	})
}

func (a *Armed) isHealed() bool {
	select {
	case <-a.healed:
		return true
	default:
		return false
	}
}

// awaitHeal returns when the fault ends: by Heal, or by itself after its time.
func (a *Armed) awaitHeal(ctx context.Context) error {
	if a.fault.After > 0 {
		err := pause(ctx, a.fault.After, a.healed)
		a.Heal()
		return err
	}
	select {
	case <-a.healed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
