package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"likewise/storage"
)

// crowd is a hundred callers who like and undo at once. Calls come in the worst
// order, in which the last to be called saw the first version.
func crowd() []Op {
	var ops []Op
	for i := range time.Duration(50) {
		version := int64(i + 1)
		was, is := storage.None, storage.Like
		if i%2 == 1 {
			was, is = is, was
		}
		ops = append(ops, at(100-2*i, 1000, set(is).changed(was, version)), at(99-2*i, 1000, set(is).unchanged(version)))
	}
	return ops
}

func TestACrowdIsDecidedSoon(t *testing.T) {
	t.Parallel()
	soon := Options{Timeout: time.Minute} // a search that branches would take ages
	require.Empty(t, Report(Linearizable(crowd(), soon)))

	unsure := crowd()
	for i := 0; i < len(unsure); i += 13 {
		unsure[i] = at(unsure[i].Call, 0, set(unsure[i].Desired))
	}
	require.Empty(t, Report(Linearizable(unsure, soon)), "some were not told")

	wrong := append(crowd(), at(2000, 2001, get(like, 21)))
	requireIllegal(t, wrong)

	var watched []Op
	for i := range time.Duration(40) {
		watched = append(watched, at(i, 1000, set(like).unchanged(3)))
	}
	watched = append(watched, at(50, 1000, set(like).changed(none, 3)), at(51, 1000, set(none).changed(like, 5)))
	requireIllegal(t, watched)
}

func requireIllegal(t *testing.T, ops []Op) {
	t.Helper()
	found := Linearizable(ops, Options{Timeout: time.Minute})
	require.Len(t, found, 1)
	require.Equal(t, NotLinearizable, found[0].Rule, "a crowd of readers hides nothing")
}

func TestASweeperMayComeBeforeAConditionIsChecked(t *testing.T) {
	t.Parallel()
	ops := []Op{
		at(0, 1, set(like).changed(none, 1)),
		at(2, 3, set(none).changed(like, 2)),
		at(4, 5, set(none).expecting(2).refused(none, 0)),
	}
	require.Empty(t, Report(Linearizable(ops, Options{Sweeps: true})))
	require.NotEmpty(t, Linearizable(ops, Options{}))
}
