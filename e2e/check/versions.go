package check

import (
	"cmp"
	"fmt"
	"slices"

	"likewise/storage"
)

// Versions checks, per key, that no version was given to two states or to two
// changes, that one idempotency key had one effect, and that who called later
// saw no earlier version. NONE at version 0,
// which a swept tombstone reads as, may follow any version.
func Versions(ops []Op) []Violation {
	var violations []Violation
	keys, parts := byKey(ops)
	for _, key := range keys {
		repeated := repeatedKeys(parts[key])
		told := slices.DeleteFunc(parts[key], func(op Op) bool { return !op.knows() })
		violations = append(violations, reused(key, told)...)
		violations = append(violations, repeats(key, told)...)
		violations = append(violations, fell(key, told, repeated)...)
	}
	return violations
}

// reused finds versions that stand for more than one state or change.
func reused(key Key, told []Op) []Violation {
	var violations []Violation
	report := func(what string, ops ...Op) {
		violations = append(violations, Violation{Rule: VersionReused, Where: key.String(), What: what, Ops: ops})
	}
	states, changes := map[int64]Op{0: {}}, map[int64]Op{}
	for _, op := range told {
		v := op.Result.Version
		first, known := states[v]
		switch {
		case !known:
			states[v] = op
		case first.Result.Reaction != op.Result.Reaction && v == 0:
			report(fmt.Sprintf("version 0 is %s, and should be %s", op.Result.Reaction, storage.None), op)
		case first.Result.Reaction != op.Result.Reaction:
			report(fmt.Sprintf("version %d is %s and %s", v, first.Result.Reaction, op.Result.Reaction), first, op)
		}
		if !op.Result.Changed {
			continue
		}
		if first, known := changes[v]; known && !sameRequest(first, op) {
			report(fmt.Sprintf("two changes have version %d", v), first, op)
		}
		changes[v] = op
	}
	return violations
}

func sameRequest(a, b Op) bool {
	return a.IdempotencyKey != "" && a.IdempotencyKey == b.IdempotencyKey
}

// repeats finds Sets under one idempotency key that were told of different
// effects.
func repeats(key Key, told []Op) []Violation {
	var violations []Violation
	answers := map[string]Op{}
	for _, op := range told {
		if op.Kind == Get || op.IdempotencyKey == "" || op.Outcome != OK {
			continue
		}
		first, known := answers[op.IdempotencyKey]
		if known && first.Result != op.Result {
			violations = append(violations, Violation{
				Rule: DoubleEffect, Where: key.String(),
				What: fmt.Sprintf("two answers under key %q", op.IdempotencyKey), Ops: []Op{first, op},
			})
		}
		answers[op.IdempotencyKey] = op
	}
	return violations
}

// fell finds operations that were told an older version than one that was told
// before they were called. Sets under repeated idempotency keys are exempt:
// they may be told the result of an earlier one.
func fell(key Key, told []Op, repeated map[string]bool) []Violation {
	returned := slices.Clone(told)
	slices.SortStableFunc(returned, func(a, b Op) int { return cmp.Compare(a.Return, b.Return) })
	var violations []Violation
	var highest Op
	for _, op := range told { // in the order of calls
		for len(returned) > 0 && returned[0].Return < op.Call {
			if returned[0].Result.Version > highest.Result.Version {
				highest = returned[0]
			}
			returned = returned[1:]
		}
		if repeated[op.IdempotencyKey] {
			continue
		}
		if v, seen := op.Result.Version, highest.Result.Version; isOlder(op, v, seen) {
			violations = append(violations, Violation{
				Rule: VersionFell, Where: key.String(),
				What: fmt.Sprintf("version %d after version %d", v, seen), Ops: []Op{highest, op},
			})
		}
	}
	return violations
}

func isOlder(op Op, v, seen int64) bool {
	if v == 0 && op.Result.Reaction == storage.None {
		return false
	}
	return v < seen || op.Result.Changed && v == seen && seen > 0
}
