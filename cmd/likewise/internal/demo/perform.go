package demo

import (
	"context"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"likewise/e2e/traffic"
	likewisev1 "likewise/proto/likewise/v1"
	"likewise/storage"
	"likewise/storage/naive"
)

const (
	// quiet is how long the demo waits after the last reply before it checks.
	quiet = time.Second
	// quietAfterUnknown is longer than any node works on a request whose
	// outcome a client does not know: the default deadline, and a commit.
	quietAfterUnknown = 8 * time.Second
	// checkTimeout bounds the checks.
	checkTimeout = 3 * time.Minute
	// page is how many videos are listed at once.
	page = 1000
	// maxDetails is how many faults are named.
	maxDetails = 10
)

// show is one run of traffic on a stage.
type show struct {
	*stage
	traffic  *traffic.Traffic
	naive    *naive.Feeder
	before   map[storage.VideoID]storage.Tally
	duration time.Duration
}

// perform lets traffic run, and checks. Once it has begun, the end of ctx ends
// the traffic and not the checks.
func (s *stage) perform(ctx context.Context) (Result, error) {
	begun, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	p, err := s.open(begun)
	if err != nil {
		return Result{}, err
	}
	defer p.naive.Close()
	defer p.traffic.Close()
	if err := p.run(ctx, begun); err != nil {
		return Result{}, err
	}
	checking, cancelCheck := context.WithTimeout(begun, checkTimeout)
	defer cancelCheck()
	return p.check(checking)
}

func (s *stage) open(ctx context.Context) (*show, error) {
	if err := s.warmUp(ctx); err != nil {
		return nil, err
	}
	before, err := s.recountAll(ctx)
	if err != nil {
		return nil, err
	}
	feeder, err := naive.Open(ctx, naive.Config{URL: s.databaseURL})
	if err != nil {
		return nil, err
	}
	t, err := traffic.New(traffic.Config{
		Seed:             s.cfg.Seed,
		Run:              strconv.FormatInt(time.Now().UnixMilli(), 36),
		Regions:          s.regions(),
		Token:            func(user string) (string, error) { return s.cfg.Mint(user, tokenLife) },
		Observer:         observer{feeder},
		ClientsPerRegion: s.cfg.Clients,
		Rate:             s.cfg.Rate,
	})
	if err != nil {
		feeder.Close()
		return nil, err
	}
	return &show{stage: s, traffic: t, naive: feeder, before: before}, nil
}

// observer tells the naive counters what clients are about to ask for.
type observer struct{ feeder *naive.Feeder }

func (o observer) Attempt(ctx context.Context, a traffic.Attempt) error {
	return o.feeder.Feed(ctx, naive.Event{Video: storage.VideoID(a.Video), From: reaction(a.From), To: reaction(a.To)})
}

func reaction(r likewisev1.Reaction) storage.Reaction {
	switch r {
	case likewisev1.Reaction_LIKE:
		return storage.Like
	case likewisev1.Reaction_DISLIKE:
		return storage.Dislike
	default:
		return storage.None
	}
}

// run runs traffic until ctx or the duration ends, and returns when every
// operation is over and every naive event counted.
func (p *show) run(ctx, begun context.Context) error {
	if p.cfg.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.cfg.Duration)
		defer cancel()
	}
	began := time.Now()
	feeding, stopped := errgroup.WithContext(begun)
	feeding.Go(func() error { return p.naive.Run(stopped) })

	acting, ctx := errgroup.WithContext(ctx)
	acting.Go(func() error {
		if p.cfg.Quiet {
			<-ctx.Done()
			return nil
		}
		return p.traffic.Run(ctx)
	})
	acting.Go(func() error { return p.watchNodes(ctx) })
	if p.cfg.Live {
		acting.Go(func() error { return p.live(ctx) })
	}
	err := acting.Wait()
	p.duration = time.Since(began)
	p.naive.Finish()
	if feedErr := feeding.Wait(); feedErr != nil {
		return feedErr // it is why the traffic ended, if that ended early
	}
	return err
}

// check waits for quiet and compares.
func (p *show) check(ctx context.Context) (Result, error) {
	ops := p.traffic.History().Ops()
	summary, figures := traffic.Summarize(ops), p.traffic.Figures()
	p.cfg.say("traffic stopped; waiting for quiet, then checking")
	wait := quiet
	if summary.Unknown > 0 {
		wait = quietAfterUnknown
	}
	pause(ctx, wait)
	forwarded, err := p.forwarded(ctx)
	if err != nil {
		return Result{}, err
	}
	r := Result{
		Database: p.database, Regions: len(p.cfg.Regions), Nodes: len(p.cfg.Regions) * p.cfg.NodesPerRegion,
		Acknowledged: summary.Acknowledged, Changed: summary.Changed, Unchanged: summary.Unchanged,
		Failed: summary.Failed, Unknown: summary.Unknown, Forwarded: forwarded,
		SetP50: milliseconds(figures.SetP50), SetP99: milliseconds(figures.SetP99), CountsP99: milliseconds(figures.CountsP99),
		NaiveEvents: p.naive.Fed(), DurationSeconds: seconds(p.duration), RTT: milliseconds(p.cfg.RTT), Seed: p.cfg.Seed,
	}
	if err := p.checkKeys(ctx, ops, &r); err != nil {
		return Result{}, err
	}
	return r, p.checkCounts(ctx, &r)
}

func (p *show) checkKeys(ctx context.Context, ops []traffic.Op, r *Result) error {
	ops, err := readable(ctx, p.store, ops)
	if err != nil {
		return err
	}
	keys := traffic.Keys(ops)
	p.cfg.say("reading %s reactions back, one by one", grouped(len(keys)))
	final, err := p.traffic.FinalStates(ctx, keys)
	if err != nil {
		return err
	}
	lost := traffic.Lost(ops, final)
	r.Lost = len(lost)
	for _, violation := range lost[:min(len(lost), maxDetails)] {
		r.Details = append(r.Details, violation.String())
	}
	return nil
}

func (p *show) checkCounts(ctx context.Context, r *Result) error {
	now, err := p.store.Now(ctx)
	if err != nil {
		return err
	}
	after, err := p.recountAll(ctx)
	if err != nil {
		return err
	}
	gone, err := deletedOf(ctx, p.store, setOf(after))
	if err != nil {
		return err
	}
	recount := make(map[string]traffic.Tally, len(after))
	for video, tally := range after {
		if !gone[video] {
			recount[string(video)] = traffic.Tally(tally)
		}
	}
	r.VideosChecked, r.VideosDeleted = len(recount), len(gone)
	p.cfg.say("comparing what every node shows of %s videos with a recount", grouped(r.VideosChecked))
	shown, err := p.traffic.Shown(ctx, "demo", keysOf(recount), now)
	if err != nil {
		return err
	}
	drift, differences := traffic.Drift(shown, recount)
	r.Drift = drift
	for _, difference := range differences[:min(len(differences), maxDetails)] {
		r.Details = append(r.Details, difference.String())
	}
	return p.checkNaive(ctx, r, p.ofThisRun(after))
}

// ofThisRun is what the traffic of this run added to the rows: the naive
// counters know nothing of what was there before, nor of other videos.
func (p *show) ofThisRun(after map[storage.VideoID]storage.Tally) map[storage.VideoID]storage.Tally {
	touched := make(map[storage.VideoID]storage.Tally)
	for _, key := range traffic.Keys(p.traffic.History().Ops()) {
		video := storage.VideoID(key.Video)
		touched[video] = storage.Tally{
			Likes:    after[video].Likes - p.before[video].Likes,
			Dislikes: after[video].Dislikes - p.before[video].Dislikes,
		}
	}
	return touched
}

func (p *show) checkNaive(ctx context.Context, r *Result, truth map[storage.VideoID]storage.Tally) error {
	blind, err := p.naive.Blind(ctx)
	if err != nil {
		return err
	}
	readThenWrite, err := p.naive.ReadThenWrite(ctx)
	if err != nil {
		return err
	}
	r.BlindOffBy = naive.OffBy(blind, truth)
	r.ReadThenWriteOffBy = naive.OffBy(readThenWrite, truth)
	return nil
}

// recountAll counts the reactions of every video.
func (s *stage) recountAll(ctx context.Context) (map[storage.VideoID]storage.Tally, error) {
	counts := make(map[storage.VideoID]storage.Tally)
	var after storage.VideoID
	for {
		videos, err := s.store.Videos(ctx, after, page)
		if err != nil || len(videos) == 0 {
			return counts, err
		}
		for _, video := range videos {
			recount, err := s.store.Recount(ctx, video)
			if err != nil {
				return nil, err
			}
			counts[video] = recount.Rows
		}
		after = videos[len(videos)-1]
	}
}

func setOf[K comparable, V any](m map[K]V) map[K]bool {
	set := make(map[K]bool, len(m))
	for key := range m {
		set[key] = true
	}
	return set
}

func keysOf[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	return keys
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
