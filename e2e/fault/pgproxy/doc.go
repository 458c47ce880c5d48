// Package pgproxy stands between a PostgreSQL client and its server and breaks
// their connection at one exact place.
//
// It reads the wire protocol, so it knows which bytes are the COMMIT of a
// pipelined transaction and which are the server's answer to it. That is what
// tells "the commit was lost", "the commit was applied and its answer was lost"
// and "the commit is applied later" apart, which no TCP proxy can.
//
// A [Fault] is data; [Faults] lists all of them. [Proxy.Arm] puts one in wait
// for its moment, and the [Armed] it returns says when it took hold, ends it,
// and says what became of the COMMIT.
//
// # What passes
//
// Bytes pass unchanged. From client to server they pass in flushes: all
// messages up to the next Sync, Flush or simple Query, as pgx writes them. TLS
// and GSS encryption are declined, as a server without them would. Cancel
// requests are passed on. Statements in a simple Query are told apart by a
// scanner that knows quotes and comments, but not dollar quotes.
package pgproxy
