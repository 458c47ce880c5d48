package regions

import (
	"errors"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
)

// metrics of the front door. Labels are procedures, codes and fixed words: never
// ids of users or videos.
type metrics struct {
	latency    *prometheus.HistogramVec
	calls      *prometheus.CounterVec
	panics     prometheus.Counter
	hops       *prometheus.CounterVec
	counts     *prometheus.CounterVec
	countLoads *prometheus.CounterVec
	refreshes  prometheus.Counter
	countsAge  prometheus.Histogram
	saturated  prometheus.Counter
	batchItems *prometheus.CounterVec
	keyLoads   *prometheus.CounterVec
}

// latencyBuckets reach from a count out of the cache to a write across an ocean.
func latencyBuckets() []float64 {
	return []float64{.0001, .0003, .001, .002, .004, .008, .015, .03, .06, .1, .2, .5, 1, 2, 5}
}

func newMetrics() *metrics {
	return &metrics{
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "likewise_regions_call_seconds",
			Help:    "Time to answer a call, forwarding included. High: the database or the way to the home region is slow.",
			Buckets: latencyBuckets(),
		}, []string{"procedure"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "likewise_regions_calls_total",
			Help: "Calls answered, by code. A high share of unavailable or internal: users see errors.",
		}, []string{"procedure", "code"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "likewise_regions_panics_total",
			Help: "Calls that panicked. Any is a bug; the log has the stack.",
		}),
		hops: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "likewise_regions_forwarded_total",
			Help: "Calls sent to another node, by outcome: served, refused, elsewhere (surely not served there) or unknown. High unknown: a node hangs.",
		}, []string{"call", "outcome"}),
		counts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "likewise_regions_counts_total",
			Help: "Counts answered: hit, miss (waited for a load), stale (loads fail) or error. High miss: the cache is too small.",
		}, []string{"answer"}),
		countLoads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "likewise_regions_count_loads_total",
			Help: "Loads of counts from the database, by outcome. High error: counts are getting old.",
		}, []string{"outcome"}),
		refreshes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "likewise_regions_count_refreshes_total",
			Help: "Loads that began behind the back of a caller. High is normal: many videos are watched.",
		}),
		countsAge: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "likewise_regions_counts_age_seconds",
			Help:    "Age of the counts answered, by the database's clock. High: loads are slow or fail.",
			Buckets: []float64{.01, .05, .1, .2, .3, .5, 1, 2, 5, 10, 30, 60},
		}),
		saturated: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "likewise_regions_counts_saturated_total",
			Help: "Counts answered as 2^63-1 because the shards add up to more. Any: a counter shard is broken; verify the video.",
		}),
		batchItems: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "likewise_regions_batch_items_total",
			Help: "Items of batches answered, by code. A high share of unavailable: callers see holes in their batches.",
		}, []string{"procedure", "code"}),
		keyLoads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "likewise_regions_key_loads_total",
			Help: "Loads of the keys that sign tokens, from a file or a URL, by outcome. High error: new keys of the issuer are not known here, and withdrawn ones still count.",
		}, []string{"source", "outcome"}),
	}
}

// register adds the metrics, and two that are read when they are scraped.
func (m *metrics) register(reg prometheus.Registerer, table routes, health *peerHealth) error {
	if reg == nil {
		return nil
	}
	epoch := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "likewise_regions_map_epoch",
		Help: "Epoch of the topology that this node routes by. Lower than another node's for long: it does not hear the others.",
	}, func() float64 { return float64(table.Map().Topology().Epoch) })
	avoided := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "likewise_regions_peers_avoided",
		Help: "Nodes that are not called because they did not answer. High for long: they are down, or the network is cut.",
	}, func() float64 { return float64(health.count()) })

	var errs []error
	for _, c := range []prometheus.Collector{
		m.latency, m.calls, m.panics, m.hops, m.counts, m.countLoads, m.refreshes, m.countsAge, m.saturated,
		m.batchItems, m.keyLoads, epoch, avoided,
	} {
		errs = append(errs, reg.Register(c))
	}
	return errors.Join(errs...)
}

// codeOf names the code of a call's end.
func codeOf(err error) string {
	if err == nil {
		return "ok"
	}
	return connect.CodeOf(err).String()
}
