package regions

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"likewise/routing"
	"likewise/storage"
)

// fakeDatabase keeps reactions and counter shards in memory, as storage promises
// them. Several stores may share one.
type fakeDatabase struct {
	mu     sync.Mutex
	states map[fakeKey]storage.State
	keys   map[fakeKey]map[string]storage.Result
	shards map[storage.VideoID]map[storage.Slot]storage.CounterShard
}

type fakeKey struct {
	video storage.VideoID
	user  storage.UserID
}

func newFakeDatabase() *fakeDatabase {
	return &fakeDatabase{
		states: make(map[fakeKey]storage.State),
		keys:   make(map[fakeKey]map[string]storage.Result),
		shards: make(map[storage.VideoID]map[storage.Slot]storage.CounterShard),
	}
}

// databaseTime has microseconds, as PostgreSQL's.
func databaseTime() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

func (db *fakeDatabase) set(set storage.Set) storage.Result {
	db.mu.Lock()
	defer db.mu.Unlock()
	k := fakeKey{set.Video, set.User}
	if result, ok := db.keys[k][set.IdempotencyKey]; ok {
		result.CommittedAt, result.Shard = databaseTime(), nil
		return result
	}
	before := db.states[k]
	result := storage.Result{Previous: before.Reaction, Reaction: set.Desired, Version: before.Version}
	if set.Desired != before.Reaction {
		result.Changed = true
		result.Version++
		result.Shard = db.count(set, before.Reaction)
		db.states[k] = storage.State{Reaction: set.Desired, Version: result.Version}
	}
	result.CommittedAt = databaseTime()
	if set.IdempotencyKey != "" {
		if db.keys[k] == nil {
			db.keys[k] = make(map[string]storage.Result)
		}
		db.keys[k][set.IdempotencyKey] = result
	}
	return result
}

func (db *fakeDatabase) count(set storage.Set, before storage.Reaction) *storage.CounterShard {
	if db.shards[set.Video] == nil {
		db.shards[set.Video] = make(map[storage.Slot]storage.CounterShard)
	}
	shard := db.shards[set.Video][set.Slot]
	shard.Slot = set.Slot
	shard.Rev = max(shard.Rev+1, databaseTime().UnixMicro())
	add := func(r storage.Reaction, n int64) {
		switch r {
		case storage.Like:
			shard.Likes += n
		case storage.Dislike:
			shard.Dislikes += n
		}
	}
	add(before, -1)
	add(set.Desired, 1)
	db.shards[set.Video][set.Slot] = shard
	return &shard
}

func (db *fakeDatabase) state(video storage.VideoID, user storage.UserID) storage.State {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.states[fakeKey{video, user}]
}

func (db *fakeDatabase) countShards(video storage.VideoID) storage.CountShards {
	db.mu.Lock()
	defer db.mu.Unlock()
	loaded := storage.CountShards{AsOf: databaseTime()}
	for _, shard := range db.shards[video] {
		loaded.Shards = append(loaded.Shards, shard)
	}
	return loaded
}

// fakeStore is one node's way to a database. Its hooks, which may be nil, run
// where the comments say, and fail the call if they fail.
type fakeStore struct {
	db *fakeDatabase

	beforeSet   func(context.Context, storage.Set) error
	afterSet    func(context.Context, storage.Set) error // applied, but the answer is lost
	beforeGet   func(context.Context) error
	beforeCount func(context.Context) error // before the snapshot
	afterCount  func(context.Context) error // after the snapshot

	sets, gets, counts atomic.Int64
}

func newFakeStore() *fakeStore { return &fakeStore{db: newFakeDatabase()} }

func (s *fakeStore) Set(ctx context.Context, set storage.Set) (storage.Result, error) {
	s.sets.Add(1)
	if s.beforeSet != nil {
		if err := s.beforeSet(ctx, set); err != nil {
			return storage.Result{}, err
		}
	}
	result := s.db.set(set)
	if s.afterSet != nil {
		if err := s.afterSet(ctx, set); err != nil {
			return storage.Result{}, err
		}
	}
	return result, nil
}

func (s *fakeStore) Get(ctx context.Context, _ storage.Slot, video storage.VideoID, user storage.UserID) (storage.State, error) {
	s.gets.Add(1)
	if s.beforeGet != nil {
		if err := s.beforeGet(ctx); err != nil {
			return storage.State{}, err
		}
	}
	return s.db.state(video, user), nil
}

func (s *fakeStore) CountShards(ctx context.Context, video storage.VideoID) (storage.CountShards, error) {
	s.counts.Add(1)
	if s.beforeCount != nil {
		if err := s.beforeCount(ctx); err != nil {
			return storage.CountShards{}, err
		}
	}
	loaded := s.db.countShards(video)
	if s.afterCount != nil {
		if err := s.afterCount(ctx); err != nil {
			return storage.CountShards{}, err
		}
	}
	return loaded, nil
}

// fakeRoutes is a map that a test can change.
type fakeRoutes struct{ m atomic.Pointer[routing.Map] }

func (r *fakeRoutes) Map() *routing.Map { return r.m.Load() }

func (r *fakeRoutes) put(t *testing.T, epoch int64, nodes ...routing.Node) {
	t.Helper()
	r.m.Store(routing.NewMap(topology(t, epoch), nodes))
}

// topology makes "here" the home of every slot.
func topology(t *testing.T, epoch int64) routing.Topology {
	t.Helper()
	top, err := routing.NewTopology(epoch, routing.Contiguous([]routing.Region{"here"}))
	require.NoError(t, err)
	return top
}

// hang waits for the end of a call that nobody will answer.
func hang(ctx context.Context, _ storage.Set) error {
	<-ctx.Done()
	return storage.ErrOutcomeUnknown
}
