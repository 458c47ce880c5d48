package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"likewise/deploy/local/cluster"
	"likewise/e2e/check"
	"likewise/storage"
)

// Three healthy regions keep every promise, whoever asks where, and however
// many at once.
func TestThreeRegions(t *testing.T) {
	t.Parallel()
	d := deploy(t, unhurried)

	t.Run("show a like of one region strongly in each other", d.testRegionPairs)
	t.Run("refuse strangers between nodes", d.testStrangers)
	t.Run("count right in a crowd", d.testCrowds)
}

func (d *deployment) testRegionPairs(t *testing.T) {
	p := newPeople(t, d)
	g, ctx := errgroup.WithContext(t.Context())
	for _, writer := range d.Nodes() {
		for _, reader := range d.others(writer.Name()) {
			g.Go(func() error {
				key := keyOf("pairs", writer.Name()+"-"+reader.Name())
				for _, reaction := range []storage.Reaction{storage.Like, storage.Dislike, storage.None} {
					told := p.do(ctx, writer, set(key, reaction))
					seen := p.do(ctx, reader, get(key))
					if !succeeded(told) || seen.Result.Version != told.Result.Version || seen.Result.Reaction != reaction {
						return fmt.Errorf("%s was told %s; %s was told %s", writer.Name(), told, reader.Name(), seen)
					}
				}
				return nil
			})
		}
	}
	require.NoError(t, g.Wait())
	d.requireRight(t, p.history(t))
}

// What goes wrong in like counters elsewhere, with a hundred callers over all
// nodes and regions.
func (d *deployment) testCrowds(t *testing.T) {
	type crowd func(t *testing.T, p *people, video string)
	for name, act := range map[string]crowd{
		"that sends one like a hundred times":                 d.sameLike,
		"that repeats one request under its idempotency key":  d.sameKey,
		"that uses one idempotency key for two requests":      d.twoRequestsOfOneKey,
		"of one user who likes and dislikes from two regions": d.likeAndDislike,
		"of users who meet at one video, one of whom hammers": d.parallelUsers,
		"that undoes one like a hundred times, and again":     d.repeatedNone,
		"of users who switch and undo, each from two devices": d.switching,
		"that decides by the same version":                    d.sameVersion,
		"of one user who undoes and likes again and again":    d.toggling,
		"of users whose names differ by one character":        d.similarIDs,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeople(t, d)
			act(t, p, fmt.Sprintf("crowd-%08x", rand.Uint32()))
			d.requireRight(t, p.history(t))
		})
	}
}

func (d *deployment) sameLike(t *testing.T, p *people, video string) {
	done := p.crowd(t.Context(), d.Nodes(), byAll(set(keyOf(video, "alice"), storage.Like)))
	require.Equal(t, callers, count(done, succeeded))
	require.Equal(t, 1, count(done, changed))
	for _, op := range done {
		require.Equal(t, done[0].Result.Version, op.Result.Version)
	}
	d.requireCounts(t, video, 1, 0)
}

func (d *deployment) sameKey(t *testing.T, p *people, video string) {
	done := p.crowd(t.Context(), d.Nodes(), byAll(keyed(set(keyOf(video, "alice"), storage.Like), "once")))
	require.Equal(t, callers, count(done, succeeded))
	for _, op := range done {
		require.Equal(t, done[0].Result, op.Result)
		require.True(t, op.Result.Changed, "the repeat is told what the first was told")
	}
	d.requireCounts(t, video, 1, 0)
}

func (d *deployment) twoRequestsOfOneKey(t *testing.T, p *people, video string) {
	ops := byAll(keyed(set(keyOf(video, "alice"), storage.Like), "twice"))
	for i := 1; i < callers; i += 2 {
		ops[i].Desired = storage.Dislike
	}
	done := p.crowd(t.Context(), d.Nodes(), ops)
	winners := slices.DeleteFunc(slices.Clone(done), func(op check.Op) bool { return !succeeded(op) })
	require.Len(t, winners, callers/2)
	require.Equal(t, callers/2, count(done, func(op check.Op) bool { return op.Outcome == check.Failed }))
	for _, op := range winners {
		require.Equal(t, winners[0].Result, op.Result)
	}
}

func (d *deployment) likeAndDislike(t *testing.T, p *people, video string) {
	ops := byAll(set(keyOf(video, "alice"), storage.Like))
	for i := 1; i < callers; i += 2 {
		ops[i].Desired = storage.Dislike
	}
	done := p.crowd(t.Context(), []*cluster.Node{d.node("eu-1"), d.node("us-2")}, ops)
	require.Equal(t, callers, count(done, succeeded))
	counts := d.counts(t, []string{video})[0].Rows
	require.EqualValues(t, 1, counts.Likes+counts.Dislikes)
}

func (d *deployment) parallelUsers(t *testing.T, p *people, video string) {
	ops := make([]check.Op, callers)
	for i := range ops {
		ops[i] = set(keyOf(video, fmt.Sprintf("user-%d", i)), storage.Like)
	}
	require.Equal(t, callers, count(p.crowd(t.Context(), d.Nodes(), ops), changed))
	d.requireCounts(t, video, callers, 0)

	hammer := byAll(set(keyOf(video, "user-0"), storage.None))
	for i := 1; i < callers; i += 2 {
		hammer[i].Desired = storage.Like
	}
	require.Equal(t, callers, count(p.crowd(t.Context(), d.Nodes(), hammer), succeeded))
	last := p.do(t.Context(), d.node("ap-1"), set(keyOf(video, "user-0"), storage.Dislike))
	require.True(t, last.Result.Changed)
	d.requireCounts(t, video, callers-1, 1)
}

func (d *deployment) repeatedNone(t *testing.T, p *people, video string) {
	key := keyOf(video, "alice")
	require.True(t, changed(p.do(t.Context(), d.node("us-1"), set(key, storage.Like))))
	undone := p.crowd(t.Context(), d.Nodes(), byAll(set(key, storage.None)))
	require.Equal(t, callers, count(undone, succeeded))
	require.Equal(t, 1, count(undone, changed))
	again := p.crowd(t.Context(), d.Nodes(), byAll(set(key, storage.None)))
	require.Equal(t, callers, count(again, succeeded))
	require.Zero(t, count(again, changed))
	d.requireCounts(t, video, 0, 0)
}

func (d *deployment) switching(t *testing.T, p *people, video string) {
	const rounds = 6
	var g errgroup.Group
	for i := range callers {
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		g.Go(func() error {
			for range rounds {
				op := set(keyOf(video, fmt.Sprintf("user-%d", i/2)), storage.Reaction(rng.IntN(3)))
				op.Client = i
				if done := p.do(t.Context(), d.Nodes()[rng.IntN(len(d.Nodes()))], op); !succeeded(done) {
					return fmt.Errorf("%s", done)
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
}

func (d *deployment) sameVersion(t *testing.T, p *people, video string) {
	key := keyOf(video, "alice")
	first := p.do(t.Context(), d.node("eu-2"), set(key, storage.Like))
	op := set(key, storage.Dislike)
	op.Expected = &first.Result.Version
	done := p.crowd(t.Context(), d.Nodes(), byAll(op))
	require.Equal(t, 1, count(done, succeeded))
	require.Equal(t, callers-1, count(done, refused))
	d.requireCounts(t, video, 0, 1)
}

func (d *deployment) toggling(t *testing.T, p *people, video string) {
	ops := byAll(set(keyOf(video, "alice"), storage.Like))
	for i := 1; i < callers; i += 2 {
		ops[i].Desired = storage.None
	}
	require.Equal(t, callers, count(p.crowd(t.Context(), d.Nodes(), ops), succeeded))
	p.do(t.Context(), d.node("ap-2"), set(keyOf(video, "alice"), storage.None))
	d.requireCounts(t, video, 0, 0)
}

// similarIDs: a separator that is lost, or a comparison that folds case, would
// make one user of several.
func (d *deployment) similarIDs(t *testing.T, p *people, video string) {
	users := []string{"a", "A", "aa", "a.", "a|", "a+", "a@", "a=", "a,", "a~"}
	ops := make([]check.Op, callers)
	for i := range ops {
		ops[i] = set(keyOf(video, users[i%len(users)]), storage.Like)
	}
	done := p.crowd(t.Context(), d.Nodes(), ops)
	require.Equal(t, callers, count(done, succeeded))
	require.Equal(t, len(users), count(done, changed))
	d.requireCounts(t, video, int64(len(users)), 0)
}
