package traffic

import (
	"fmt"
	"sync"
	"time"

	likewisev1 "likewise/proto/likewise/v1"
)

type (
	// Key names one reaction.
	Key struct{ Video, User string }

	// State is what a reaction was at some version. The zero value is that of a
	// key without a row, except that its Reaction is unspecified; see [None].
	State struct {
		Reaction likewisev1.Reaction
		Version  int64
	}
)

// None is the state of a key that nobody has reacted to.
func None() State { return State{Reaction: likewisev1.Reaction_NONE} }

// Kind is what an operation asks for.
type Kind uint8

// The kinds of operations that are recorded. Count reads name no key and are
// measured only.
const (
	Set Kind = iota
	Get
)

// String returns the kind's name in logs and histories.
func (k Kind) String() string {
	switch k {
	case Set:
		return "set"
	case Get:
		return "get"
	default:
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
}

// Outcome is what the client knows at the end of an operation.
type Outcome uint8

const (
	// OK means that the operation was acknowledged.
	OK Outcome = iota
	// Failed means that the operation surely had no effect.
	Failed
	// Unknown means that it may or may not have had its effect, once.
	Unknown
)

// String returns the outcome's name in logs and histories.
func (o Outcome) String() string {
	switch o {
	case OK:
		return "ok"
	case Failed:
		return "failed"
	case Unknown:
		return "unknown"
	default:
		return fmt.Sprintf("Outcome(%d)", uint8(o))
	}
}

// Op is one operation of one client, with all its attempts.
type Op struct {
	Kind Kind
	Key  Key
	// Client numbers the client, Region is the front door that it asked.
	Client int
	Region string

	// Desired and IdempotencyKey are what a Set asked for. An empty
	// IdempotencyKey means that the Set carried none, and then it was never
	// sent again after an unknown outcome.
	Desired        likewisev1.Reaction
	IdempotencyKey string

	// Start and End are monotonic times since the history began. The effect,
	// if there was one, lies between them, unless the outcome is Unknown: then
	// it may still come after End.
	Start, End time.Duration
	Attempts   int

	Outcome Outcome
	// State is the acknowledged state; Previous and Changed belong to a Set.
	// They mean nothing unless Outcome is OK.
	State    State
	Previous likewisev1.Reaction
	Changed  bool
	// Err is the last error of an operation that was not acknowledged.
	Err error
}

// History is a record of operations. Its methods may be called concurrently.
type History struct {
	began time.Time

	mu  sync.Mutex
	ops []Op // guarded by mu
}

// NewHistory starts an empty history at the present time.
func NewHistory() *History { return &History{began: time.Now()} }

// Now is the time since the history began.
func (h *History) Now() time.Duration { return time.Since(h.began) }

// Add records one finished operation.
func (h *History) Add(op Op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
}

// Ops returns a copy of what was recorded so far, in the order of completion.
func (h *History) Ops() []Op {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Op(nil), h.ops...)
}

// Keys returns each key that a history names once, in the order of appearance.
func Keys(ops []Op) []Key {
	seen := make(map[Key]struct{})
	var keys []Key
	for _, op := range ops {
		if _, ok := seen[op.Key]; !ok {
			seen[op.Key] = struct{}{}
			keys = append(keys, op.Key)
		}
	}
	return keys
}

// Summary counts the Sets of a history.
type Summary struct {
	// Acknowledged is Changed + Unchanged.
	Acknowledged int
	// Changed counts the distinct changes that were acknowledged. Several
	// copies of one request under one idempotency key are told of the same
	// change; it counts once, and the others are Unchanged.
	Changed   int
	Unchanged int
	Failed    int
	Unknown   int
}

// Summarize counts the Sets in ops.
func Summarize(ops []Op) Summary {
	type change struct {
		key     Key
		version int64
	}
	var s Summary
	changes := make(map[change]struct{})
	for _, op := range ops {
		if op.Kind != Set {
			continue
		}
		switch op.Outcome {
		case OK:
			s.Acknowledged++
			if op.Changed {
				changes[change{op.Key, op.State.Version}] = struct{}{}
			}
		case Failed:
			s.Failed++
		case Unknown:
			s.Unknown++
		}
	}
	s.Changed = len(changes)
	s.Unchanged = s.Acknowledged - s.Changed
	return s
}
