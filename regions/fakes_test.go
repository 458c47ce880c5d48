package regions

import (
	"context"
	"slices"
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
	videos map[storage.VideoID]storage.VideoChange // the last of each
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
		videos: make(map[storage.VideoID]storage.VideoChange),
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

func (db *fakeDatabase) setVideo(video storage.VideoID, state storage.VideoState) storage.VideoChange {
	db.mu.Lock()
	defer db.mu.Unlock()
	change := storage.VideoChange{Previous: db.videoLocked(video), State: state, Generation: db.videos[video].Generation}
	if change.Changed = change.Previous != state; change.Changed {
		change.Generation++
	}
	db.videos[video] = change
	return change
}

func (db *fakeDatabase) video(video storage.VideoID) storage.VideoState {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.videoLocked(video)
}

func (db *fakeDatabase) videoLocked(video storage.VideoID) storage.VideoState {
	if change, ok := db.videos[video]; ok {
		return change.State
	}
	return storage.VideoActive
}

// keeps reports whether a write is a repeat, which goes before the video's state.
func (db *fakeDatabase) keeps(set storage.Set) bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	_, ok := db.keys[fakeKey{set.Video, set.User}][set.IdempotencyKey]
	return ok
}

// put makes a counter shard what a test wants it to be.
func (db *fakeDatabase) put(video storage.VideoID, shards ...storage.CounterShard) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.shards[video] = make(map[storage.Slot]storage.CounterShard)
	for _, shard := range shards {
		db.shards[video][shard.Slot] = shard
	}
}

func (db *fakeDatabase) countShards(video storage.VideoID) storage.CountShards {
	db.mu.Lock()
	defer db.mu.Unlock()
	loaded := storage.CountShards{AsOf: databaseTime(), Video: db.videoLocked(video)}
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
	beforeState func(context.Context) error // before a video's state is set

	// How often the store was called. A batch is one call.
	sets, gets, counts, states atomic.Int64
	batches                    batchSizes
}

// batchSizes are the numbers of items that the calls for many brought.
type batchSizes struct {
	mu     sync.Mutex
	counts []int
	gets   []int
}

func (b *batchSizes) add(to *[]int, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*to = append(*to, n)
}

func (b *batchSizes) of(from *[]int) []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(*from)
}

func newFakeStore() *fakeStore { return &fakeStore{db: newFakeDatabase()} }

func (s *fakeStore) Set(ctx context.Context, set storage.Set) (storage.Result, error) {
	s.sets.Add(1)
	if s.beforeSet != nil {
		if err := s.beforeSet(ctx, set); err != nil {
			return storage.Result{}, err
		}
	}
	if state := s.db.video(set.Video); state != storage.VideoActive && !s.db.keeps(set) {
		return storage.Result{}, &storage.VideoStateError{State: state}
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
	if s.db.video(video) == storage.VideoDeleted {
		return storage.State{}, &storage.VideoDeletedError{}
	}
	return s.db.state(video, user), nil
}

func (s *fakeStore) GetMany(ctx context.Context, user storage.UserID, places []storage.Place) ([]storage.Reading, error) {
	s.gets.Add(1)
	s.batches.add(&s.batches.gets, len(places))
	if s.beforeGet != nil {
		if err := s.beforeGet(ctx); err != nil {
			return nil, err
		}
	}
	readings := make([]storage.Reading, len(places))
	for i, place := range places {
		readings[i] = storage.Reading{State: s.db.state(place.Video, user), Video: s.db.video(place.Video)}
	}
	return readings, nil
}

func (s *fakeStore) CountShards(ctx context.Context, video storage.VideoID) (storage.CountShards, error) {
	loaded, err := s.countShards(ctx, []storage.VideoID{video})
	if err != nil {
		return storage.CountShards{}, err
	}
	return loaded[0], nil
}

func (s *fakeStore) CountShardsOf(ctx context.Context, videos []storage.VideoID) ([]storage.CountShards, error) {
	s.batches.add(&s.batches.counts, len(videos))
	return s.countShards(ctx, videos)
}

func (s *fakeStore) countShards(ctx context.Context, videos []storage.VideoID) ([]storage.CountShards, error) {
	s.counts.Add(1)
	if s.beforeCount != nil {
		if err := s.beforeCount(ctx); err != nil {
			return nil, err
		}
	}
	loaded := make([]storage.CountShards, len(videos))
	for i, video := range videos {
		loaded[i] = s.db.countShards(video)
	}
	if s.afterCount != nil {
		if err := s.afterCount(ctx); err != nil {
			return nil, err
		}
	}
	return loaded, nil
}

func (s *fakeStore) SetVideoState(ctx context.Context, video storage.VideoID, state storage.VideoState) (storage.VideoChange, error) {
	s.states.Add(1)
	if s.beforeState != nil {
		if err := s.beforeState(ctx); err != nil {
			return storage.VideoChange{}, err
		}
	}
	return s.db.setVideo(video, state), nil
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
