package storage

import "time"

// What is true of PostgreSQL and will be otherwise on CockroachDB stands in
// this file, and nowhere else.

const (
	// beginSQL opens a write transaction. READ COMMITTED is enough, since the
	// heads, locked first, put the transactions of a slot in order; and every
	// statement after the lock sees what was committed before it.
	beginSQL = "BEGIN ISOLATION LEVEL READ COMMITTED"

	// clockSQL is sent behind COMMIT in the same pipeline: a count whose as-of
	// is later than this clock includes the transaction.
	clockSQL = "SELECT clock_timestamp()"

	// readOnlySQL asks whether a session takes writes: "off" says that it does.
	readOnlySQL = "SHOW transaction_read_only"

	// unboundedSQL lifts the limit on a statement's time for one transaction.
	unboundedSQL = "SET LOCAL statement_timeout = 0"

	// batchSpansSlots: one fsync pays for all slots of a batch.
	batchSpansSlots = true
)

// The limits that free the slots of a node that stopped or vanished between
// the two round trips. A healthy node takes a millisecond there.
const (
	idleInTransactionTimeout = 2 * time.Second
	lockTimeout              = 3 * time.Second
	statementTimeout         = 4 * time.Second
	tcpUserTimeout           = 3 * time.Second
)

// liveness makes the database notice within 3 s that a node's machine or link
// is gone, also where it waits in the middle of a pipeline: there no limit on
// idle transactions runs.
func liveness(settings map[string]string) map[string]string {
	settings["tcp_user_timeout"] = milliseconds(tcpUserTimeout)
	settings["tcp_keepalives_idle"] = "1"
	settings["tcp_keepalives_interval"] = "1"
	settings["tcp_keepalives_count"] = "2"
	return settings
}

// writeSettings are the session settings of connections that write.
func writeSettings() map[string]string {
	if !guardSessionLimits {
		return map[string]string{"application_name": "likewise-write"}
	}
	return liveness(map[string]string{
		"application_name":                    "likewise-write",
		"idle_in_transaction_session_timeout": milliseconds(idleInTransactionTimeout),
		"lock_timeout":                        milliseconds(lockTimeout),
		"statement_timeout":                   milliseconds(statementTimeout),
		// Key look-ups must stay look-ups while tables are small or statistics
		// are missing: no plan may turn them into scans or hash joins.
		"enable_seqscan":   "off",
		"enable_hashjoin":  "off",
		"enable_mergejoin": "off",
		"plan_cache_mode":  "force_generic_plan",
	})
}

// readSettings are the session settings of connections that only read.
func readSettings() map[string]string {
	return liveness(map[string]string{
		"application_name":              "likewise-read",
		"default_transaction_read_only": "on",
		"statement_timeout":             milliseconds(statementTimeout),
	})
}

// SQLSTATEs that several first starts at once can meet although every
// statement is repeatable: PostgreSQL checks IF NOT EXISTS before it locks.
func concurrentMigration(state string) bool {
	switch state {
	case "23505", // unique_violation in the catalog
		"42P07", // duplicate_table
		"42710", // duplicate_object
		"XX000", // tuple concurrently updated
		"40001", "40P01":
		return true
	default:
		return false
	}
}
