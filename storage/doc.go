// Package storage keeps reactions, their changes and their counts.
//
// The truth is one row per (video, user). A [Set] is a transition of that row:
// it changes the row, appends one change to the log of the row's slot, and adds
// the difference to one counter shard, all in one transaction. Everything else
// is derived and can be rebuilt.
//
// # What is promised
//
//   - A (video, user) is one register with versions, and Set and Get of it are
//     linearizable, whichever nodes they go through, and whatever those believe
//     about the map. The first statement of every write transaction locks the
//     heads of its slots, so the transactions of a slot are strictly one after
//     the other.
//   - A Set that returned without an error is as durable as the database.
//   - An error of a Set says whether nothing happened or the outcome is unknown
//     ([ErrOutcomeUnknown]).
//   - Counts carry an as-of: a time of the database's clock such that every
//     write acknowledged before it is in.
//
// # From Set to SQL
//
//	Store.Set        queues the request at the worker of its slot    committer.go
//	worker           gathers what waits into one batch               worker.go
//	attempt          two round trips: lock and read; write, COMMIT   attempt.go
//	fold             decides, in Go, without I/O                     fold.go
//	transition       the one function of (previous, desired)         transition.go
//	recovery         what to do when an attempt failed               recovery.go
//	classify         what an error says about the transaction        classify.go
//
// Statements are in sql/, one a file; the schema is in migrations/. What will
// differ between PostgreSQL and CockroachDB is in dialect_postgres.go.
//
// # Lock order
//
// Heads in slot order, then counter shards in key order. Nothing else is locked
// for long.
package storage
