package storage

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	batchSize   prometheus.Histogram
	commit      prometheus.Histogram
	waiting     prometheus.Gauge
	sets        *prometheus.CounterVec
	failures    *prometheus.CounterVec
	lookUps     *prometheus.CounterVec
	negative    prometheus.Counter
	setChanged  prometheus.Counter
	setNoOp     prometheus.Counter
	setReplayed prometheus.Counter
	setRefused  prometheus.Counter
	setFailed   prometheus.Counter
	setUnknown  prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	f := promauto.With(registerer)
	m := &metrics{
		batchSize: f.NewHistogram(prometheus.HistogramOpts{
			Name: "likewise_storage_batch_sets", Buckets: prometheus.ExponentialBuckets(1, 2, 11),
			Help: "Sets per transaction. High means that commits are slow compared with what arrives, and that each one carries much.",
		}),
		commit: f.NewHistogram(prometheus.HistogramOpts{
			Name: "likewise_storage_commit_seconds", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
			Help: "Time of a transaction that committed, both round trips. High means a slow disk, a far database, or slots that other nodes lock.",
		}),
		waiting: f.NewGauge(prometheus.GaugeOpts{
			Name: "likewise_storage_waiting_sets",
			Help: "Sets that wait for a transaction. At its limit, further ones are refused.",
		}),
		sets: f.NewCounterVec(prometheus.CounterOpts{
			Name: "likewise_storage_sets_total",
			Help: "Sets by outcome. A high share of noop or replayed means clients that repeat themselves; unknown means a database that vanishes in mid-commit.",
		}, []string{"outcome"}),
		failures: f.NewCounterVec(prometheus.CounterOpts{
			Name: "likewise_storage_attempt_failures_total",
			Help: "Transactions that failed, by class: restart (conflicts), outage (database or lock not to be had), broken (a statement was refused), unknown (looked up).",
		}, []string{"class"}),
		lookUps: f.NewCounterVec(prometheus.CounterOpts{
			Name: "likewise_storage_lookups_total",
			Help: "Look-ups of unknown outcomes, by what they found.",
		}, []string{"found"}),
		negative: f.NewCounter(prometheus.CounterOpts{
			Name: "likewise_storage_refused_negatives_total",
			Help: "Transactions that the database refused because a count would have fallen below zero. Anything but 0 means that a count had drifted.",
		}),
	}
	m.setChanged = m.sets.WithLabelValues("changed")
	m.setNoOp = m.sets.WithLabelValues("noop")
	m.setReplayed = m.sets.WithLabelValues("replayed")
	m.setRefused = m.sets.WithLabelValues("refused")
	m.setFailed = m.sets.WithLabelValues("failed")
	m.setUnknown = m.sets.WithLabelValues("unknown")
	return m
}
