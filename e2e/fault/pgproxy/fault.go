package pgproxy

import "time"

// Moment is the event at which a fault takes hold.
type Moment int

// The moments.
const (
	// Now is when the fault is armed.
	Now Moment = iota
	// CommitSent is when the client sends a flush with a COMMIT, before any of
	// that flush reaches the server.
	CommitSent
	// CommitAnswered is when the server's success to a COMMIT has come, before
	// the client sees it.
	CommitAnswered
	// BetweenRoundTrips is when the server waits for the client inside an open
	// transaction. The answer that says so still reaches the client.
	BetweenRoundTrips
)

// Delivery says how much of the flush with the COMMIT reaches the server.
type Delivery int

// The deliveries. They matter at CommitSent only.
const (
	// CommitLost: everything before the COMMIT, then the connection ends.
	CommitLost Delivery = iota
	// CommitLate: everything before the COMMIT at once; the COMMIT and what
	// follows when the fault ends. The server waits inside a pipeline meanwhile,
	// where idle_in_transaction_session_timeout does not run.
	CommitLate
	// FlushLate: nothing at once, all of it when the fault ends. The server
	// waits between two round trips meanwhile, where
	// idle_in_transaction_session_timeout runs.
	FlushLate
)

// Client says what the client sees when its COMMIT is hit.
type Client int

// What a client may see.
const (
	// Broken: its connection ends at once.
	Broken Client = iota
	// Silent: its connection stays open, and nothing comes any more. What it
	// still sends goes nowhere.
	Silent
)

// Link says what becomes of the whole way between clients and server, every
// connection of it, until the fault ends.
type Link int

// The states of the link.
const (
	// Clear: it works.
	Clear Link = iota
	// Dark: nothing passes in either direction, not even the end of a
	// connection. All stay open, and what was sent is delivered afterwards.
	Dark
	// Slow: each flush takes the fault's After longer, in each direction.
	Slow
	// Refusing: new connections are reset; those that are open go on.
	Refusing
)

// Fault is one way to break a connection. The zero Fault is not one; take one
// from a function of this package.
type Fault struct {
	// Name says what happens.
	Name string
	// When it takes hold.
	When Moment
	// Nth picks the n-th such moment after arming; 0 means the first.
	Nth int
	// Commit is how much of the flush reaches the server.
	Commit Delivery
	// Client is what the client of that flush sees.
	Client Client
	// Link is what becomes of every connection.
	Link Link
	// After is how long after it took hold a late delivery happens and a dark
	// link heals by itself; 0 leaves that to [Armed.Heal]. For a slow link it is
	// what each flush takes longer.
	After time.Duration
}

// On returns the fault for the n-th moment instead of the first.
func (f Fault) On(n int) Fault {
	f.Nth = n
	return f
}

// HealAfter returns the fault with a late delivery, or the end of the darkness,
// after d. It is not for [Delay].
func (f Fault) HealAfter(d time.Duration) Fault {
	f.After = d
	return f
}

// DropCommitBefore cuts both connections before the COMMIT reaches the server:
// not applied.
func DropCommitBefore() Fault {
	return Fault{Name: "drop commit before it is applied", When: CommitSent, Commit: CommitLost}
}

// DropCommitReplyAfter cuts both connections when the server has said that it
// committed, before the client hears it: applied.
func DropCommitReplyAfter() Fault {
	return Fault{Name: "drop commit reply after it is applied", When: CommitAnswered}
}

// StallCommitReply never delivers the server's answer to the COMMIT and leaves
// the client's connection open: applied, and the client waits for its timeout.
func StallCommitReply() Fault {
	return Fault{Name: "stall commit reply after it is applied", When: CommitAnswered, Client: Silent}
}

// HoldCommit cuts the client, gives the server all but the COMMIT, and the
// COMMIT when the fault ends: applied late, however late. The transaction's
// locks are held meanwhile.
func HoldCommit() Fault {
	return Fault{Name: "hold commit, client cut", When: CommitSent, Commit: CommitLate}
}

// StallCommit is HoldCommit with a client that hears nothing instead of being
// cut: a link that goes dark in the middle of a flush.
func StallCommit() Fault {
	return Fault{Name: "hold commit, client silent", When: CommitSent, Commit: CommitLate, Client: Silent}
}

// HoldFlush cuts the client and gives the server the whole last flush, COMMIT
// included, when the fault ends. It is applied late unless the server has given
// up on the idle transaction before.
func HoldFlush() Fault {
	return Fault{Name: "hold flush, client cut", When: CommitSent, Commit: FlushLate}
}

// BlackHoleInTransaction makes the link dark at a moment when a transaction is
// open and the server waits for the client.
func BlackHoleInTransaction() Fault {
	return Fault{Name: "black hole between round trips", When: BetweenRoundTrips, Link: Dark}
}

// BlackHole makes the link dark at once.
func BlackHole() Fault { return Fault{Name: "black hole", Link: Dark} }

// Delay makes each flush take d longer, in each direction.
func Delay(d time.Duration) Fault { return Fault{Name: "delay", Link: Slow, After: d} }

// Refuse resets new connections.
func Refuse() Fault { return Fault{Name: "refuse connections", Link: Refusing} }

// Faults returns every fault there is, for tests that must hold under each.
// Delays are 20 ms.
func Faults() []Fault {
	return []Fault{
		DropCommitBefore(),
		DropCommitReplyAfter(),
		StallCommitReply(),
		HoldCommit(),
		StallCommit(),
		HoldFlush(),
		BlackHoleInTransaction(),
		BlackHole(),
		Delay(20 * time.Millisecond),
		Refuse(),
	}
}
