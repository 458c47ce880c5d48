package demo

import (
	"context"
	"fmt"
	"time"

	"likewise/e2e/traffic"
	"likewise/storage"
)

// liveEvery is how often the line of figures changes. It is a second, so that
// what happened since the last change is a rate.
const liveEvery = time.Second

// live keeps one line up to date until ctx ends. A figure that cannot be had
// right now is left as it was: the line never ends the demo.
func (p *show) live(ctx context.Context) error {
	ticker := time.NewTicker(liveEvery)
	defer ticker.Stop()
	defer fmt.Fprintln(p.cfg.Out)
	var l line
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		l.total, l.recent = p.traffic.Figures(), p.traffic.Recent()
		p.refresh(ctx, &l)
		fmt.Fprintf(p.cfg.Out, "\r\x1b[K%s", l)
	}
}

// line is what the line of figures says.
type line struct {
	total, recent traffic.Figures
	forwarded     int64
	hot           storage.Recount
}

func (p *show) refresh(ctx context.Context, l *line) {
	if n, err := p.forwarded(ctx); err == nil {
		l.forwarded = n
	}
	if hot, err := p.store.Recount(ctx, traffic.HotVideo); err == nil {
		l.hot = hot
	}
}

func (l line) String() string {
	stored, rows := traffic.Tally(l.hot.Stored), traffic.Tally(l.hot.Rows)
	drift, _ := traffic.Drift(map[string]map[string]traffic.Tally{"": {traffic.HotVideo: stored}},
		map[string]traffic.Tally{traffic.HotVideo: rows})
	return fmt.Sprintf("%s acknowledged (%d/s)  p50 %.0f ms  p99 %.0f ms  %s forwarded  hot video: %s likes, %s dislikes, drift %d",
		grouped(l.total.Acknowledged), l.recent.Acknowledged, milliseconds(l.recent.SetP50), milliseconds(l.recent.SetP99),
		grouped(l.forwarded), grouped(rows.Likes), grouped(rows.Dislikes), drift)
}
