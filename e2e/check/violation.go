package check

import (
	"fmt"
	"slices"
	"strings"

	"likewise/storage"
)

// Rule is a promise that was broken.
type Rule string

// The rules.
const (
	// NotLinearizable: no order of a key's operations explains what they saw.
	NotLinearizable Rule = "linearizable"
	// Undecided: the search for such an order took too long. It proves nothing,
	// so it must not pass for success.
	Undecided Rule = "undecided"
	// VersionReused: one version was given to two states, or to two changes.
	VersionReused Rule = "version reused"
	// DoubleEffect: one idempotency key was answered with two results.
	DoubleEffect Rule = "double effect"
	// VersionFell: a later operation saw an earlier version.
	VersionFell Rule = "version fell"
	// Drift: shown, stored and recounted numbers differ.
	Drift Rule = "drift"
	// Negative: a count is below zero.
	Negative Rule = "negative count"
	// Gap: a slot's log lacks an offset, or has one twice.
	Gap Rule = "gap in the log"
	// BadChange: a change does not follow from the changes before it.
	BadChange Rule = "change out of order"
	// RowsDiffer: the log does not lead to the reaction rows.
	RowsDiffer Rule = "rows differ from the log"
	// ShardsDiffer: the log does not lead to the counter shards.
	ShardsDiffer Rule = "shards differ from the log"
)

// Key names one reaction.
type Key struct {
	Video storage.VideoID
	User  storage.UserID
}

// String returns the key as it stands in reports.
func (k Key) String() string { return fmt.Sprintf("(%s, %s)", k.Video, k.User) }

// Violation is one broken promise.
type Violation struct {
	Rule Rule
	// Where is the key, the video or the slot.
	Where string
	// What says what was found, and what it should have been.
	What string
	// Ops are the operations that show it, in the order of their calls.
	Ops []Op
}

// String returns the violation in one line, and a line for each operation.
func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s: %s", v.Rule, v.Where, v.What)
	for _, op := range v.Ops {
		fmt.Fprintf(&b, "\n    %s", op)
	}
	return b.String()
}

// Report joins violations into one text, empty if there are none.
func Report(violations []Violation) string {
	lines := make([]string, 0, len(violations))
	for _, v := range violations {
		lines = append(lines, v.String())
	}
	return strings.Join(lines, "\n")
}

func compareKeys(a, b Key) int {
	if c := strings.Compare(string(a.Video), string(b.Video)); c != 0 {
		return c
	}
	return strings.Compare(string(a.User), string(b.User))
}

// byKey splits a history, each part in the order of the calls. The keys come
// sorted, so that reports do not change from run to run.
func byKey(ops []Op) ([]Key, map[Key][]Op) {
	parts := map[Key][]Op{}
	for _, op := range ops {
		parts[op.Key] = append(parts[op.Key], op)
	}
	keys := make([]Key, 0, len(parts))
	for key, part := range parts {
		keys = append(keys, key)
		slices.SortStableFunc(part, func(a, b Op) int { return int(a.Call - b.Call) })
	}
	slices.SortFunc(keys, compareKeys)
	return keys, parts
}
