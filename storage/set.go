package storage

import "time"

// Set asks for one state of one (video, user).
type Set struct {
	Slot    Slot
	Video   VideoID
	User    UserID
	Desired Reaction

	// ExpectedVersion, if not nil, makes the write conditional: the reaction
	// must have this version. 0 means that the reaction is NONE, with or
	// without a row.
	ExpectedVersion *int64

	// IdempotencyKey, if not empty, makes a repeat of the same Set return the
	// stored result and do nothing. Its scope is (Video, User).
	IdempotencyKey string
}

// Result is what a Set led to.
type Result struct {
	Previous Reaction
	Reaction Reaction
	Version  int64
	Changed  bool

	// CommittedAt is the database's clock, read after the commit. A count whose
	// as-of is later includes this write.
	CommittedAt time.Time

	// Shard is the counter shard that this Set changed, with its values right
	// after the transaction. It is nil if nothing changed, for a repeat, and
	// where the outcome had to be looked up.
	Shard *CounterShard
}

// CounterShard is one addend of a video's counts.
type CounterShard struct {
	Slot     Slot
	Likes    int64
	Dislikes int64
	// Rev goes up at every update of the shard, also over a removal. It starts
	// at the database's clock in microseconds.
	Rev int64
}

// State is the reaction of one (video, user). Version 0 means that there is
// neither a row nor a tombstone.
type State struct {
	Reaction Reaction
	Version  int64
}

// CountShards are all counter shards of one video in one snapshot.
type CountShards struct {
	Shards []CounterShard
	// AsOf is a time of the database's clock: every write acknowledged before
	// it is in.
	AsOf time.Time
	// Video is the video's state in the same snapshot.
	Video VideoState
}
