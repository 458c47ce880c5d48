package traffic

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Figures are what the traffic amounts to so far.
type Figures struct {
	Acknowledged, Failed, Unknown int64
	SetP50, SetP99, CountsP99     time.Duration
}

// meter measures. Its methods may be called concurrently.
type meter struct {
	mu                            sync.Mutex
	acknowledged, failed, unknown int64                   // guarded by mu
	sets, counts                  *hdrhistogram.Histogram // in microseconds; guarded by mu
}

// highestLatency is longer than any operation's deadline.
const highestLatency = time.Minute

func newMeter() *meter {
	return &meter{sets: newHistogram(), counts: newHistogram()}
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, highestLatency.Microseconds(), 3)
}

// set measures one finished Set. The latency of an acknowledged Set runs from
// the first attempt to the reply, retries included.
func (m *meter) set(op Op) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch op.Outcome {
	case OK:
		m.acknowledged++
		record(m.sets, op.End-op.Start)
	case Failed:
		m.failed++
	case Unknown:
		m.unknown++
	}
}

func (m *meter) count(took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	record(m.counts, took)
}

// record clamps to what the histogram can hold, so that it never refuses.
func record(h *hdrhistogram.Histogram, took time.Duration) {
	_ = h.RecordValue(min(took, highestLatency).Microseconds())
}

func (m *meter) figures() Figures {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Figures{
		Acknowledged: m.acknowledged, Failed: m.failed, Unknown: m.unknown,
		SetP50:    quantile(m.sets, 50),
		SetP99:    quantile(m.sets, 99),
		CountsP99: quantile(m.counts, 99),
	}
}

func quantile(h *hdrhistogram.Histogram, percent float64) time.Duration {
	return time.Duration(h.ValueAtQuantile(percent)) * time.Microsecond
}
