package traffic

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Figures are what the traffic amounts to, over some time.
type Figures struct {
	Acknowledged, Failed, Unknown int64
	SetP50, SetP99, CountsP99     time.Duration
}

// meter measures, from the start and since it was last looked at. Its methods
// may be called concurrently.
type meter struct {
	mu     sync.Mutex
	all    *gauge // guarded by mu
	recent *gauge // guarded by mu
}

// gauge adds up one stretch of time.
type gauge struct {
	acknowledged, failed, unknown int64
	sets, counts                  *hdrhistogram.Histogram // in microseconds
}

// highestLatency is longer than any operation's deadline.
const highestLatency = time.Minute

func newMeter() *meter { return &meter{all: newGauge(), recent: newGauge()} }

func newGauge() *gauge { return &gauge{sets: newHistogram(), counts: newHistogram()} }

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, highestLatency.Microseconds(), 3)
}

// set measures one finished Set.
func (m *meter) set(op Op) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all.set(op)
	m.recent.set(op)
}

func (m *meter) count(took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	record(m.all.counts, took)
	record(m.recent.counts, took)
}

func (m *meter) figures() Figures {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all.figures()
}

// sinceLast returns the figures since it was last called.
func (m *meter) sinceLast() Figures {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.recent.reset()
	return m.recent.figures()
}

// set measures one finished Set. The latency of an acknowledged Set runs from
// the first attempt to the reply, retries included.
func (g *gauge) set(op Op) {
	switch op.Outcome {
	case OK:
		g.acknowledged++
		record(g.sets, op.End-op.Start)
	case Failed:
		g.failed++
	case Unknown:
		g.unknown++
	}
}

// record clamps to what the histogram can hold, so that it never refuses.
func record(h *hdrhistogram.Histogram, took time.Duration) {
	_ = h.RecordValue(min(took, highestLatency).Microseconds())
}

func (g *gauge) reset() {
	g.acknowledged, g.failed, g.unknown = 0, 0, 0
	g.sets.Reset()
	g.counts.Reset()
}

func (g *gauge) figures() Figures {
	return Figures{
		Acknowledged: g.acknowledged, Failed: g.failed, Unknown: g.unknown,
		SetP50:    quantile(g.sets, 50),
		SetP99:    quantile(g.sets, 99),
		CountsP99: quantile(g.counts, 99),
	}
}

func quantile(h *hdrhistogram.Histogram, percent float64) time.Duration {
	return time.Duration(h.ValueAtQuantile(percent)) * time.Microsecond
}
