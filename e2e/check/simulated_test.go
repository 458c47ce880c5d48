package check

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"likewise/storage"
)

// simulation is the register as it should be, written down a second time and
// in another way: with real offsets, and one moment at which each operation
// takes effect.
type simulation struct {
	reaction storage.Reaction
	version  int64
	offset   int64 // of the slot's log, which other keys advance too
	kept     map[string]Result
}

// simulated draws a history that is right by construction.
func simulated(t *rapid.T, o Options) []Op {
	ops := make([]Op, rapid.IntRange(1, 14).Draw(t, "ops"))
	for i := range ops {
		ops[i] = drawOp(t)
		call := time.Duration(10 * i)
		early := rapid.IntRange(0, 25).Draw(t, "early")
		late := rapid.IntRange(0, 25).Draw(t, "late")
		ops[i].Call, ops[i].Return = call-time.Duration(early), call+time.Duration(late)
		ops[i].Client = i
	}
	s := simulation{kept: map[string]Result{}}
	for i := range ops {
		s.offset += int64(rapid.IntRange(1, 3).Draw(t, "others"))
		if o.Sweeps && s.reaction == storage.None && rapid.Bool().Draw(t, "sweep") {
			s.version = 0
		}
		s.take(t, &ops[i])
	}
	return ops
}

func drawOp(t *rapid.T) Op {
	op := Op{Key: Key{"cat", "alice"}, Kind: rapid.SampledFrom([]Kind{Set, Set, Set, Get}).Draw(t, "kind")}
	if op.Kind == Get {
		return op
	}
	op.Desired = storage.Reaction(rapid.IntRange(0, 2).Draw(t, "desired"))
	if rapid.IntRange(0, 3).Draw(t, "keyed") == 0 {
		// The key fixes the reaction: one key for two is refused at the door.
		op.IdempotencyKey = op.Desired.String() + rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")
	} else if rapid.IntRange(0, 3).Draw(t, "conditional") == 0 {
		expected := int64(rapid.IntRange(0, 9).Draw(t, "expected"))
		op.Expected = &expected
	}
	return op
}

// take lets an operation have its effect, and its client hear of it or not.
func (s *simulation) take(t *rapid.T, op *Op) {
	heard := rapid.IntRange(0, 4).Draw(t, "fate")
	if heard == 0 { // it never arrived, and its client may know that
		op.Outcome = rapid.SampledFrom([]Outcome{Failed, Unknown}).Draw(t, "knows")
		return
	}
	op.Outcome, op.Result = s.answer(*op)
	if heard == 1 {
		op.Outcome, op.Return, op.Result = Unknown, op.Call, Result{}
	}
}

func (s *simulation) answer(op Op) (Outcome, Result) {
	state := Result{Reaction: s.reaction, Version: s.version}
	if op.Kind == Get {
		return OK, state
	}
	if kept, ok := s.kept[op.IdempotencyKey]; ok && op.IdempotencyKey != "" {
		return OK, kept
	}
	if op.Expected != nil && !s.meets(*op.Expected) {
		return Refused, state
	}
	result := Result{Previous: s.reaction, Reaction: op.Desired, Changed: s.reaction != op.Desired}
	if result.Changed {
		s.version++
		if s.version == 1 {
			s.version = s.offset
		}
		s.offset = max(s.offset, s.version)
	}
	s.reaction, result.Version = op.Desired, s.version
	s.kept[op.IdempotencyKey] = result
	return OK, result
}

func (s *simulation) meets(expected int64) bool {
	if expected == 0 {
		return s.reaction == storage.None
	}
	return s.version == expected
}

func TestWhatIsRightByConstructionPasses(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{"with a sweeper": {Sweeps: true}, "without": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				ops := simulated(t, o)
				require.Empty(t, Report(Linearizable(ops, o)))
				require.Empty(t, Report(Versions(ops)))
			})
		})
	}
}

// A history whose last answer is one that cannot be must fail, whatever went
// before.
func TestWrongLastAnswerIsFound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ops := simulated(t, Options{})
		highest := slices.MaxFunc(ops, func(a, b Op) int { return int(a.Result.Version - b.Result.Version) }).Result
		if highest.Version == 0 {
			return // nothing was acknowledged
		}
		stale := get(highest.Reaction, highest.Version-1)
		stale.Key, stale.Call, stale.Return, stale.Client = ops[0].Key, math.MaxInt32, math.MaxInt32+1, 99
		ops = append(ops, stale)
		require.NotEmpty(t, Linearizable(ops, Options{}))
	})
}
