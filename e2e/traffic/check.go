package traffic

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	likewisev1 "likewise/proto/likewise/v1"
)

// Violation is a key whose final state contradicts what clients were told.
type Violation struct {
	Key    Key
	Reason string
}

func (v Violation) String() string {
	return fmt.Sprintf("video %s, user %s: %s", v.Key.Video, v.Key.User, v.Reason)
}

// evidence is what a history says of one key.
type evidence struct {
	// told maps each acknowledged version to its reaction; newest is the
	// highest of them. A key that nobody was told of has newest = None.
	told   map[int64]likewisev1.Reaction
	newest State
	// unknown holds the desired states of the Sets with an unknown outcome.
	unknown []likewisev1.Reaction
	// forked is a version that was acknowledged with two reactions.
	forked *int64
}

// Lost returns the keys of ops, at most one violation for each and in order,
// whose final strong read is not the state that was acknowledged with the
// highest version. final must hold a read of every key, made after every
// operation was over and could no longer take effect.
//
// Strong reads of the history are evidence like Sets are: what was read was
// committed. A Set with an unknown outcome may have changed its key once, at
// any time up to the final read. So the final version may lie above the highest
// acknowledged one, by no more than there are unknown Sets, and its state must
// then be one that an unknown Set asked for. A final read is wrong if
//
//   - its version is lower than one that was acknowledged,
//   - its version was acknowledged with another reaction,
//   - its version is higher, and no unknown Set explains version and reaction,
//   - or the history itself acknowledged one version with two reactions.
func Lost(ops []Op, final map[Key]State) []Violation {
	var lost []Violation
	byKey := gather(ops)
	for _, key := range slices.SortedFunc(maps.Keys(byKey), compareKeys) {
		state, ok := final[key]
		if !ok {
			lost = append(lost, Violation{key, "was not read at the end"})
			continue
		}
		if reason := byKey[key].contradicts(state); reason != "" {
			lost = append(lost, Violation{key, reason})
		}
	}
	return lost
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Video, b.Video), cmp.Compare(a.User, b.User))
}

func gather(ops []Op) map[Key]*evidence {
	byKey := make(map[Key]*evidence)
	for _, op := range ops {
		e, ok := byKey[op.Key]
		if !ok {
			e = &evidence{told: make(map[int64]likewisev1.Reaction), newest: None()}
			byKey[op.Key] = e
		}
		e.add(op)
	}
	return byKey
}

func (e *evidence) add(op Op) {
	switch {
	case op.Outcome == OK:
		e.tell(op.State)
	case op.Outcome == Unknown && op.Kind == Set:
		e.unknown = append(e.unknown, op.Desired)
	}
}

func (e *evidence) tell(s State) {
	if earlier, ok := e.told[s.Version]; ok && earlier != s.Reaction {
		e.forked = &s.Version
	}
	e.told[s.Version] = s.Reaction
	if s.Version >= e.newest.Version {
		e.newest = s
	}
}

// contradicts says why final cannot be, or nothing.
func (e *evidence) contradicts(final State) string {
	switch {
	case e.forked != nil:
		return fmt.Sprintf("version %d was acknowledged with two reactions", *e.forked)
	case final.Version < e.newest.Version:
		return fmt.Sprintf("reads %s, but %s was acknowledged", final, e.newest)
	case final.Version == e.newest.Version && final.Reaction != e.newest.Reaction:
		return fmt.Sprintf("reads %s, but %s was acknowledged", final, e.newest)
	case final.Version > e.newest.Version && !e.explained(final):
		return fmt.Sprintf("reads %s, above %s, which was the newest acknowledged, and no unknown outcome explains it", final, e.newest)
	}
	return ""
}

// explained reports whether Sets with an unknown outcome can have led from the
// newest acknowledged state to final. A key's first version is an offset of its
// slot's log, so nothing bounds it from above.
func (e *evidence) explained(final State) bool {
	steps := final.Version - e.newest.Version
	return slices.Contains(e.unknown, final.Reaction) &&
		(e.newest.Version == 0 || steps <= int64(len(e.unknown)))
}

// String shows the state as people read it.
func (s State) String() string { return fmt.Sprintf("%s at version %d", s.Reaction, s.Version) }

// Tally is how many users like and dislike a video.
type Tally struct{ Likes, Dislikes int64 }

// Difference is a video that one region counts wrongly.
type Difference struct {
	Region, Video  string
	Shown, Recount Tally
}

func (d Difference) String() string {
	return fmt.Sprintf("video %s in %s: shows %+v, recount %+v", d.Video, d.Region, d.Shown, d.Recount)
}

// Drift returns the sum of |shown − recount| over likes and dislikes, videos
// and regions, and each difference in order. shown maps a region to the counts
// that it answers; a video that only one side knows counts as zero on the other.
func Drift(shown map[string]map[string]Tally, recount map[string]Tally) (int64, []Difference) {
	var sum int64
	var diffs []Difference
	for _, region := range slices.Sorted(maps.Keys(shown)) {
		for _, video := range videosOf(shown[region], recount) {
			d := Difference{Region: region, Video: video, Shown: shown[region][video], Recount: recount[video]}
			if distance := d.Shown.distance(d.Recount); distance != 0 {
				sum += distance
				diffs = append(diffs, d)
			}
		}
	}
	return sum, diffs
}

func videosOf(a, b map[string]Tally) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}

func (t Tally) distance(u Tally) int64 {
	return abs(t.Likes-u.Likes) + abs(t.Dislikes-u.Dislikes)
}

func abs(n int64) int64 { return max(n, -n) }
