//go:build !unguarded

package storage

import "github.com/jackc/pgx/v5"

// The guards of the write path. Each has a negative control: a test in a build
// with the tag unguarded switches it off and demands that a checker notices. In
// this build they are constants, and nothing can.
const (
	guardExactHeads      = true // the lock must return exactly the heads asked for
	guardShardOrder      = true // counter shards are locked in key order before they are written
	guardLookUp          = true // an unknown outcome is looked up, not simply run again
	guardLookUpUnderLock = true // the look-up takes the heads first
	guardSessionLimits   = true // the database ends the transaction of a node that vanished
	guardCounterSlot     = true // an undo subtracts where the reaction was added
	guardVideoBarrier    = true // a video's state is in force only when every head was taken once
)

// queueFirst asks for all that a transaction must know: first the heads, locked
// by a statement of their own, then the rows.
func (snap snapshot) queueFirst(batch *pgx.Batch, asked question) {
	snap.queueHeads(batch, lockHeadsSQL, asked)
	snap.queueReads(batch, asked)
}

// fencedSQL are the writes whose conditions are errors in SQL.
func fencedSQL() fenced {
	return fenced{
		insertReactions: insertReactionsSQL,
		updateReactions: updateReactionsSQL,
		insertChanges:   insertChangesSQL,
		advanceHeads:    advanceHeadsSQL,
	}
}
