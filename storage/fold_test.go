package storage

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func emptySnapshot(next int64) snapshot {
	return snapshot{
		heads:   map[Slot]int64{1: next, 2: next},
		videos:  map[VideoID]VideoState{},
		rows:    map[key]*row{},
		records: map[recordKey]record{},
	}
}

func ownSlot(_ VideoID, slot Slot) Slot { return slot }

func TestFold(t *testing.T) {
	t.Parallel()
	like := Set{Slot: 1, Video: "cat", User: "ann", Desired: Like}
	with := func(change func(*Set)) Set {
		s := like
		change(&s)
		return s
	}

	t.Run("a new row's version is the offset of its first change", func(t *testing.T) { // R22
		t.Parallel()
		p := fold([]Set{like}, emptySnapshot(41), ownSlot)
		require.Equal(t, Result{Reaction: Like, Version: 41, Changed: true}, p.verdicts[0].result)
		require.Equal(t, map[Slot]int64{1: 42}, p.next)
	})

	t.Run("a repeat in the same batch changes nothing", func(t *testing.T) { // R6
		t.Parallel()
		p := fold([]Set{like, like, like}, emptySnapshot(1), ownSlot)
		require.Len(t, p.changes, 1)
		require.Equal(t, Delta{Likes: 1}, p.deltas[shardKey{"cat", 1}])
		require.Equal(t, Result{Previous: Like, Reaction: Like, Version: 1}, p.verdicts[2].result)
	})

	t.Run("a switch stays in the counter shard of the like", func(t *testing.T) { // R31
		t.Parallel()
		snap := emptySnapshot(9)
		snap.rows[like.key()] = &row{State: State{Like, 3}, versionRead: 3, counterSlot: 200}
		p := fold([]Set{with(func(s *Set) { s.Desired = Dislike })}, snap, ownSlot)
		require.Equal(t, map[shardKey]Delta{{"cat", 200}: {Likes: -1, Dislikes: 1}}, p.deltas)
	})

	t.Run("an undo and a new like may be counted in different shards", func(t *testing.T) { // R31
		t.Parallel()
		snap := emptySnapshot(9)
		snap.rows[like.key()] = &row{State: State{Like, 3}, versionRead: 3, counterSlot: 200}
		p := fold([]Set{with(func(s *Set) { s.Desired = None }), like}, snap, ownSlot)
		require.Equal(t, map[shardKey]Delta{{"cat", 200}: {Likes: -1}, {"cat", 1}: {Likes: 1}}, p.deltas)
		require.Equal(t, State{Like, 5}, p.rows[like.key()].State)
	})

	t.Run("a condition is checked against what the batch has made", func(t *testing.T) { // R10
		t.Parallel()
		p := fold([]Set{
			with(func(s *Set) { s.ExpectedVersion = new(int64(0)) }),
			with(func(s *Set) { s.ExpectedVersion = new(int64(0)); s.Desired = Dislike }),
			with(func(s *Set) { s.ExpectedVersion = new(int64(7)); s.Desired = Dislike }),
		}, emptySnapshot(7), ownSlot)
		require.True(t, p.verdicts[0].result.Changed)
		require.Equal(t, &VersionMismatchError{State{Like, 7}}, p.verdicts[1].err)
		require.Equal(t, int64(8), p.verdicts[2].result.Version)
	})

	t.Run("version 0 means NONE, with a tombstone as without a row", func(t *testing.T) { // R10
		t.Parallel()
		snap := emptySnapshot(9)
		snap.rows[like.key()] = &row{State: State{None, 4}, versionRead: 4}
		p := fold([]Set{with(func(s *Set) { s.ExpectedVersion = new(int64(0)) })}, snap, ownSlot)
		require.Equal(t, Result{Reaction: Like, Version: 5, Changed: true}, p.verdicts[0].result)
	})

	t.Run("a repeated key gets the first result, another request under it an error", func(t *testing.T) { // R9
		t.Parallel()
		keyed := with(func(s *Set) { s.IdempotencyKey = "k" })
		other := with(func(s *Set) { s.IdempotencyKey = "k"; s.Desired = None })
		p := fold([]Set{keyed, with(func(s *Set) { s.Desired = None }), keyed, other}, emptySnapshot(1), ownSlot)
		require.Equal(t, p.verdicts[0].result, p.verdicts[2].result)
		require.Nil(t, p.verdicts[2].shard)
		require.Equal(t, &KeyReusedError{"k"}, p.verdicts[3].err)
		require.Len(t, p.changes, 2)
	})

	t.Run("a refusal is not kept under its key", func(t *testing.T) { // R9
		t.Parallel()
		p := fold([]Set{with(func(s *Set) { s.IdempotencyKey = "k"; s.ExpectedVersion = new(int64(5)) })}, emptySnapshot(1), ownSlot)
		require.Error(t, p.verdicts[0].err)
		require.Empty(t, p.records)
	})

	t.Run("a key comes before the video's state, and that before the version", func(t *testing.T) { // R8
		t.Parallel()
		snap := emptySnapshot(1)
		snap.videos["cat"] = VideoDisabled
		keyed := with(func(s *Set) { s.IdempotencyKey = "k" })
		stored := Result{Reaction: Like, Version: 3, Changed: true}
		snap.records[keyed.recordKey()] = record{hash: keyed.hash(), result: stored}
		p := fold([]Set{keyed, with(func(s *Set) { s.ExpectedVersion = new(int64(77)) })}, snap, ownSlot)
		require.Equal(t, stored, p.verdicts[0].result)
		require.Equal(t, &VideoStateError{VideoDisabled}, p.verdicts[1].err)
	})
}

// One key is in at most one counter, and a batch's deltas are what its rows say.
func TestFoldDeltasFollowRows(t *testing.T) { // R26
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		snap := emptySnapshot(1)
		total := map[shardKey]Delta{}
		sets := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Set {
			return Set{
				Slot:    Slot(rapid.IntRange(1, 2).Draw(t, "slot")),
				Video:   VideoID(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "video")),
				User:    UserID(rapid.SampledFrom([]string{"u", "v", "w"}).Draw(t, "user")),
				Desired: Reaction(rapid.IntRange(0, 2).Draw(t, "desired")),
			}
		}), 0, 40).Draw(t, "sets")
		choice := func(VideoID, Slot) Slot { return Slot(rapid.IntRange(0, 3).Draw(t, "counter")) }
		p := fold(sets, snap, choice)
		for k, r := range p.rows {
			shard := shardKey{k.video, r.counterSlot}
			total[shard] = total[shard].plus(contribution(r.Reaction))
		}
		for shard, delta := range p.deltas {
			require.Equal(t, total[shard], delta, "all rows were NONE before")
		}
		offsets := map[Slot]int64{1: 1, 2: 1}
		for _, c := range p.changes {
			require.Equal(t, offsets[c.slot], c.offset, "gap-free")
			require.NotEqual(t, c.previous, c.next)
			offsets[c.slot]++
		}
	})
}
