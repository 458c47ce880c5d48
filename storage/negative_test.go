//go:build unguarded

package storage_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"likewise/e2e/fault/pgproxy"
	"likewise/storage"
)

// Each guard of the write path, switched off, makes the scenario that it is for
// find something. A scenario that depends on chance may run several times.
func TestNegativeControls(t *testing.T) {
	late := pgproxy.HoldCommit().HealAfter(700 * time.Millisecond)
	controls := map[string]struct {
		off   []storage.Guard
		run   scenario
		tries int
	}{
		"no head lock: transactions of a slot fail each other":                   {[]storage.Guard{storage.HeadLock()}, switching, 3},
		"no head lock and no fences: updates are lost":                           {[]storage.Guard{storage.HeadLock(), storage.Fences()}, switching, 3},
		"lock and read in one statement: rows are read as before the wait":       {[]storage.Guard{storage.LockAlone()}, switching, 3},
		"the same without fences: updates are lost":                              {[]storage.Guard{storage.LockAlone(), storage.Fences()}, switching, 3},
		"the same for duplicates: each counts":                                   {[]storage.Guard{storage.HeadLock(), storage.Fences()}, duplicates, 3},
		"no order of counter shards: deadlocks":                                  {[]storage.Guard{storage.ShardOrder()}, sharedShards, 8},
		"an undo subtracts elsewhere: counts would fall below zero":              {[]storage.Guard{storage.CounterSlot()}, switching, 3},
		"no look-up: a write that was applied is refused":                        {[]storage.Guard{storage.LookUp()}, ambiguous(pgproxy.DropCommitReplyAfter()), 1},
		"a look-up without the lock: a late commit is taken for one that failed": {[]storage.Guard{storage.LookUpUnderLock()}, ambiguous(late), 1},
		"no limits on sessions: a node that vanished holds its slots":            {[]storage.Guard{storage.SessionLimits()}, vanishing, 1},
		"no barrier: a write commits that saw the video active":                  {[]storage.Guard{storage.VideoBarrier()}, barrier(late), 3},
		"heads are not counted: an answer comes from a slot that is not there":   {[]storage.Guard{storage.ExactHeads()}, missingHead, 1},
	}
	for name, c := range controls {
		t.Run(name, func(t *testing.T) {
			storage.SwitchOff(t, c.off...)
			var found []string
			for range c.tries {
				if found = c.run(t); len(found) > 0 {
					break
				}
			}
			require.NotEmpty(t, found, "the guard is off, and nothing was noticed")
			t.Log(found[0])
		})
	}
}
