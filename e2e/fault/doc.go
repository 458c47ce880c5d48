// Package fault holds the tests that break one thing at an exact moment under
// real traffic, and check that every promise holds. The ways to break things
// are in its subpackages.
package fault
