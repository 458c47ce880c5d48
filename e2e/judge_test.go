package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"likewise/e2e/check"
	"likewise/e2e/traffic"
	"likewise/storage"
	"likewise/storage/storagetest"
)

// requireRight fails the test unless every promise was kept: what callers were
// told, and what is read back now, is linearizable with versions that only
// rose; every node shows what is stored, and that is what a recount gives; and
// the log leads to the rows, counter shards and heads that are there.
func (d *deployment) requireRight(t *testing.T, ops []check.Op) {
	t.Helper()
	if found := d.judge(t, ops); len(found) > 0 {
		require.Fail(t, "promises were broken", check.Report(found))
	}
}

// judge returns the promises that were broken. It is called when every
// operation has ended; one of unknown outcome may still take effect, and is
// waited for.
func (d *deployment) judge(t *testing.T, ops []check.Op) []check.Violation {
	t.Helper()
	if count(ops, unknown) > 0 {
		d.awaitQuiet(t)
	}
	ops = append(slices.Clone(ops), d.readBack(t, ops)...)
	found := check.Linearizable(ops, check.Options{})
	found = append(found, check.Versions(ops)...)
	found = append(found, check.Count(d.counts(t, videosOf(ops)))...)
	return append(found, check.Log(storagetest.Final(t, d.url))...)
}

const (
	// readers is how many reads of a check run at once.
	readers = 32
	// nobody is the client of what the checks themselves read.
	nobody = -1
)

// readBack reads every key of a history strongly, through the nodes in turn.
// What it returns comes after everything in the history.
func (d *deployment) readBack(t *testing.T, ops []check.Op) []check.Op {
	t.Helper()
	p := newPeople(t, d)
	var latest time.Duration
	for _, op := range ops {
		latest = max(latest, op.Call, op.Return)
	}
	p.began = p.began.Add(-latest - time.Second)
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(readers)
	for i, key := range keysOf(ops) {
		g.Go(func() error {
			op := get(key)
			op.Client = nobody
			for try := 0; ; try++ { // a node may still learn that another one is back
				done := p.do(ctx, d.Nodes()[(i+try)%len(d.Nodes())], op)
				if succeeded(done) {
					return nil
				}
				if try == len(d.Nodes()) {
					return fmt.Errorf("reading %s back: %s", key, done)
				}
			}
		})
	}
	require.NoError(t, g.Wait())
	return slices.DeleteFunc(p.history(t), func(op check.Op) bool { return !succeeded(op) })
}

func keysOf(ops []check.Op) []check.Key {
	seen := map[check.Key]bool{}
	var keys []check.Key
	for _, op := range ops {
		if !seen[op.Key] {
			seen[op.Key] = true
			keys = append(keys, op.Key)
		}
	}
	return keys
}

func videosOf(ops []check.Op) []string {
	var videos []string
	for _, op := range ops {
		videos = append(videos, string(op.Key.Video))
	}
	slices.Sort(videos)
	return slices.Compact(videos)
}

// counts returns what every node shows of videos, what is stored, and what a
// recount gives.
func (d *deployment) counts(t *testing.T, videos []string) []check.Counts {
	t.Helper()
	now, err := d.store.Now(t.Context())
	require.NoError(t, err)
	shown := d.shown(t, videos, now)
	var counts []check.Counts
	for _, video := range videos {
		recount, err := d.store.Recount(t.Context(), storage.VideoID(video))
		require.NoError(t, err)
		c := check.Counts{Video: storage.VideoID(video), Shown: map[string]storage.Tally{}, Stored: recount.Stored, Rows: recount.Rows}
		for node, tallies := range shown {
			c.Shown[node] = storage.Tally(tallies[video])
		}
		counts = append(counts, c)
	}
	return counts
}

// shown asks every node what anybody would be shown, until that is as new as
// since.
func (d *deployment) shown(t *testing.T, videos []string, since time.Time) map[string]map[string]traffic.Tally {
	t.Helper()
	shown := map[string]map[string]traffic.Tally{}
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(t.Context())
	for name, client := range d.clients {
		g.Go(func() error {
			tallies, err := traffic.ShownBy(ctx, client, "", videos, since)
			mu.Lock()
			defer mu.Unlock()
			shown[name] = tallies
			return err
		})
	}
	require.NoError(t, g.Wait())
	return shown
}

// requireCounts fails the test unless every node shows these counts of a video.
func (d *deployment) requireCounts(t *testing.T, video string, likes, dislikes int64) {
	t.Helper()
	for _, c := range d.counts(t, []string{video}) {
		want := storage.Tally{Likes: likes, Dislikes: dislikes}
		require.Equal(t, want, c.Rows, "recount of %s", video)
		for node, tally := range c.Shown {
			require.Equal(t, want, tally, "%s shown by %s", video, node)
		}
	}
}

// runTraffic runs clients until the returned function is called, which gives
// their history.
func (d *deployment) runTraffic(t *testing.T, cfg traffic.Config) (running *traffic.Traffic, stop func() []traffic.Op) {
	t.Helper()
	cfg.Token = token
	if cfg.Regions == nil {
		cfg.Regions = d.frontDoors()
	}
	running, err := traffic.New(cfg)
	require.NoError(t, err)
	t.Cleanup(running.Close)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- running.Run(ctx) }()
	stop = sync.OnceValue(func() []traffic.Op {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("running traffic: %v", err)
		}
		return running.History().Ops()
	})
	t.Cleanup(func() { stop() })
	return running, stop
}

// acknowledged waits until n more Sets were acknowledged.
func acknowledged(t *testing.T, running *traffic.Traffic, n int64, while string) {
	t.Helper()
	before := running.Figures().Acknowledged
	eventually(t, "Sets are acknowledged "+while, func() bool { return running.Figures().Acknowledged >= before+n })
}

// requireNothingLost judges the history of traffic, in the clients' own terms
// and in those of requireRight.
func (d *deployment) requireNothingLost(t *testing.T, running *traffic.Traffic, ops []traffic.Op) {
	t.Helper()
	if traffic.Summarize(ops).Unknown > 0 {
		d.awaitQuiet(t)
	}
	final, err := running.FinalStates(t.Context(), traffic.Keys(ops))
	require.NoError(t, err)
	require.Empty(t, traffic.Lost(ops, final))
	d.requireRight(t, historyOf(ops))
	summary := traffic.Summarize(ops)
	t.Logf("%d acknowledged, %d failed, %d unknown, %d keys", summary.Acknowledged, summary.Failed, summary.Unknown, len(final))
}

// historyOf puts what traffic was told into the checkers' terms.
func historyOf(ops []traffic.Op) []check.Op {
	history := make([]check.Op, 0, len(ops))
	for _, op := range ops {
		c := check.Op{
			Kind: check.Set, Key: keyOf(op.Key.Video, op.Key.User), Client: op.Client, Call: op.Start, Return: op.End,
			Desired: stored(op.Desired), IdempotencyKey: op.IdempotencyKey, Outcome: known(op.Outcome),
		}
		if op.Kind == traffic.Get {
			c.Kind = check.Get
		}
		if op.Outcome == traffic.OK {
			c.Result = check.Result{Reaction: stored(op.State.Reaction), Version: op.State.Version, Changed: op.Changed}
			if op.Kind == traffic.Set {
				c.Result.Previous = stored(op.Previous)
			}
		}
		history = append(history, c)
	}
	return history
}
