package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"likewise/deploy/local/cluster"
	"likewise/e2e/fault/pgproxy"
	likewisev1 "likewise/proto/likewise/v1"
	"likewise/routing"
)

// hungUp is a node on which callers hang up. Its one worker commits one batch
// after the other, and its way to the database leads through a proxy, so that
// the moments are exact.
type hungUp struct {
	*deployment
	node *cluster.Node
	link *pgproxy.Proxy
}

// Callers of every protocol hang up at each step of a write. What they left has
// one effect or none, by how far it had come, and a repeat finds out.
func TestCallersHangUp(t *testing.T) {
	t.Parallel()
	h := &hungUp{}
	h.deployment = deploy(t, func(cfg *cluster.Config) {
		cfg.Regions, cfg.NodesPerRegion = []string{"eu"}, 1
		cfg.Args = []string{"--commit-workers", "1", "--deadline", patience.String()}
		h.link = proxyTo(t, cfg.DatabaseURL)
		through, err := h.link.URL(cfg.DatabaseURL)
		require.NoError(t, err)
		cfg.DatabaseURLOf = func(string) string { return through }
	})
	t.Cleanup(h.link.ResetAll) // the node would wait for a connection that it gave up
	h.node = h.Nodes()[0]

	t.Run("before they have sent anything", h.testUnsent)
	t.Run("while their writes wait for another", h.testQueued)
	t.Run("while their writes are under way", h.testUnderWay)
	t.Run("when their writes are committed", h.testCommitted)
}

func (h *hungUp) testUnsent(t *testing.T) {
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	for _, w := range h.writers(t, "unsent", 1) {
		r := w.say(gone)
		require.Equal(t, "canceled", r.code, "%s: %s", w.name, r.text)
		h.requireNothingWritten(t, w.user)
	}
}

// testQueued: whoever hangs up before a transaction has begun with the write
// has written nothing.
func (h *hungUp) testQueued(t *testing.T) {
	release, leader := h.busy(t, 1)
	all := h.writers(t, "queued", 1)
	hangUp := h.queue(t, all)
	hangUp()
	release()
	leader()
	for _, w := range all {
		h.requireNothingWritten(t, w.user)
	}
	h.requireRepeatable(t, all)
}

// testUnderWay: all is sent to the database but the COMMIT.
func (h *hungUp) testUnderWay(t *testing.T) {
	h.requireRepeatable(t, h.hangUpAt(t, "under-way", 2, pgproxy.HoldCommit()))
}

// testCommitted: the database has committed, and nobody has heard of it.
func (h *hungUp) testCommitted(t *testing.T) {
	all := h.hangUpAt(t, "committed", 3, pgproxy.StallCommitReply(), func(w writer) {
		require.Equal(t, traces{Reactions: 1, Changes: 1, Keys: 1}, h.traces(t, w.user), "%s: it is committed", w.name)
	})
	h.requireRepeatable(t, all)
}

// hangUpAt has all writers hang up when the commit of their writes, one
// transaction, is hit by a fault. Before they do, each is checked.
func (h *hungUp) hangUpAt(t *testing.T, video string, slot int, fault pgproxy.Fault, checks ...func(writer)) []writer {
	t.Helper()
	release, leader := h.busy(t, slot)
	all := h.writers(t, video, slot)
	hangUp := h.queue(t, all)
	armed := h.link.Arm(fault.On(2)) // the first is the leader's
	t.Cleanup(armed.Heal)
	release()
	leader()
	select {
	case <-armed.TookHold():
	case <-time.After(patience):
		require.FailNow(t, "no commit was hit: the test proves nothing")
	}
	for _, check := range checks {
		for _, w := range all {
			check(w)
		}
	}
	hangUp()
	armed.Heal()
	return all
}

// writer writes one reaction in one protocol, under a key.
type writer struct {
	speaker
	node *cluster.Node
	user string
	call call
}

func (w writer) say(ctx context.Context) reply { return w.speaker.say(ctx, w.node, w.call) }

// writers are one for each protocol, whose reactions lie in one slot. A program
// that is started for each call is none of them: it takes too long to come, and
// goes as every other client of HTTP/2 does.
func (h *hungUp) writers(t *testing.T, video string, slot int) []writer {
	t.Helper()
	var all []writer
	for _, s := range speakers(t) {
		if !s.curl {
			all = append(all, h.writer(t, s, video, slot))
		}
	}
	return all
}

func (h *hungUp) writer(t *testing.T, s speaker, video string, slot int) writer {
	t.Helper()
	user := ""
	for i := 0; user == "" || routing.SlotOf(video, user) != routing.Slot(slot); i++ {
		user = fmt.Sprintf("%s-%s-%d", identifier(s.name), video, i)
	}
	return writer{s, h.node, user, call{
		bearer:  userToken(t, user),
		request: &likewisev1.SetReactionRequest{VideoId: video, Reaction: like, IdempotencyKey: "once"},
	}}
}

// busy keeps the node's worker busy with a write that waits for its slot, until
// release is called. The returned leader waits for the end of that write.
func (h *hungUp) busy(t *testing.T, slot int) (release, leader func()) {
	t.Helper()
	release = h.lockHead(t, slot)
	w := h.writer(t, connectSpeaker(t, "leader", false), "leaders", slot)
	answered := make(chan reply, 1)
	go func() { answered <- w.say(t.Context()) }()
	h.awaitLocked(t)
	return release, func() {
		t.Helper()
		r := <-answered
		require.Empty(t, r.code, r.text)
	}
}

// lockHead takes a slot's head, as a transaction of another node would.
func (h *hungUp) lockHead(t *testing.T, slot int) (release func()) {
	t.Helper()
	tx, err := h.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT 1 FROM slots WHERE slot = $1 FOR UPDATE", slot)
	require.NoError(t, err)
	release = sync.OnceFunc(func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) })
	t.Cleanup(release)
	return release
}

func (h *hungUp) awaitLocked(t *testing.T) {
	t.Helper()
	eventually(t, "a transaction waits for a head", func() bool {
		var n int
		err := h.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'likewise-write' AND wait_event_type = 'Lock'`).Scan(&n)
		return err == nil && n > 0
	})
}

// queue has all writers write and waits until all of them wait. hangUp has all
// of them go, and returns when the node knows.
func (h *hungUp) queue(t *testing.T, all []writer) (hangUp func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	replies := make([]reply, len(all))
	var asking sync.WaitGroup
	for i, w := range all {
		asking.Go(func() { replies[i] = w.say(ctx) })
	}
	eventually(t, "all writes wait", func() bool {
		return h.metric(t.Context(), h.node, "likewise_storage_waiting_sets") == float64(len(all))
	})
	before := h.canceled(t)
	return func() {
		t.Helper()
		cancel()
		asking.Wait()
		for i, r := range replies {
			require.Equal(t, "canceled", r.code, "%s: %s", all[i].name, r.text)
		}
		eventually(t, "the node knows that all have gone", func() bool { return h.canceled(t) == before+float64(len(all)) })
	}
}

// canceled returns how many calls the node has ended because their callers went.
func (h *hungUp) canceled(t *testing.T) float64 {
	t.Helper()
	sum := 0.0
	for line := range strings.Lines(h.metrics(t.Context(), h.node)) {
		if strings.HasPrefix(line, "likewise_regions_calls_total{") && strings.Contains(line, `code="canceled"`) {
			var value float64
			_, _ = fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &value)
			sum += value
		}
	}
	return sum
}

// requireRepeatable has every writer repeat its write under its key: it is told
// what it missed, and there is one effect.
func (h *hungUp) requireRepeatable(t *testing.T, all []writer) {
	t.Helper()
	for _, w := range all {
		r := w.say(t.Context())
		require.Empty(t, r.code, "%s: %s", w.name, r.text)
		m := answer[*likewisev1.SetReactionResponse](t, r)
		require.True(t, m.GetChanged() && m.GetReaction() == like && m.GetPreviousReaction() == none, "%s: %v", w.name, m)
		require.Equal(t, traces{Reactions: 1, Changes: 1, Keys: 1}, h.traces(t, w.user), w.name)
	}
	h.requireCounts(t, videoOf(all[0].call.request), int64(len(all)), 0)
}
