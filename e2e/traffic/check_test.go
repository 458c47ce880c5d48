package traffic

import (
	"testing"

	"github.com/stretchr/testify/require"

	likewisev1 "likewise/proto/likewise/v1"
)

const (
	none    = likewisev1.Reaction_NONE
	like    = likewisev1.Reaction_LIKE
	dislike = likewisev1.Reaction_DISLIKE
)

var cat = Key{Video: "cat", User: "alice"}

func acked(r likewisev1.Reaction, version int64) Op {
	return Op{Key: cat, Kind: Set, Desired: r, Outcome: OK, State: State{r, version}, Changed: true}
}

func read(r likewisev1.Reaction, version int64) Op {
	return Op{Key: cat, Kind: Get, Outcome: OK, State: State{r, version}}
}

func unknown(r likewisev1.Reaction) Op {
	return Op{Key: cat, Kind: Set, Desired: r, Outcome: Unknown}
}

func failed(r likewisev1.Reaction) Op {
	return Op{Key: cat, Kind: Set, Desired: r, Outcome: Failed}
}

func TestLost(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		ops   []Op
		final State
		lost  bool
	}{
		"the newest acknowledged state is fine":                    {[]Op{acked(like, 7), acked(dislike, 8)}, State{dislike, 8}, false},
		"the order of completion does not matter":                  {[]Op{acked(dislike, 8), acked(like, 7)}, State{dislike, 8}, false},
		"an unchanged reply repeats a version":                     {[]Op{acked(like, 7), acked(like, 7)}, State{like, 7}, false},
		"a key that was never there stays NONE":                    {[]Op{acked(none, 0)}, None(), false},
		"a failed Set leaves nothing":                              {[]Op{failed(like)}, None(), false},
		"an unknown Set may have done nothing":                     {[]Op{acked(like, 7), unknown(none)}, State{like, 7}, false},
		"an unknown Set may have raised the version":               {[]Op{acked(like, 7), unknown(none)}, State{none, 8}, false},
		"two unknown Sets may have raised it twice":                {[]Op{acked(like, 7), unknown(none), unknown(dislike)}, State{dislike, 9}, false},
		"an unknown Set may have made the row, at any version":     {[]Op{unknown(like)}, State{like, 4711}, false},
		"a lower version is lost":                                  {[]Op{acked(like, 7), acked(dislike, 8)}, State{like, 7}, true},
		"a lower version is lost, unknown Sets or not":             {[]Op{acked(like, 7), acked(none, 8), unknown(like)}, State{like, 7}, true},
		"a vanished row is lost":                                   {[]Op{acked(like, 7)}, None(), true},
		"the same version with another reaction is lost":           {[]Op{acked(like, 7)}, State{dislike, 7}, true},
		"a higher version that nobody asked for is lost":           {[]Op{acked(like, 7)}, State{dislike, 8}, true},
		"a higher version after failed Sets only is lost":          {[]Op{acked(like, 7), failed(none)}, State{none, 8}, true},
		"a failed Set that had an effect is lost":                  {[]Op{failed(like)}, State{like, 1}, true},
		"a higher version with a state of no unknown Set is lost":  {[]Op{acked(like, 7), unknown(none)}, State{dislike, 8}, true},
		"more steps than unknown Sets are lost":                    {[]Op{acked(like, 7), unknown(none)}, State{none, 9}, true},
		"one version acknowledged with two reactions is lost":      {[]Op{acked(like, 7), acked(dislike, 7), acked(none, 8)}, State{none, 8}, true},
		"what a strong read saw must stay":                         {[]Op{read(like, 7)}, None(), true},
		"a read that saw an unknown Set's effect is no violation":  {[]Op{acked(like, 7), unknown(none), read(none, 8)}, State{none, 8}, false},
		"a read's state that is taken back is lost":                {[]Op{acked(like, 7), unknown(none), read(none, 8)}, State{like, 7}, true},
		"a read and a Set that disagree about a version are lost":  {[]Op{acked(like, 7), read(dislike, 7)}, State{like, 7}, true},
		"an unknown read is no excuse for a higher version":        {[]Op{acked(like, 7), {Key: cat, Kind: Get, Outcome: Unknown}}, State{none, 8}, true},
		"an unknown NONE on an absent key explains no version 0":   {[]Op{unknown(none)}, None(), false},
		"a switch and an undo with known outcomes end in the undo": {[]Op{acked(like, 7), acked(dislike, 8), acked(none, 9)}, State{none, 9}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lost := Lost(tt.ops, map[Key]State{cat: tt.final})
			require.Equal(t, tt.lost, len(lost) == 1, "%v", lost)
		})
	}

	t.Run("a key that was not read is lost, and keys do not mix", func(t *testing.T) {
		t.Parallel()
		other := acked(like, 3)
		other.Key.User = "bob"
		lost := Lost([]Op{acked(dislike, 7), other}, map[Key]State{cat: {dislike, 7}})
		require.Len(t, lost, 1)
		require.Equal(t, other.Key, lost[0].Key)
		require.Contains(t, lost[0].String(), "bob")
	})
}

func TestDrift(t *testing.T) {
	t.Parallel()

	recount := map[string]Tally{"cat": {Likes: 3, Dislikes: 1}, "dog": {Likes: 2}}

	t.Run("is zero where shown equals recount", func(t *testing.T) {
		t.Parallel()
		sum, diffs := Drift(map[string]map[string]Tally{"eu": recount, "us": recount}, recount)
		require.Zero(t, sum)
		require.Empty(t, diffs)
	})
	t.Run("adds up regions, likes and dislikes in both directions", func(t *testing.T) {
		t.Parallel()
		sum, diffs := Drift(map[string]map[string]Tally{
			"eu": {"cat": {Likes: 5, Dislikes: 0}, "dog": {Likes: 2}},
			"us": {"cat": {Likes: 2, Dislikes: 1}, "dog": {Likes: 2}},
		}, recount)
		require.EqualValues(t, 2+1+1, sum)
		require.Equal(t, []Difference{
			{Region: "eu", Video: "cat", Shown: Tally{5, 0}, Recount: Tally{3, 1}},
			{Region: "us", Video: "cat", Shown: Tally{2, 1}, Recount: Tally{3, 1}},
		}, diffs)
	})
	t.Run("a video that one side does not know counts as zero there", func(t *testing.T) {
		t.Parallel()
		sum, _ := Drift(map[string]map[string]Tally{"eu": {"cat": {Likes: 3, Dislikes: 1}, "ghost": {Likes: 1}}}, recount)
		require.EqualValues(t, 2+1, sum)
	})
	t.Run("errors of opposite sign do not cancel out", func(t *testing.T) {
		t.Parallel()
		sum, _ := Drift(map[string]map[string]Tally{"eu": {"cat": {Likes: 2, Dislikes: 2}, "dog": {Likes: 2}}}, recount)
		require.EqualValues(t, 2, sum)
	})
}

func TestSummarizeCountsAChangeOnce(t *testing.T) {
	t.Parallel()

	noop := acked(like, 7)
	noop.Changed = false
	// Two copies under one key are both told of version 7.
	got := Summarize([]Op{acked(like, 7), acked(like, 7), noop, acked(none, 8), failed(like), unknown(like), read(none, 8)})
	require.Equal(t, Summary{Acknowledged: 4, Changed: 2, Unchanged: 2, Failed: 1, Unknown: 1}, got)
}
