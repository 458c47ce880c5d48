package traffic

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/proto/likewise/v1/likewisev1connect"
)

// model is the public API in memory. The user of a call is its bearer token.
type model struct {
	likewisev1connect.UnimplementedReactionServiceHandler
	// forget, if not 0, makes every forget-th change vanish after it was
	// acknowledged: the fault that Lost and Drift must find.
	forget int

	mu      sync.Mutex
	states  map[Key]State                              // guarded by mu
	replies map[string]*likewisev1.SetReactionResponse // by key and idempotency key; guarded by mu
	changes int                                        // guarded by mu
}

func newModel() *model {
	return &model{states: make(map[Key]State), replies: make(map[string]*likewisev1.SetReactionResponse)}
}

func caller(ctx context.Context) string {
	info, _ := connect.CallInfoForHandlerContext(ctx)
	return strings.TrimPrefix(info.RequestHeader().Get("Authorization"), "Bearer ")
}

func (m *model) SetReaction(ctx context.Context, req *likewisev1.SetReactionRequest) (*likewisev1.SetReactionResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := Key{req.GetVideoId(), caller(ctx)}
	scope := key.Video + "/" + key.User + "/" + req.GetIdempotencyKey()
	if reply, ok := m.replies[scope]; ok {
		return reply, nil
	}
	reply := m.apply(key, req.GetReaction())
	if req.GetIdempotencyKey() != "" {
		m.replies[scope] = reply
	}
	return reply, nil
}

func (m *model) apply(key Key, want likewisev1.Reaction) *likewisev1.SetReactionResponse {
	was := m.state(key)
	now := was
	if was.Reaction != want {
		now = State{want, was.Version + 1}
		m.changes++
		if m.forget == 0 || m.changes%m.forget != 0 {
			m.states[key] = now
		}
	}
	return &likewisev1.SetReactionResponse{
		Reaction: now.Reaction, Version: now.Version, PreviousReaction: was.Reaction, Changed: was != now,
	}
}

func (m *model) state(key Key) State {
	if s, ok := m.states[key]; ok {
		return s
	}
	return None()
}

func (m *model) GetReaction(ctx context.Context, req *likewisev1.GetReactionRequest) (*likewisev1.GetReactionResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.state(Key{req.GetVideoId(), caller(ctx)})
	return &likewisev1.GetReactionResponse{Reaction: s.Reaction, Version: s.Version}, nil
}

func (m *model) GetCounts(_ context.Context, req *likewisev1.GetCountsRequest) (*likewisev1.GetCountsResponse, error) {
	tally := m.recount()[req.GetVideoId()]
	return &likewisev1.GetCountsResponse{Counts: &likewisev1.Counts{
		Likes: tally.Likes, Dislikes: tally.Dislikes, AsOf: timestamppb.Now(),
	}}, nil
}

func (m *model) recount() map[string]Tally {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := make(map[string]Tally)
	for key, s := range m.states {
		tally := counts[key.Video]
		switch s.Reaction {
		case likewisev1.Reaction_LIKE:
			tally.Likes++
		case likewisev1.Reaction_DISLIKE:
			tally.Dislikes++
		}
		counts[key.Video] = tally
	}
	return counts
}

// serve returns two regions with one front door each, both of the same model.
func serve(t *testing.T, m *model) []Region {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(likewisev1connect.NewReactionServiceHandler(m))
	var regions []Region
	for _, name := range []string{"eu", "us"} {
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		regions = append(regions, Region{Name: name, Addrs: []string{server.Listener.Addr().String()}})
	}
	return regions
}

func self(user string) (string, error) { return user, nil }

// runUntil runs traffic against m until enough Sets were acknowledged.
func runUntil(t *testing.T, m *model, enough int64, observer Observer) *Traffic {
	t.Helper()
	traffic, err := New(Config{
		Seed: 1, Regions: serve(t, m), Token: self, Observer: observer,
		ClientsPerRegion: 4, Videos: 20, UsersPerClient: 5,
	})
	require.NoError(t, err)
	t.Cleanup(traffic.Close)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- traffic.Run(ctx) }()
	require.Eventually(t, func() bool { return traffic.Figures().Acknowledged >= enough }, 50*time.Second, 20*time.Millisecond)
	cancel()
	require.NoError(t, <-done)
	return traffic
}

// attempts counts what an application would count.
type attempts struct{ seen, changing atomic.Int64 }

func (a *attempts) Attempt(_ context.Context, at Attempt) error {
	a.seen.Add(1)
	if at.From != at.To {
		a.changing.Add(1)
	}
	return nil
}

func TestTrafficFindsNothingWrongWithAModel(t *testing.T) {
	t.Parallel()

	m, seen := newModel(), &attempts{}
	traffic := runUntil(t, m, 600, seen)

	ops := traffic.History().Ops()
	final, err := traffic.FinalStates(t.Context(), Keys(ops))
	require.NoError(t, err)
	require.Empty(t, Lost(ops, final))

	recount := m.recount()
	var videos []string
	for video := range recount {
		videos = append(videos, video)
	}
	shown, err := traffic.Shown(t.Context(), "auditor", videos, time.Now())
	require.NoError(t, err)
	require.Len(t, shown, 2)
	sum, diffs := Drift(shown, recount)
	require.Zero(t, sum, "%v", diffs)

	summary := Summarize(ops)
	require.EqualValues(t, traffic.Figures().Acknowledged, summary.Acknowledged)
	require.Equal(t, m.changes, summary.Changed, "every change of the model was acknowledged to someone, and none twice")
	require.Positive(t, summary.Unchanged)
	require.Zero(t, summary.Failed)
	require.GreaterOrEqual(t, seen.seen.Load(), int64(summary.Acknowledged), "each acknowledged Set was seen before it was sent")
	require.Greater(t, seen.changing.Load(), int64(summary.Changed), "duplicates are told to an application's counter as well")
	require.Positive(t, traffic.Figures().SetP50)
	require.GreaterOrEqual(t, traffic.Figures().SetP99, traffic.Figures().SetP50)
	require.Positive(t, traffic.Figures().CountsP99)
}

// The negative control of the test above.
func TestTrafficFindsAServerThatForgets(t *testing.T) {
	t.Parallel()

	m := newModel()
	m.forget = 50
	traffic := runUntil(t, m, 600, nil)

	ops := traffic.History().Ops()
	final, err := traffic.FinalStates(t.Context(), Keys(ops))
	require.NoError(t, err)
	require.NotEmpty(t, Lost(ops, final))
}

func TestTrafficHasEveryKindOfStep(t *testing.T) {
	t.Parallel()

	traffic := runUntil(t, newModel(), 600, nil)
	ops := traffic.History().Ops()
	for name, is := range map[string]func(Op) bool{
		"a strong read":        func(op Op) bool { return op.Kind == Get },
		"a Set without a key":  func(op Op) bool { return op.Kind == Set && op.IdempotencyKey == "" },
		"a Set on a hot video": func(op Op) bool { return op.Key.Video == HotVideo },
		"an undo":              func(op Op) bool { return op.Changed && op.Desired == none },
		"a switch":             func(op Op) bool { return op.Changed && op.Previous != none && op.Desired != none },
		"a repeat":             func(op Op) bool { return op.Kind == Set && op.Outcome == OK && !op.Changed },
	} {
		require.True(t, slices.ContainsFunc(ops, is), name)
	}
	require.True(t, slices.ContainsFunc(ops, func(a Op) bool {
		return a.IdempotencyKey != "" && slices.ContainsFunc(ops, func(b Op) bool {
			return a.Key == b.Key && a.IdempotencyKey == b.IdempotencyKey && a.Start < b.End && b.Start < a.End && a.Start != b.Start
		})
	}), "the same request at the same time")
	require.True(t, slices.ContainsFunc(ops, func(a Op) bool {
		return slices.ContainsFunc(ops, func(b Op) bool {
			return a.Key == b.Key && a.Region != b.Region && a.Start < b.End && b.Start < a.End
		})
	}), "one user in two regions at the same time")
}

type broken struct{ err error }

func (b broken) Attempt(context.Context, Attempt) error { return b.err }

func TestTrafficEndsWithTheObserversError(t *testing.T) {
	t.Parallel()

	full := errors.New("disk full")
	traffic, err := New(Config{Regions: serve(t, newModel()), Token: self, Observer: broken{full}})
	require.NoError(t, err)
	t.Cleanup(traffic.Close)
	require.ErrorIs(t, traffic.Run(t.Context()), full)
}

func TestConfigNamesEveryFieldThatIsWrong(t *testing.T) {
	t.Parallel()

	_, err := New(Config{Regions: []Region{{Name: "eu"}}, HotShare: 2, Rate: -1, Videos: -1})
	for _, field := range []string{`"eu" has no address`, "Token", "HotShare", "Rate", "Videos"} {
		require.ErrorContains(t, err, field)
	}
}

func TestPlansAreRepeatable(t *testing.T) {
	t.Parallel()

	steps := func(seed uint64, client int) []step {
		p := newPlan(Config{Seed: seed}.withDefaults(), client)
		var all []step
		for range 200 {
			s := p.next()
			p.learn(s.key, s.want)
			all = append(all, s)
		}
		return all
	}
	first := steps(7, 3)
	require.Equal(t, first, steps(7, 3))
	require.NotEqual(t, first, steps(8, 3))
	require.NotEqual(t, first, steps(7, 4))
}

func TestRecentForgetsAndFiguresDoNot(t *testing.T) {
	t.Parallel()

	m := newMeter()
	m.set(Op{Outcome: OK, End: 10 * time.Millisecond})
	m.set(Op{Outcome: Unknown})
	require.EqualValues(t, 1, m.sinceLast().Acknowledged)
	require.Equal(t, Figures{}, m.sinceLast())
	m.set(Op{Outcome: OK, End: time.Hour})
	require.EqualValues(t, 2, m.figures().Acknowledged)
	require.EqualValues(t, 1, m.figures().Unknown)
	require.InDelta(t, highestLatency, m.figures().SetP99, float64(highestLatency)/100, "too long is clamped, not dropped")
}
