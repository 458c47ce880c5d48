package check

import (
	"fmt"
	"strings"
	"time"

	"likewise/storage"
)

// Kind is what an operation asks for.
type Kind uint8

// The kinds.
const (
	Set Kind = iota
	Get
)

// Outcome is what the client knows at the end of an operation.
type Outcome uint8

// The outcomes.
const (
	// OK: it was acknowledged, with Result.
	OK Outcome = iota
	// Refused: its expected version did not match; Result holds the current
	// state. Nothing happened.
	Refused
	// Failed: nothing happened. Such an operation constrains nothing.
	Failed
	// Unknown: it may have happened, may happen at any later time, or never;
	// but once at most.
	Unknown
)

// Op is one operation as its client saw it.
type Op struct {
	Kind   Kind
	Key    Key
	Client int

	// Call and Return are times of one monotonic clock. Return means nothing if
	// the outcome is Unknown.
	Call, Return time.Duration

	// Desired, Expected and IdempotencyKey are what a Set asks for.
	Desired        storage.Reaction
	Expected       *int64
	IdempotencyKey string

	Outcome Outcome
	// Result is what was answered. A Get fills Reaction and Version only, and
	// so does a refused Set.
	Result Result
}

// Result is what an operation was told.
type Result struct {
	Previous storage.Reaction
	Reaction storage.Reaction
	Version  int64
	Changed  bool
}

// String returns the operation in one line.
func (o Op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "client %d, %s to %s: ", o.Client, o.Call, o.end())
	if o.Kind == Get {
		b.WriteString("Get")
	} else {
		fmt.Fprintf(&b, "Set %s", o.Desired)
	}
	if o.Expected != nil {
		fmt.Fprintf(&b, " if version %d", *o.Expected)
	}
	if o.IdempotencyKey != "" {
		fmt.Fprintf(&b, " under key %q", o.IdempotencyKey)
	}
	b.WriteString(" → " + o.answer())
	return b.String()
}

func (o Op) end() string {
	if o.Outcome == Unknown {
		return "?"
	}
	return o.Return.String()
}

func (o Op) answer() string {
	state := fmt.Sprintf("%s at version %d", o.Result.Reaction, o.Result.Version)
	switch {
	case o.Outcome == Unknown:
		return "unknown"
	case o.Outcome == Failed:
		return "failed"
	case o.Outcome == Refused:
		return "refused, is " + state
	case o.Kind == Get:
		return state
	case o.Result.Changed:
		return fmt.Sprintf("%s, was %s", state, o.Result.Previous)
	default:
		return state + ", unchanged"
	}
}

// knows reports whether the operation saw a state.
func (o Op) knows() bool { return o.Outcome == OK || o.Outcome == Refused }

// repeatedKeys returns the idempotency keys that more than one Set of a key's
// history carried. One that was used once is as good as none.
func repeatedKeys(ops []Op) map[string]bool {
	uses := map[string]int{}
	for _, op := range ops {
		if op.Kind == Set && op.IdempotencyKey != "" {
			uses[op.IdempotencyKey]++
		}
	}
	repeated := map[string]bool{}
	for key, n := range uses {
		if n > 1 {
			repeated[key] = true
		}
	}
	return repeated
}
