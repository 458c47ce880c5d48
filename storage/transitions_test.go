package storage_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"likewise/storage"
	"likewise/storage/storagetest"
)

func TestMain(m *testing.M) { storagetest.Main(m) }

// slotOf is any pure function of the key: storage takes the slot from outside.
func slotOf(video storage.VideoID, user storage.UserID) storage.Slot {
	sum := 0
	for _, b := range []byte(string(video) + "\x00" + string(user)) {
		sum = sum*31 + int(b)
	}
	return storage.Slot(sum & 0xff)
}

func set(video storage.VideoID, user storage.UserID, desired storage.Reaction) storage.Set {
	return storage.Set{Slot: slotOf(video, user), Video: video, User: user, Desired: desired}
}

// requireExact demands that the stored counts are those of the rows.
func requireExact(t *testing.T, s *storage.Store, video storage.VideoID, want storage.Tally) {
	t.Helper()
	recount, err := s.Recount(t.Context(), video)
	require.NoError(t, err)
	require.Equal(t, want, recount.Rows, "rows")
	require.Equal(t, want, recount.Stored, "counter shards")
	shown, err := s.CountShards(t.Context(), video)
	require.NoError(t, err)
	var sum storage.Tally
	for _, shard := range shown.Shards {
		sum.Likes += shard.Likes
		sum.Dislikes += shard.Dislikes
	}
	require.Equal(t, want, sum, "shown")
}

func tally(r storage.Reaction) storage.Tally {
	switch r {
	case storage.Like:
		return storage.Tally{Likes: 1}
	case storage.Dislike:
		return storage.Tally{Dislikes: 1}
	default:
		return storage.Tally{}
	}
}

// R1, R6, R7, R21, R25: each of the nine transitions, by a plain Set, under a
// condition, and under a key.
func TestNineTransitions(t *testing.T) {
	t.Parallel()
	s := storagetest.Store(t)
	paths := map[string]func(storage.Set, int64) storage.Set{
		"plain":       func(s storage.Set, _ int64) storage.Set { return s },
		"conditional": func(s storage.Set, v int64) storage.Set { s.ExpectedVersion = &v; return s },
		"keyed":       func(s storage.Set, _ int64) storage.Set { s.IdempotencyKey = "once"; return s },
	}
	reactions := []storage.Reaction{storage.None, storage.Like, storage.Dislike}
	for name, path := range paths {
		for _, previous := range reactions {
			for _, desired := range reactions {
				t.Run(fmt.Sprintf("%s %s to %s", name, previous, desired), func(t *testing.T) {
					t.Parallel()
					video := storage.VideoID(fmt.Sprintf("%s-%s-%s", name, previous, desired))
					before, err := s.Set(t.Context(), set(video, "ann", previous))
					require.NoError(t, err)

					got, err := s.Set(t.Context(), path(set(video, "ann", desired), before.Version))
					require.NoError(t, err)

					require.Equal(t, previous, got.Previous)
					require.Equal(t, desired, got.Reaction)
					require.Equal(t, previous != desired, got.Changed)
					switch {
					case !got.Changed:
						require.Equal(t, before.Version, got.Version)
						require.Nil(t, got.Shard)
					case before.Version > 0:
						require.Equal(t, before.Version+1, got.Version)
					}
					state, err := s.Get(t.Context(), slotOf(video, "ann"), video, "ann")
					require.NoError(t, err)
					require.Equal(t, storage.State{Reaction: desired, Version: got.Version}, state)
					requireExact(t, s, video, tally(desired))
				})
			}
		}
	}
}

// register is the model of one (video, user).
type register struct {
	state storage.State
	keys  map[string]remembered
}

type remembered struct {
	desired  storage.Reaction
	expected *int64
	result   storage.Result
}

// R9, R10, R22: Set and Get against a model, on the database.
func TestSetAndGetFollowTheModel(t *testing.T) {
	t.Parallel()
	s := storagetest.Store(t)
	run := 0
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		run++
		video := storage.VideoID(fmt.Sprintf("run-%d", run))
		model := map[storage.UserID]*register{}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			user := storage.UserID(rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "user"))
			if model[user] == nil {
				model[user] = &register{keys: map[string]remembered{}}
			}
			step(ctx, t, s, model[user], video, user)
		}
		want := storage.Tally{}
		for user, r := range model {
			state, err := s.Get(ctx, slotOf(video, user), video, user)
			require.NoError(t, err)
			require.Equal(t, r.state, state)
			want.Likes += tally(r.state.Reaction).Likes
			want.Dislikes += tally(r.state.Reaction).Dislikes
		}
		recount, err := s.Recount(ctx, video)
		require.NoError(t, err)
		require.Equal(t, storage.Recount{Stored: want, Rows: want}, recount)
	})
}

// step makes one drawn Set and checks its answer against the model.
func step(ctx context.Context, t *rapid.T, s *storage.Store, r *register, video storage.VideoID, user storage.UserID) {
	ask := set(video, user, storage.Reaction(rapid.IntRange(0, 2).Draw(t, "desired")))
	ask.IdempotencyKey = rapid.SampledFrom([]string{"", "", "k1", "k2"}).Draw(t, "key")
	switch rapid.IntRange(0, 4).Draw(t, "condition") {
	case 0:
		ask.ExpectedVersion = new(int64(0))
	case 1:
		ask.ExpectedVersion = new(r.state.Version)
	case 2:
		ask.ExpectedVersion = new(r.state.Version + 1)
	}
	got, err := s.Set(ctx, ask)

	if old, ok := r.keys[ask.IdempotencyKey]; ok {
		if old.desired == ask.Desired && equal(old.expected, ask.ExpectedVersion) {
			require.NoError(t, err)
			requireSameResult(t, old.result, got)
		} else {
			var reused *storage.KeyReusedError
			require.ErrorAs(t, err, &reused)
		}
		return
	}
	if e := ask.ExpectedVersion; e != nil && *e != r.state.Version && (*e != 0 || r.state.Reaction != storage.None) {
		var mismatch *storage.VersionMismatchError
		require.ErrorAs(t, err, &mismatch)
		require.Equal(t, r.state, mismatch.Current)
		return
	}
	require.NoError(t, err)
	require.Equal(t, r.state.Reaction, got.Previous)
	require.Equal(t, r.state.Reaction != ask.Desired, got.Changed)
	r.follow(t, ask, got)
}

func (r *register) follow(t *rapid.T, ask storage.Set, got storage.Result) {
	switch {
	case !got.Changed:
		require.Equal(t, r.state.Version, got.Version)
	case r.state.Version == 0:
		require.Positive(t, got.Version)
	default:
		require.Equal(t, r.state.Version+1, got.Version)
	}
	r.state = storage.State{Reaction: got.Reaction, Version: got.Version}
	if ask.IdempotencyKey != "" {
		r.keys[ask.IdempotencyKey] = remembered{ask.Desired, ask.ExpectedVersion, got}
	}
}

func equal(a, b *int64) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

func requireSameResult(t require.TestingT, want, got storage.Result) {
	want.Shard, got.Shard = nil, nil
	want.CommittedAt = got.CommittedAt
	require.Equal(t, want, got)
}
