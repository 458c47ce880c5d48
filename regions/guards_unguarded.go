//go:build unguarded

package regions

import (
	"time"

	"likewise/storage"
)

// See guards.go.

func mayRepeat(storage.Set) bool { return true }

func afterUnknown(refusal error) error { return refusal }

func supersedes(_, _ storage.CounterShard) bool { return true }

func outlives(cachedShard, *flight, time.Time) bool { return false }

func newest(_, _ time.Time) bool { return true }
