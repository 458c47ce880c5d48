// Package regions is the front door of a region: it takes a call from a
// socket, finds who the caller is, sends the reaction to the node that should
// write it, and answers with counts.
//
// # A SetReaction, from socket to reply
//
//	server.go        two listeners: one for users, one for other nodes
//	front.go         path → RPC, REST or page; CORS is around it
//	rpc.go, rest.go  what can be refused without knowing the caller
//	codec.go         strict JSON and protobuf; what cannot be read is refused below
//	interceptors.go  recover, metrics, mapErrors, deadline, auth, validate
//	reactions.go     proto to domain; counts are loaded beside the write
//	forward.go       slot → route; this node, or one hop to another
//	peers.go         where that hop arrives: served there, never forwarded again
//	storage          group commit
//	countcache.go    the counter shard that was written goes into the cache
//	errors.go        on the way out: domain error → Connect code
//	problem.go       over REST: Connect code → status and problem details
//
// A GetReaction takes the same way. A GetCounts ends in countcache.go: it is
// answered from this node's cache or from one read of the local database, and
// is never forwarded. Batches (batch.go) are the same reads for many videos: of
// reactions, one round trip to each region that serves some; of counts, one read
// for all that are not cached. What cannot be read in time is an error of its
// own item.
//
// # What may be relied on
//
// Routing is a performance hint: any node can commit any slot, and the database
// decides. So a call is passed to the next node at once when the one before
// surely did nothing. When it may have done something, the call is repeated only
// under the caller's idempotency key; otherwise the caller hears "outcome
// unknown", and never "nothing happened" (guards.go).
//
// The user is always the one whom the verified bearer token names, and policy.go
// says in one table who may call what. Calls between
// nodes carry the user they act for, and therefore run on a listener of their
// own, with mutual TLS.
//
// Every count says as of when it is: each write acknowledged before that time
// is in. See countcache.go.
package regions
