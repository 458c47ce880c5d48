package check

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"

	"likewise/storage"
)

// Options says what Linearizable takes for granted. The zero value is strict.
type Options struct {
	// Sweeps means that tombstones may have been removed while the history ran.
	// Otherwise an undone reaction keeps its version.
	Sweeps bool
	// Timeout bounds the search for one key; a key that takes longer is
	// Undecided. Default 10 s.
	Timeout time.Duration
}

// reported is how many operations a violation shows at most.
const reported = 12

// Linearizable checks that the operations of each key can be put into one order
// that explains every answer: each takes effect at one moment between its call
// and its return; one of unknown outcome at any moment after its call, or
// never; several Sets under one idempotency key take effect once. Every key
// begins without a row.
func Linearizable(ops []Op, o Options) []Violation {
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	var violations []Violation
	keys, parts := byKey(ops)
	for _, key := range keys {
		m := model{sweeps: o.Sweeps, repeated: repeatedKeys(parts[key]), timeout: o.Timeout}
		violations = append(violations, m.check(key, parts[key])...)
	}
	return violations
}

// model is the specification of one key's register.
type model struct {
	sweeps   bool
	repeated map[string]bool // idempotency keys whose result matters later
	timeout  time.Duration
	told     witnesses
}

func (m model) check(key Key, ops []Op) []Violation {
	switch m.search(ops) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return []Violation{{
			Rule: Undecided, Where: key.String(),
			What: fmt.Sprintf("no decision on %d operations within %s", len(ops), m.timeout),
		}}
	default:
		return []Violation{m.explain(key, ops)}
	}
}

// search looks for an order that explains the operations.
func (m model) search(ops []Op) porcupine.CheckResult {
	ops = m.reduced(ops)
	m.told = m.witnesses(ops)
	history := make([]porcupine.Operation, 0, len(ops))
	for _, op := range ops {
		if op.Outcome == Failed || op.Outcome == Unknown && op.Kind == Get {
			continue
		}
		history = append(history, porcupine.Operation{
			ClientId: op.Client, Input: op, Call: int64(op.Call), Return: lastMoment(op),
		})
	}
	return porcupine.CheckOperationsTimeout(m.porcupine(), history, m.timeout)
}

// lastMoment is the latest time at which an operation may take effect. For one
// of unknown outcome that is the end of time, which stands for "never" too.
func lastMoment(op Op) int64 {
	if op.Outcome == Unknown {
		return math.MaxInt64
	}
	return int64(op.Return)
}

func (m model) porcupine() porcupine.Model {
	seed := maphash.MakeSeed()
	spec := porcupine.NondeterministicModel{
		Init: func() []any { return []any{register{}} },
		Step: func(state, input, _ any) []any {
			return boxed(m.step(state.(register), input.(Op))) //nolint:forcetypeassert // what search and Init put in
		},
		Equal: func(a, b any) bool { return a.(register).equal(b.(register)) }, //nolint:forcetypeassert // as above
		Hash:  func(a any) uint64 { return a.(register).hash(seed) },           //nolint:forcetypeassert // as above
	}
	return spec.ToModel()
}

func boxed(registers []register) []any {
	out := make([]any, len(registers))
	for i, r := range registers {
		out[i] = r
	}
	return out
}

// step returns what the register may be after op, given what op was told.
func (m model) step(r register, op Op) []register {
	after := m.apply(r, op)
	if m.sweeps && r.hasRow() && r.reaction == storage.None {
		r.version = version{} // the sweeper was here
		after = append(after, m.apply(r, op)...)
	}
	if m.bearsWitness(op) {
		for i := range after {
			after[i].witnessed++
		}
	}
	return after
}

func (m model) apply(r register, op Op) []register {
	if op.Kind == Get {
		return see(r, op.Result.Reaction, op.Result.Version)
	}
	if kept, ok := r.recall(op.IdempotencyKey); ok {
		return replay(r, kept, op)
	}
	yes, no := r.meets(op.Expected)
	switch op.Outcome {
	case OK:
		return m.acknowledge(yes, op)
	case Refused:
		var out []register
		for _, s := range no {
			out = append(out, see(s, op.Result.Reaction, op.Result.Version)...)
		}
		return out
	default:
		for _, s := range yes {
			no = append(no, m.carryOut(s, op)...)
		}
		return no
	}
}

// replay answers a Set from the result that its key kept.
func replay(r register, kept memo, op Op) []register {
	switch {
	case op.Outcome == Unknown:
		return []register{r}
	case op.Outcome != OK, op.Desired != kept.reaction:
		return nil
	case op.Result != Result{kept.previous, kept.reaction, op.Result.Version, kept.changed}:
		return nil
	default:
		return r.pin(kept.version, op.Result.Version)
	}
}

// acknowledge carries out a Set that was told its result.
func (m model) acknowledge(registers []register, op Op) []register {
	var out []register
	for _, r := range registers {
		told := op.Result
		if told.Previous != r.reaction || told.Reaction != op.Desired || told.Changed != (r.reaction != op.Desired) {
			continue
		}
		for _, next := range m.become(r, op) {
			for _, seen := range see(next, told.Reaction, told.Version) {
				out = append(out, m.keep(seen, r.reaction, op))
			}
		}
	}
	return out
}

// carryOut is acknowledge without a result to compare.
func (m model) carryOut(r register, op Op) []register {
	next := m.become(r, op)
	for i := range next {
		next[i] = m.keep(next[i], r.reaction, op)
	}
	return next
}

// keep stores the result under the Set's idempotency key, if that is seen again.
func (m model) keep(r register, previous storage.Reaction, op Op) register {
	if !m.repeated[op.IdempotencyKey] {
		return r
	}
	return r.remember(memo{
		key: op.IdempotencyKey, previous: previous, reaction: op.Desired,
		version: r.version, changed: previous != op.Desired,
	})
}

// explain names the first operation whose answer no order explains.
func (m model) explain(key Key, ops []Op) Violation {
	told := slices.DeleteFunc(slices.Clone(ops), func(op Op) bool { return !op.knows() })
	slices.SortStableFunc(told, func(a, b Op) int { return cmp.Compare(a.Return, b.Return) })
	// If a history can be explained, so can every beginning of it.
	n := sort.Search(len(told)-1, func(i int) bool {
		return m.search(until(ops, told[i].Return)) == porcupine.Illegal
	})
	culprit := told[n]
	seen := calledBy(ops, culprit.Return)
	return Violation{
		Rule: NotLinearizable, Where: key.String(),
		What: fmt.Sprintf("no order of the first %d operations explains what client %d was told at %s; the last ones are",
			len(seen), culprit.Client, culprit.Return),
		Ops: seen[max(0, len(seen)-reported):],
	}
}

// until returns the history as it was at a moment: what had not returned by
// then was of unknown outcome.
func until(ops []Op, moment time.Duration) []Op {
	seen := slices.Clone(calledBy(ops, moment))
	for i, op := range seen {
		if op.knows() && op.Return > moment {
			seen[i].Outcome = Unknown
		}
	}
	return seen
}

// calledBy returns the operations, which are in the order of their calls, that
// were called at a moment or before.
func calledBy(ops []Op, moment time.Duration) []Op {
	n := sort.Search(len(ops), func(i int) bool { return ops[i].Call > moment })
	return ops[:n]
}
