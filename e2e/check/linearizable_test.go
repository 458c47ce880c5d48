package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"likewise/storage"
)

const (
	none    = storage.None
	like    = storage.Like
	dislike = storage.Dislike
)

// at places an operation in time. The hand-made histories call every operation
// by a client of its own.
func at(call, ret time.Duration, op Op) Op {
	op.Key = Key{Video: "cat", User: "alice"}
	op.Call, op.Return, op.Client = call, ret, int(call)
	return op
}

func set(desired storage.Reaction) Op { return Op{Kind: Set, Desired: desired, Outcome: Unknown} }

func get(r storage.Reaction, version int64) Op {
	return Op{Kind: Get, Result: Result{Reaction: r, Version: version}}
}

// changed tells a Set that it was carried out, and unchanged that it was not
// necessary.
func (o Op) changed(previous storage.Reaction, version int64) Op {
	o.Outcome, o.Result = OK, Result{previous, o.Desired, version, true}
	return o
}

func (o Op) unchanged(version int64) Op {
	o.Outcome, o.Result = OK, Result{o.Desired, o.Desired, version, false}
	return o
}

func (o Op) refused(current storage.Reaction, version int64) Op {
	o.Outcome, o.Result = Refused, Result{Reaction: current, Version: version}
	return o
}

func (o Op) failed() Op {
	o.Outcome = Failed
	return o
}

func (o Op) expecting(version int64) Op {
	o.Expected = &version
	return o
}

func (o Op) under(key string) Op {
	o.IdempotencyKey = key
	return o
}

// story lines up operations one after the other.
func story(ops ...Op) []Op {
	for i, op := range ops {
		ops[i] = at(time.Duration(10*i), time.Duration(10*i+5), op)
	}
	return ops
}

func TestGoodHistoriesPass(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options Options
		ops     []Op
	}{
		"nothing": {},
		"a life": {ops: story(
			get(none, 0), set(none).unchanged(0), set(like).changed(none, 7), set(like).unchanged(7),
			set(dislike).changed(like, 8), get(dislike, 8), set(none).changed(dislike, 9), get(none, 9),
			set(none).unchanged(9), set(like).changed(none, 10),
		)},
		"concurrent writers in either order": {ops: []Op{
			at(0, 100, set(like).changed(dislike, 4)),
			at(0, 100, set(dislike).changed(none, 3)),
			at(10, 20, get(none, 0)),
			at(110, 120, get(like, 4)),
		}},
		"unknown that happened":       {ops: story(set(like), get(like, 41), set(none).changed(like, 42))},
		"unknown that never happened": {ops: story(set(like), get(none, 0), set(dislike).changed(none, 3))},
		"unknown that happened much later": {ops: story(
			set(dislike), get(none, 0), set(like).changed(none, 5), get(like, 5), get(dislike, 6), set(like).changed(dislike, 7),
		)},
		"unknown on unknown":                             {ops: story(set(like), set(dislike), get(dislike, 10), set(none).changed(dislike, 11))},
		"unknown on unknown, in the other order":         {ops: story(set(like), set(dislike), get(like, 10), get(like, 10))},
		"two unknown of which the second alone happened": {ops: story(set(like), set(dislike), get(dislike, 1))},
		"failed": {ops: story(set(like).failed(), get(none, 0))},
		"condition that holds": {ops: story(
			set(like).expecting(0).changed(none, 3), set(dislike).expecting(3).changed(like, 4),
			set(none).changed(dislike, 5), set(like).expecting(0).changed(none, 6), set(like).expecting(6).unchanged(6),
		)},
		"condition on a tombstone": {ops: story(
			set(like).changed(none, 3), set(none).changed(like, 4), set(like).expecting(4).changed(none, 5),
		)},
		"condition that fails": {ops: story(
			set(like).expecting(9).refused(none, 0), set(like).changed(none, 3), set(dislike).expecting(0).refused(like, 3),
			set(dislike).expecting(2).refused(like, 3), get(like, 3),
		)},
		"condition on a version nobody saw": {ops: story(
			set(like), set(dislike).expecting(12).changed(like, 13), get(dislike, 13),
		)},
		"unknown condition that did not hold": {ops: story(
			set(like).changed(none, 3), set(dislike).expecting(2), get(like, 3), get(like, 3),
		)},
		"unknown condition on a version nobody saw": {ops: story(
			set(like), set(dislike).expecting(12), get(dislike, 13),
		)},
		"repeat under a key": {ops: story(
			set(like).under("k").changed(none, 3), set(none).changed(like, 4),
			set(like).under("k").changed(none, 3), get(none, 4),
		)},
		"repeat of an unknown that happened": {ops: story(
			set(like).under("k"), set(none).changed(like, 4), set(like).under("k").changed(none, 3), get(none, 4),
		)},
		"repeat of an unknown that did not happen": {ops: story(
			set(like).under("k"), set(dislike).changed(none, 4), set(like).under("k").changed(dislike, 5), get(like, 5),
		)},
		"repeat of a no-op": {ops: story(
			set(like).changed(none, 3), set(like).under("k").unchanged(3), set(none).changed(like, 4),
			set(like).under("k").unchanged(3), get(none, 4),
		)},
		"repeat after a refusal, which is not kept": {ops: story(
			set(like).expecting(3).under("k").refused(none, 0), set(dislike).changed(none, 3),
			set(like).expecting(3).under("k").changed(dislike, 4),
		)},
		"two at once under a key": {ops: []Op{
			at(0, 100, set(like).under("other").changed(none, 1)),
			at(0, 100, set(like).under("other").changed(none, 1)),
			at(110, 120, get(like, 1)),
		}},
		"swept tombstone": {Options{Sweeps: true}, story(
			set(like).changed(none, 3), set(none).changed(like, 4), get(none, 4), get(none, 0),
			set(like).changed(none, 9), get(like, 9),
		)},
		"swept unseen": {Options{Sweeps: true}, story(
			set(like).changed(none, 3), set(none).changed(like, 4), set(like).changed(none, 9),
		)},
		"swept, with unknowns": {Options{Sweeps: true}, story(
			set(like), set(none), get(none, 0), set(dislike), get(dislike, 30), set(like).changed(dislike, 31),
		)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, Report(Linearizable(test.ops, test.options)))
			require.Empty(t, Report(Versions(test.ops)))
		})
	}
}

func TestBadHistoriesAreFound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options Options
		ops     []Op
	}{
		"lost update": {ops: story(set(like).changed(none, 3), get(none, 0))},
		"lost update under an unknown": {ops: story(
			set(like).changed(none, 3), set(like), get(none, 0),
		)},
		"effect of a failed write":        {ops: story(set(like).failed(), get(like, 1))},
		"effect of a refused write":       {ops: story(set(like).expecting(9).refused(none, 0), get(like, 1))},
		"reaction nobody set":             {ops: story(set(like).changed(none, 3), get(dislike, 4))},
		"stale read":                      {ops: story(set(like).changed(none, 3), set(none).changed(like, 4), get(like, 3))},
		"stale read after another's read": {ops: story(set(like), get(like, 3), get(none, 0))},
		"stale previous":                  {ops: story(set(like).changed(none, 3), set(dislike).changed(none, 4))},
		"change said to be none":          {ops: story(set(like).unchanged(3))},
		"no change said to be one":        {ops: story(set(like).changed(none, 3), set(like).changed(like, 4))},
		"version given twice":             {ops: story(set(like).changed(none, 3), set(dislike).changed(like, 3))},
		"version skipped":                 {ops: story(set(like).changed(none, 3), set(dislike).changed(like, 5))},
		"version fell":                    {ops: story(set(like).changed(none, 3), set(dislike).changed(like, 2))},
		"no-op with a new version":        {ops: story(set(like).changed(none, 3), set(like).unchanged(4))},
		"reaction without a version":      {ops: story(set(like).changed(none, 0))},
		"unknown applied twice": {ops: story(
			set(like), get(like, 5), set(none).changed(like, 6), get(like, 7),
		)},
		"unknown overtaken and then said not to be": {ops: story(
			set(like), set(dislike).changed(none, 2), set(none).changed(like, 3),
		)},
		"double effect under one key": {ops: story(
			set(like).under("k").changed(none, 3), set(none).changed(like, 4), set(like).under("k").changed(none, 5),
		)},
		"double effect of an unknown under one key": {ops: story(
			set(like).under("k"), get(like, 3), set(none).changed(like, 4), set(like).under("k").changed(none, 5),
		)},
		"silent double effect under one key": {ops: story(
			set(like).under("k").changed(none, 3), set(none).changed(like, 4),
			set(like).under("k").changed(none, 3), get(like, 5),
		)},
		"two at once under one key both count": {ops: []Op{
			at(0, 100, set(like).under("k").changed(none, 1)),
			at(0, 100, set(like).under("k").unchanged(1)),
		}},
		"one key for two reactions": {ops: story(
			set(like).under("k").changed(none, 3), set(dislike).under("k").changed(like, 4),
		)},
		"condition ignored":              {ops: story(set(like).changed(none, 3), set(none).expecting(2).changed(like, 4))},
		"condition that held refused":    {ops: story(set(like).changed(none, 3), set(none).expecting(3).refused(like, 3))},
		"refused with another's state":   {ops: story(set(like).changed(none, 3), set(none).expecting(2).refused(dislike, 3))},
		"unconditional refused":          {ops: story(set(like).refused(none, 0))},
		"condition NONE on a reaction":   {ops: story(set(like).changed(none, 3), set(dislike).expecting(0).changed(like, 4))},
		"tombstone lost without a sweep": {ops: story(set(like).changed(none, 3), set(none).changed(like, 4), get(none, 0))},
		"new row below an old version": {Options{Sweeps: true}, story(
			set(like).changed(none, 3), set(none).changed(like, 4), get(none, 0), set(like).changed(none, 4),
		)},
		"reaction swept": {Options{Sweeps: true}, story(set(like).changed(none, 3), get(none, 0))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			violations := Linearizable(test.ops, test.options)
			require.Len(t, violations, 1, "one key, one violation")
			require.Equal(t, NotLinearizable, violations[0].Rule, Report(violations))
			require.Equal(t, "(cat, alice)", violations[0].Where)
			require.NotEmpty(t, violations[0].Ops)
		})
	}
}

func TestViolationNamesTheFirstWrongAnswer(t *testing.T) {
	t.Parallel()
	ops := story(set(like).changed(none, 3), get(none, 0), set(dislike).changed(like, 4), get(dislike, 4))
	violations := Linearizable(ops, Options{})
	require.Equal(t, `linearizable: (cat, alice): no order of the first 2 operations explains what client 10 was told at 15ns; the last ones are
    client 0, 0s to 5ns: Set LIKE → LIKE at version 3, was NONE
    client 10, 10ns to 15ns: Get → NONE at version 0`, Report(violations))
}

func TestKeysAreIndependent(t *testing.T) {
	t.Parallel()
	ops := story(set(like).changed(none, 3), set(like).changed(none, 4), get(none, 0), get(none, 0))
	ops[1].Key.User = "bob"
	ops[2].Key.User = "bob"
	ops[3].Key.Video = "dog"
	violations := Linearizable(ops, Options{})
	require.Len(t, violations, 1)
	require.Equal(t, "(cat, bob)", violations[0].Where)
}

func TestUndecidedIsNoSuccess(t *testing.T) {
	t.Parallel()
	var ops []Op
	for i := range 40 {
		ops = append(ops, at(0, 1000, set(storage.Reaction(i%3)).expecting(int64(i))))
	}
	ops = append(ops, at(1, 1000, get(like, 100_000)), at(2000, 2001, get(dislike, 1)))
	violations := Linearizable(ops, Options{Timeout: time.Millisecond})
	require.Len(t, violations, 1)
	require.Equal(t, Undecided, violations[0].Rule)
}
