// Package check decides from what clients saw, and from what the database holds
// in the end, whether Likewise kept its promises.
//
// Every check is a pure function that returns what it found wrong, and nothing
// if all is well:
//
//   - [Linearizable]: Set and Get of one (video, user) behave as one register
//     with versions, whatever happened in between;
//   - [Versions]: versions only rise, and none is given to two states. It is
//     implied by the first, costs next to nothing, and names the culprits;
//   - [Count]: what is shown in each region, what is stored, and what the rows
//     add up to are the same;
//   - [Log]: the change log has no gap, and replayed from its beginning it gives
//     the reaction rows, the counter shards and the heads.
//
// The tests of this package hold a bad history for each kind of anomaly: a
// checker that cannot fail proves nothing.
package check
