package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"likewise/storage"
)

// Change is one entry of the change log.
type Change struct {
	Slot           storage.Slot
	Offset         int64
	Key            Key
	Previous, Next storage.Reaction
	Version        int64
	CounterSlot    storage.Slot
}

// Row is one reaction row or tombstone.
type Row struct {
	Slot        storage.Slot
	Key         Key
	Reaction    storage.Reaction
	Version     int64
	CounterSlot storage.Slot
}

// ShardKey names one counter shard.
type ShardKey struct {
	Video storage.VideoID
	Slot  storage.Slot
}

// Final is what a database holds, in one snapshot. The log reaches back to its
// beginning.
type Final struct {
	Changes []Change
	Rows    []Row
	Shards  map[ShardKey]storage.Tally
	// Heads holds each slot's next offset.
	Heads map[storage.Slot]int64
}

// Log checks that every slot's offsets go from 1 to its head without a gap, that
// each change follows from those before it, and that all of them together lead
// to exactly the rows and counter shards that are there. A tombstone may have
// been swept, a counter shard of nothing may be absent.
func Log(f Final) []Violation {
	changes := slices.Clone(f.Changes)
	slices.SortFunc(changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.Offset, b.Offset))
	})
	violations := gaps(changes, f.Heads)
	r := replayLog(changes)
	violations = append(violations, r.violations...)
	violations = append(violations, r.compareRows(f.Rows)...)
	return append(violations, r.compareShards(f.Shards)...)
}

// gaps checks the offsets of each slot against their order and the heads.
func gaps(changes []Change, heads map[storage.Slot]int64) []Violation {
	var violations []Violation
	report := func(slot storage.Slot, format string, args ...any) {
		violations = append(violations, Violation{Rule: Gap, Where: slotName(slot), What: fmt.Sprintf(format, args...)})
	}
	next := map[storage.Slot]int64{}
	for slot := range heads {
		next[slot] = 1
	}
	for _, c := range changes {
		if want := max(next[c.Slot], 1); c.Offset != want {
			report(c.Slot, "offset %d where %d should be", c.Offset, want)
		}
		next[c.Slot] = c.Offset + 1
	}
	for _, slot := range slices.Sorted(maps.Keys(next)) {
		if heads[slot] != next[slot] {
			report(slot, "the head says %d is next, the log %d", heads[slot], next[slot])
		}
	}
	return violations
}

// replayed is what a log leads to.
type replayed struct {
	rows       map[Key]Row
	shards     map[ShardKey]storage.Tally
	violations []Violation
}

func replayLog(changes []Change) *replayed {
	r := &replayed{rows: map[Key]Row{}, shards: map[ShardKey]storage.Tally{}}
	for _, c := range changes {
		r.follow(c)
		r.rows[c.Key] = Row{c.Slot, c.Key, c.Next, c.Version, c.CounterSlot}
		shard := ShardKey{c.Key.Video, c.CounterSlot}
		r.shards[shard] = move(r.shards[shard], c.Previous, c.Next)
	}
	return r
}

// follow checks that a change may come where it does.
func (r *replayed) follow(c Change) {
	report := func(format string, args ...any) {
		r.violations = append(r.violations, Violation{
			Rule: BadChange, Where: c.Key.String(),
			What: fmt.Sprintf("%s, offset %d: %s", slotName(c.Slot), c.Offset, fmt.Sprintf(format, args...)),
		})
	}
	before, known := r.rows[c.Key]
	if known && before.Slot != c.Slot {
		report("the key lies in %s as well", slotName(before.Slot))
	}
	if c.Previous != before.Reaction {
		report("it changes %s, which was %s", c.Previous, before.Reaction)
	}
	if c.Previous == c.Next {
		report("it changes nothing: %s", c.Next)
	}
	if !mayFollow(c, before) {
		report("its version is %d after %d", c.Version, before.Version)
	}
	if c.Previous != storage.None && c.CounterSlot != before.CounterSlot {
		report("it is counted in shard %d, and was in %d", c.CounterSlot, before.CounterSlot)
	}
}

// mayFollow reports whether the change's version follows: one more than before,
// or, for a new row, the offset. Version 0 before is that of no row.
func mayFollow(c Change, before Row) bool {
	if before.Version > 0 && c.Version == before.Version+1 {
		return true
	}
	return before.Reaction == storage.None && c.Version == c.Offset && c.Version > before.Version
}

// move applies a transition to a tally.
func move(t storage.Tally, previous, next storage.Reaction) storage.Tally {
	return plus(plus(t, previous, -1), next, 1)
}

func plus(t storage.Tally, r storage.Reaction, n int64) storage.Tally {
	switch r {
	case storage.Like:
		t.Likes += n
	case storage.Dislike:
		t.Dislikes += n
	}
	return t
}

func (r *replayed) compareRows(rows []Row) []Violation {
	var violations []Violation
	report := func(key Key, format string, args ...any) {
		violations = append(violations, Violation{Rule: RowsDiffer, Where: key.String(), What: fmt.Sprintf(format, args...)})
	}
	seen := map[Key]bool{}
	for _, row := range rows {
		want, known := r.rows[row.Key]
		switch {
		case seen[row.Key]:
			report(row.Key, "there are two rows; one is %s", row)
		case !known:
			report(row.Key, "the log knows nothing of %s", row)
		case row.Reaction == storage.None && sameState(row, want):
		case row != want:
			report(row.Key, "the row is %s, the log leads to %s", row, want)
		}
		seen[row.Key] = true
	}
	for _, key := range slices.SortedFunc(maps.Keys(r.rows), compareKeys) {
		if want := r.rows[key]; !seen[key] && want.Reaction != storage.None {
			report(key, "there is no row, the log leads to %s", want)
		}
	}
	return violations
}

// sameState compares what matters of a tombstone: it is counted nowhere.
func sameState(a, b Row) bool {
	return a.Slot == b.Slot && a.Reaction == b.Reaction && a.Version == b.Version
}

// String returns the row as it stands in reports.
func (r Row) String() string {
	return fmt.Sprintf("%s at version %d in %s, counted in shard %d", r.Reaction, r.Version, slotName(r.Slot), r.CounterSlot)
}

func (r *replayed) compareShards(shards map[ShardKey]storage.Tally) []Violation {
	all := maps.Clone(r.shards)
	maps.Copy(all, shards)
	keys := slices.SortedFunc(maps.Keys(all), func(a, b ShardKey) int {
		return cmp.Or(cmp.Compare(a.Video, b.Video), cmp.Compare(a.Slot, b.Slot))
	})
	var violations []Violation
	report := func(rule Rule, k ShardKey, what string) {
		where := fmt.Sprintf("%s, shard %d", k.Video, k.Slot)
		violations = append(violations, Violation{Rule: rule, Where: where, What: what})
	}
	for _, k := range keys {
		got, want := shards[k], r.shards[k]
		if got != want {
			report(ShardsDiffer, k, fmt.Sprintf("it holds %s, the log leads to %s", tally(got), tally(want)))
		}
		if got.Likes < 0 || got.Dislikes < 0 {
			report(Negative, k, tally(got))
		}
	}
	return violations
}

func slotName(s storage.Slot) string { return fmt.Sprintf("slot %d", s) }
