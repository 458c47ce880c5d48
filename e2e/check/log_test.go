package check

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"likewise/storage"
)

// goodFinal holds two keys in slot 1, one of them undone, and one in slot 2.
func goodFinal() Final {
	alice, bob, eve := Key{"cat", "alice"}, Key{"cat", "bob"}, Key{"dog", "eve"}
	return Final{
		Changes: []Change{
			{2, 1, eve, none, dislike, 1, 2},
			{1, 1, alice, none, like, 1, 9},
			{1, 2, bob, none, dislike, 2, 1},
			{1, 3, alice, like, dislike, 2, 9},
			{1, 4, bob, dislike, none, 3, 1},
		},
		Rows: []Row{
			{1, alice, dislike, 2, 9},
			{1, bob, none, 3, 0},
			{2, eve, dislike, 1, 2},
		},
		Shards: map[ShardKey]storage.Tally{{"cat", 9}: {Dislikes: 1}, {"cat", 1}: {}, {"dog", 2}: {Dislikes: 1}},
		Heads:  map[storage.Slot]int64{0: 1, 1: 5, 2: 2},
	}
}

func TestGoodLogsPass(t *testing.T) {
	t.Parallel()
	for name, alter := range map[string]func(*Final){
		"as it is":            func(*Final) {},
		"tombstone swept":     func(f *Final) { f.Rows = slices.Delete(f.Rows, 1, 2) },
		"empty shard removed": func(f *Final) { delete(f.Shards, ShardKey{"cat", 1}) },
		"tombstone in use again": func(f *Final) {
			f.Changes = append(f.Changes, Change{1, 5, Key{"cat", "bob"}, none, like, 4, 7})
			f.Rows[1] = Row{1, Key{"cat", "bob"}, like, 4, 7}
			f.Shards[ShardKey{"cat", 7}] = storage.Tally{Likes: 1}
			f.Heads[1] = 6
		},
		"new row after a sweep": func(f *Final) {
			f.Changes = append(f.Changes, Change{1, 5, Key{"cat", "bob"}, none, like, 5, 7})
			f.Rows[1] = Row{1, Key{"cat", "bob"}, like, 5, 7}
			f.Shards[ShardKey{"cat", 7}] = storage.Tally{Likes: 1}
			f.Heads[1] = 6
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := goodFinal()
			alter(&f)
			require.Empty(t, Report(Log(f)))
		})
	}
}

func TestBadLogsAreFound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		alter func(*Final)
		want  Rule
	}{
		"offset missing":            {func(f *Final) { f.Changes[4].Offset, f.Heads[1] = 5, 6 }, Gap},
		"first offset missing":      {func(f *Final) { f.Changes[0].Offset, f.Changes[0].Version, f.Heads[2] = 2, 2, 3 }, Gap},
		"offset twice":              {func(f *Final) { f.Changes[4].Offset = 3 }, Gap},
		"head ahead":                {func(f *Final) { f.Heads[1] = 6 }, Gap},
		"head behind":               {func(f *Final) { f.Heads[1] = 4 }, Gap},
		"head of an unused slot":    {func(f *Final) { f.Heads[0] = 2 }, Gap},
		"change lost at the end":    {func(f *Final) { f.Changes = f.Changes[:4] }, Gap},
		"from another state":        {func(f *Final) { f.Changes[3].Previous = none }, BadChange},
		"to the same state":         {func(f *Final) { f.Changes[3].Next = like }, BadChange},
		"version skipped":           {func(f *Final) { f.Changes[3].Version = 3 }, BadChange},
		"version repeated":          {func(f *Final) { f.Changes[3].Version = 1 }, BadChange},
		"new row not at offset":     {func(f *Final) { f.Changes[2].Version = 1 }, BadChange},
		"counted out elsewhere":     {func(f *Final) { f.Changes[4].CounterSlot = 2 }, BadChange},
		"key in two slots":          {func(f *Final) { f.Changes[0].Key = Key{"cat", "alice"} }, BadChange},
		"row with other reaction":   {func(f *Final) { f.Rows[0].Reaction = like }, RowsDiffer},
		"row with other version":    {func(f *Final) { f.Rows[0].Version = 3 }, RowsDiffer},
		"row in another slot":       {func(f *Final) { f.Rows[0].Slot = 7 }, RowsDiffer},
		"row counted elsewhere":     {func(f *Final) { f.Rows[0].CounterSlot = 1 }, RowsDiffer},
		"tombstone's other version": {func(f *Final) { f.Rows[1].Version = 9 }, RowsDiffer},
		"row missing":               {func(f *Final) { f.Rows = f.Rows[1:] }, RowsDiffer},
		"row without changes":       {func(f *Final) { f.Rows = append(f.Rows, Row{5, Key{"eel", "zoe"}, like, 1, 5}) }, RowsDiffer},
		"row twice":                 {func(f *Final) { f.Rows = append(f.Rows, f.Rows[0]) }, RowsDiffer},
		"shard drifted":             {func(f *Final) { f.Shards[ShardKey{"cat", 9}] = storage.Tally{Likes: 1, Dislikes: 1} }, ShardsDiffer},
		"shard missing":             {func(f *Final) { delete(f.Shards, ShardKey{"dog", 2}) }, ShardsDiffer},
		"shard from nowhere":        {func(f *Final) { f.Shards[ShardKey{"eel", 1}] = storage.Tally{Likes: 1} }, ShardsDiffer},
		"shard below zero":          {func(f *Final) { f.Shards[ShardKey{"dog", 2}] = storage.Tally{Dislikes: -1} }, Negative},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := goodFinal()
			test.alter(&f)
			var rules []Rule
			for _, v := range Log(f) {
				rules = append(rules, v.Rule)
				require.NotEmpty(t, v.String())
			}
			require.Contains(t, rules, test.want)
		})
	}
}

func TestLogDoesNotChangeItsArgument(t *testing.T) {
	t.Parallel()
	f := goodFinal()
	Log(f)
	require.Equal(t, goodFinal(), f)
}
