// Package traffic is a client of Likewise that behaves like many impatient
// people at once, and remembers what it was told.
//
// A [Traffic] runs a bounded number of clients per region from one seed. They
// like, switch, undo and repeat; they send the same request several times at
// once, give up on a reply and ask again under the same idempotency key, and
// let one user act from two regions at the same moment. Videos are drawn from a
// Zipf distribution, and one of them is hot.
//
// Everything that was asked and answered becomes an [Op] of a [History]. Pure
// functions judge it afterwards: [Lost] compares a history with the final
// strong reads of its keys, [Drift] compares shown counts with recounts.
//
// The package knows the public API and nothing else: no database, no cluster,
// no testing package.
package traffic
