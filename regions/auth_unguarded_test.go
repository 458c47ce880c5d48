//go:build unguarded

package regions

import "testing"

// See TestNegativeControls.
func TestNegativeControlsOfTokens(t *testing.T) {
	t.Run("an algorithm that is not pinned", TestOnlyPinnedAlgorithmsCount)
	t.Run("a key for another algorithm", TestAKeyIsForOneAlgorithm)
	t.Run("a token for another service", TestOnlyTokensForUsCount)
	t.Run("a token that outlives its key", TestAWithdrawnKeyCountsNoMore)
}
