// Package routing decides where a reaction is written: from (video, user) to
// slot, to home region, to home node.
//
// See Map for what is promised.
package routing
