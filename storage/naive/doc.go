// Package naive holds the two like counters that people write first. It is
// wrong on purpose, is used by the demo alone, and exists to be compared with
// the counts of package storage on the same traffic and in the same database.
//
// Both are told what an application would tell them: "was X, now Y", as the
// user's device believes it, once for each request that is sent. Both are
// atomic, durable enough and written in good SQL. They go wrong because of what
// they count:
//
//   - Blind adds one for each event ("likes = likes + 1"). A request that is
//     sent twice, because a button was pressed twice or a reply got lost, is
//     counted twice: an event has no memory of whether it was counted. Two
//     devices of one user that both believe "no reaction yet" count two
//     reactions of one person. The error only grows: nothing in the table says
//     what the right number would have been.
//
//   - ReadThenWrite reads the number, adds in Go and writes the sum. It has all
//     errors of Blind, and loses updates besides: two that read the same number
//     write the same sum, and one reaction is gone. It is worst where it
//     matters most, on a hot video.
//
// Their connections run with synchronous_commit off. That makes them cheaper
// than any counter that keeps its promises, and keeps them from slowing the
// traffic that they are compared on; it has no bearing on how wrong they are,
// since a commit that a crash may lose is visible at once.
package naive
