package routing

import (
	"context"
	"slices"
	"sync"
	"time"
)

// triesToTell is how many attempts to join a seed must have been turned away
// before that says anything: a process that starts or stops turns away, too.
const triesToTell = 3

// turnedAway finds out whether seeds turn the node away while it is young. A
// seed that has another key, or is no gossip, takes a connection and ends it at
// once; one that is down takes none, and one that hangs lets the attempt time
// out. Attempts may be noted at once, and not beside the verdict.
type turnedAway struct {
	until time.Time

	mu    sync.Mutex
	seeds map[string]*tries // guarded by mu
}

type tries struct{ all, turned int }

func newTurnedAway(youth time.Duration) *turnedAway {
	return &turnedAway{until: time.Now().Add(youth), seeds: make(map[string]*tries)}
}

// note remembers one attempt to join a seed. quick says that it did not take
// the time in which an attempt gives up.
func (t *turnedAway) note(ctx context.Context, seed string, err error, quick bool) {
	if t.seeds == nil {
		return
	}
	turned := err != nil && quick && reachable(ctx, seed)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seeds[seed] == nil {
		t.seeds[seed] = &tries{}
	}
	t.seeds[seed].all++
	if turned {
		t.seeds[seed].turned++
	}
}

// verdict is given once, at the end of the node's youth: a SeedsRefusedError if
// there are no others and a seed turned it away in most attempts. (On a machine that is
// busy one of them may look otherwise. That one succeeded would end the solitude.)
func (t *turnedAway) verdict(others int) error {
	if t.seeds == nil || time.Now().Before(t.until) {
		return nil
	}
	seeds := t.seeds
	t.seeds = nil
	refused := &SeedsRefusedError{}
	for seed, n := range seeds {
		if n.turned >= triesToTell && 2*n.turned > n.all {
			refused.Seeds = append(refused.Seeds, seed)
		}
	}
	if others > 0 || len(refused.Seeds) == 0 {
		return nil
	}
	slices.Sort(refused.Seeds)
	return refused
}
