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

	// unboundedSQL is for one transaction that reads whole tables: it lifts the
	// limit on a statement's time, and lets plans scan.
	unboundedSQL = `SELECT set_config(name, value, true) FROM (VALUES
		('statement_timeout', '0'), ('enable_seqscan', 'on'), ('enable_bitmapscan', 'on'), ('enable_hashjoin', 'on'),
		('enable_mergejoin', 'on'), ('enable_material', 'on'), ('plan_cache_mode', 'force_custom_plan')) AS settings (name, value)`

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

// lookUps makes look-ups by key stay look-ups while tables are small or
// statistics are missing: no plan may turn them into scans or hash joins, nor
// read a whole index once and keep it for all keys. Every statement of the
// request path looks up by key, so one plan serves all values; it lives until
// the table is analyzed again, however much the table grows before that.
func lookUps(settings map[string]string) map[string]string {
	settings["enable_seqscan"] = "off"
	settings["enable_bitmapscan"] = "off"
	settings["enable_hashjoin"] = "off"
	settings["enable_mergejoin"] = "off"
	settings["enable_material"] = "off"
	settings["plan_cache_mode"] = "force_generic_plan"
	return settings
}

// writeSettings are the session settings of connections that write.
func writeSettings() map[string]string {
	if !guardSessionLimits {
		return map[string]string{"application_name": "likewise-write"}
	}
	return liveness(lookUps(map[string]string{
		"application_name":                    "likewise-write",
		"idle_in_transaction_session_timeout": milliseconds(idleInTransactionTimeout),
		"lock_timeout":                        milliseconds(lockTimeout),
		"statement_timeout":                   milliseconds(statementTimeout),
	}))
}

// readSettings are the session settings of connections that only read.
func readSettings() map[string]string {
	return liveness(lookUps(map[string]string{
		"application_name":              "likewise-read",
		"default_transaction_read_only": "on",
		"statement_timeout":             milliseconds(statementTimeout),
	}))
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
