package check

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBadVersionsAreFound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ops  []Op
		want []Rule
	}{
		"two states":           {story(get(like, 3), get(dislike, 3)), []Rule{VersionReused}},
		"two changes":          {story(set(like).changed(none, 3), set(like).changed(none, 3)), []Rule{VersionReused, VersionFell}},
		"reaction at zero":     {story(get(like, 0)), []Rule{VersionReused}},
		"fell":                 {story(get(like, 3), get(dislike, 2)), []Rule{VersionFell}},
		"row forgotten":        {story(get(like, 3), set(dislike).changed(none, 1)), []Rule{VersionFell}},
		"refused with the old": {story(get(like, 3), set(none).expecting(1).refused(dislike, 2)), []Rule{VersionFell}},
		"double effect": {
			story(set(like).under("k").changed(none, 3), set(like).under("k").changed(none, 5)),
			[]Rule{DoubleEffect},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var rules []Rule
			for _, v := range Versions(test.ops) {
				rules = append(rules, v.Rule)
				require.NotEmpty(t, v.Ops)
			}
			require.Equal(t, test.want, rules)
		})
	}
}

func TestOverlappingOperationsMaySeeEitherVersion(t *testing.T) {
	t.Parallel()
	require.Empty(t, Versions([]Op{
		at(0, 100, get(like, 3)),
		at(10, 20, get(dislike, 4)),
		at(20, 30, get(like, 3)), // called in the very moment of the other's return
	}))
}
