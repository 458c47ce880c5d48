package storage

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// class is what an error says about the transaction that met it.
type class int

const (
	// restart: rolled back for the sake of another transaction. The same batch
	// is worth running again at once.
	restart class = iota
	// outage: nothing was applied, and the cause lies outside the batch: a lock
	// that is not free, a session or a server that went away.
	outage
	// broken: nothing was applied, and the batch itself may be the cause.
	broken
	// unknown: the transaction may have been committed.
	unknown
)

func (c class) String() string {
	return [...]string{"restart", "outage", "broken", "unknown"}[c]
}

// stage is how far an attempt had come when it met an error.
type stage int

const (
	// beforeCommit: COMMIT was not handed to the network.
	beforeCommit stage = iota
	// commitSent: COMMIT may have reached the database.
	commitSent
	// atCommit: the error is the database's answer to COMMIT itself.
	atCommit
)

// classify is the only code that reads SQLSTATEs. It never reads message text.
func classify(err error, at stage) class {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return classifyBroken(err, at)
	}
	switch state := pgErr.SQLState(); {
	case state == "40001", state == "40P01": // serialization failure, deadlock
		return restart
	case state == "40003" && at != beforeCommit: // statement completion unknown
		return unknown
	case at == atCommit && !definiteAtCommit(state):
		return unknown
	case isOutage(state):
		return outage
	default:
		return broken
	}
}

// classifyBroken is for errors that no server sent: a dial that failed, a
// connection that broke, a deadline.
func classifyBroken(err error, at stage) class {
	if at == beforeCommit || pgconn.SafeToRetry(err) {
		return outage
	}
	return unknown
}

// definiteAtCommit reports whether a COMMIT that was answered so has surely
// not been applied: a constraint that is checked at commit.
func definiteAtCommit(state string) bool {
	return len(state) == 5 && state[:2] == "23"
}

// isOutage lists by SQLSTATE what is not the batch's fault. Whoever answers so
// has rolled back: the answer came in place of a statement before COMMIT.
func isOutage(state string) bool {
	switch state[:2] {
	case "08", // connection exception
		"53", // insufficient resources: connections, memory, disk
		"57", // operator intervention: timeout, cancel, shutdown
		"58": // system error
		return true
	}
	switch state {
	case "55P03", // lock_timeout
		"25P03", // idle_in_transaction_session_timeout
		"25P02", // the transaction was aborted by an earlier error
		"25006": // read-only: a standby, or a full disk
		return true
	}
	return false
}

// negativeCounter reports whether the database refused to let a count fall
// below zero.
func negativeCounter(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.SQLState() == "23514" && pgErr.TableName == "counter_shards"
}
