package storage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// scripted is a database whose transactions do as the test says. It stands in
// for the real one where time is what matters: slow, stuck or away.
type scripted struct {
	attempt func(ctx context.Context, sets []Set) *failure
	applied atomic.Int64 // sets of transactions that committed
}

func (s *scripted) run(ctx context.Context, sets []Set) (*attempt, *failure) {
	if f := s.attempt(ctx, sets); f != nil {
		return nil, f
	}
	s.applied.Add(int64(len(sets)))
	return &attempt{plan: &plan{verdicts: make([]verdict, len(sets))}}, nil
}

func (s *scripted) lookUp(context.Context, *attempt) (bool, error) {
	return false, errors.New("no look-up in this test")
}

// inBubble runs a committer over a scripted database, in a bubble whose time
// the test moves.
func inBubble(t *testing.T, cfg CommitterConfig, db *scripted, test func(t *testing.T, c *committer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCommitter(cfg.withDefaults(), db, newMetrics(prometheus.NewRegistry()), zap.NewNop())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = c.run(ctx) // a test that cares runs it itself
		}()
		defer func() {
			stop()
			<-ended
		}()
		test(t, c)
	})
}

func within(t *testing.T, c *committer, slot Slot, limit time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, err := c.set(ctx, Set{Slot: slot, Video: "cat", User: UserID(fmt.Sprint(slot)), Desired: Like})
	return err
}

func sleep(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // in a bubble: moves its clock
}

func TestASlowSpellIsForgotten(t *testing.T) {
	t.Parallel()
	slow := true
	db := &scripted{attempt: func(context.Context, []Set) *failure {
		if slow {
			sleep(1500 * time.Millisecond)
		}
		return nil
	}}
	inBubble(t, CommitterConfig{Workers: 1}, db, func(t *testing.T, c *committer) {
		for range 10 {
			require.NoError(t, within(t, c, 1, 5*time.Second))
		}
		slow = false
		sleep(10 * time.Minute)
		require.NoError(t, within(t, c, 1, time.Second), "an idle worker tries")
	})
}

func TestWhatWasNeverTriedIsNotUnknown(t *testing.T) {
	t.Parallel()
	db := &scripted{attempt: func(ctx context.Context, _ []Set) *failure {
		select { // a database that cannot be reached
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
		return &failure{class: outage, err: errors.New("no route to the database")}
	}}
	inBubble(t, CommitterConfig{Workers: 1}, db, func(t *testing.T, c *committer) {
		var wg sync.WaitGroup
		var unknowns atomic.Int64
		for slot := range Slot(40) {
			wg.Go(func() {
				err := within(t, c, slot, 5*time.Second)
				require.Error(t, err)
				if errors.Is(err, ErrOutcomeUnknown) {
					unknowns.Add(1)
				}
			})
		}
		wg.Wait()
		require.LessOrEqual(t, unknowns.Load(), int64(recoveriesPerWorker), "those whose attempt was under way")
		sleep(time.Minute)
		require.Zero(t, db.applied.Load(), "nothing is tried for callers who have gone")
	})
}

func TestTheDeadDoNotFillTheQueue(t *testing.T) {
	t.Parallel()
	db := &scripted{attempt: func(ctx context.Context, sets []Set) *failure {
		if sets[0].Slot == 7 {
			<-ctx.Done()
			return &failure{class: outage, err: context.Cause(ctx)}
		}
		return nil
	}}
	inBubble(t, CommitterConfig{Workers: 1, QueueLimit: 20, DrainTimeout: time.Second}, db, func(t *testing.T, c *committer) {
		c.workers[0].busy[7] = true // as while its batch is recovered
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { require.Error(t, within(t, c, 7, 100*time.Millisecond)) })
		}
		wg.Wait()
		require.NoError(t, within(t, c, 1, time.Second))
	})
}

func TestDrainThatTakesTooLong(t *testing.T) { // R44
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := &scripted{attempt: func(ctx context.Context, _ []Set) *failure {
			<-ctx.Done()
			return &failure{class: outage, err: context.Cause(ctx)}
		}}
		cfg := CommitterConfig{Workers: 1, BatchLimit: 1, DrainTimeout: time.Second, RequestTimeout: time.Minute}.withDefaults()
		c := newCommitter(cfg, db, newMetrics(nil), zap.NewNop())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.run(ctx) }()
		var wg sync.WaitGroup
		for slot := range Slot(5) {
			wg.Go(func() {
				var unavailable *UnavailableError
				require.ErrorAs(t, within(t, c, slot, time.Minute), &unavailable, "each gets its answer: nothing was applied")
			})
		}
		synctest.Wait()
		stop()
		require.ErrorIs(t, <-ended, errDrainTimeout)
		wg.Wait()
	})
}
