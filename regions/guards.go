//go:build !unguarded

package regions

import (
	"fmt"
	"time"

	"likewise/storage"
)

// The decisions in this file are what keeps an ambiguous failure from becoming
// a wrong state, and a race in the cache from becoming a wrong count. The build
// tag "unguarded" replaces each by what one would write without thinking, so
// that the tests can show that they notice. No released binary has it.

// mayRepeat reports whether a write that may have been applied may be sent to
// another node. Without an idempotency key the first node could apply it later,
// over a newer write of the same user.
func mayRepeat(set storage.Set) bool { return set.IdempotencyKey != "" }

// afterUnknown is the answer to a refusal that follows a hop which may have
// applied the write: the refusal says only what the later hop saw. A version
// mismatch, for one, may be due to this very write.
func afterUnknown(refusal error) error {
	return fmt.Errorf("%w: a later hop was refused: %w", storage.ErrOutcomeUnknown, refusal)
}

// supersedes reports whether the shard that came replaces the one there is.
func supersedes(came, have storage.CounterShard) bool { return came.Rev > have.Rev }

// outlives reports whether a shard stays although a load did not find it: it
// was pushed while the load ran, whose snapshot may be older than the shard; or
// it is newer than the load anyway.
func outlives(s cachedShard, load *flight, asOf time.Time) bool {
	return s.pushedDuring == load || s.Rev >= asOf.UnixMicro()
}

// newest reports whether a load is no older than all before it. Only then does
// it say what state the video is in, and which shards are gone: a database that
// lags answers late what was true before.
func newest(loaded, have time.Time) bool { return !loaded.Before(have) }
