// Package e2e runs the real binary as real processes on a real database, three
// regions of two nodes with a distance between them, and checks what callers
// are promised while nodes are restarted, killed and paused and links break.
//
// All of it is in tests; README.md says what each of them shows. What they are
// made of is in the folders beside: traffic, faults and checkers.
package e2e
