//go:build unguarded

package regions

import "testing"

const guarded = false

// Each of these tests asks, in this build, that the promise is broken, or that
// its check fails: see requireGuard.
func TestNegativeControls(t *testing.T) {
	t.Run("shards without revs, and pushes that a load discards", TestAPushWhileALoadRunsIsKept)
	t.Run("loads and pushes in any order", TestLoadsAndPushesMergeInAnyOrder)
	t.Run("what an older load says", TestAnOlderLoadTakesNothingBack)
	t.Run("a refusal after a lost answer", TestARefusalAfterALostAnswerIsUnknown)
	t.Run("a lost answer without a key", TestALostAnswerWithoutAKeyIsUnknown)
	t.Run("a repeat after a broken connection", TestBrokenConnectionsRepeatNothing)
}
