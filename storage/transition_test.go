package storage

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// R7, R26
func TestTransitionOfEachPair(t *testing.T) {
	t.Parallel()
	cases := []struct {
		previous, desired Reaction
		want              Delta
	}{
		{None, None, Delta{}},
		{None, Like, Delta{Likes: 1}},
		{None, Dislike, Delta{Dislikes: 1}},
		{Like, None, Delta{Likes: -1}},
		{Like, Like, Delta{}},
		{Like, Dislike, Delta{Likes: -1, Dislikes: 1}},
		{Dislike, None, Delta{Dislikes: -1}},
		{Dislike, Like, Delta{Likes: 1, Dislikes: -1}},
		{Dislike, Dislike, Delta{}},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%s to %s", c.previous, c.desired), func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, transition(c.previous, c.desired))
		})
	}
}
