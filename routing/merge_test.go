package routing

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func genRoster() *rapid.Generator[roster] {
	return rapid.Map(rapid.SliceOfN(genNode(), 0, 8), rosterOf)
}

func mustMerge(a, b roster) roster {
	merged, _ := merge(a, b)
	return merged
}

// The laws hold although genNode often gives one stamp to two entries.
func TestMergeIsIdempotent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := genRoster().Draw(t, "a")
		merged, news := merge(a, a)
		require.Equal(t, a, merged)
		require.Empty(t, news)
	})
}

func TestMergeIsCommutative(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := genRoster().Draw(t, "a"), genRoster().Draw(t, "b")
		require.Equal(t, mustMerge(a, b), mustMerge(b, a))
	})
}

func TestMergeIsAssociative(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := genRoster().Draw(t, "a"), genRoster().Draw(t, "b"), genRoster().Draw(t, "c")
		require.Equal(t, mustMerge(a, mustMerge(b, c)), mustMerge(mustMerge(a, b), c))
	})
}

func TestNodesThatHeardTheSameHoldTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		said := rapid.SliceOfN(genNode(), 0, 12).Draw(t, "said")
		heard := rapid.Permutation(append(said, said...)).Draw(t, "heard in any order, twice")
		one := roster{}
		for _, n := range heard {
			one = mustMerge(one, roster{identityOf(n): n})
		}
		require.Equal(t, rosterOf(said), one)
	})
}

func TestMergeChangesNeitherAndNamesTheNews(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := genRoster().Draw(t, "a"), genRoster().Draw(t, "b")
		a0, b0 := mustMerge(nil, a), mustMerge(nil, b)
		merged, news := merge(a, b)
		require.Equal(t, a0, a)
		require.Equal(t, b0, b)
		for _, n := range news {
			require.Equal(t, b[identityOf(n)], n)
			require.NotEqual(t, a[identityOf(n)], n)
		}
		require.Equal(t, merged, mustMerge(a, rosterOf(news)), "the news is all that is new")
	})
}
