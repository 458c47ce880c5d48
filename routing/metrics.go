package routing

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Reasons for which a message, or an entry of one, is dropped.
const (
	dropInboxFull  = "inbox_full"
	dropUnreadable = "unreadable"
	dropRosterFull = "roster_full"
)

type metrics struct {
	nodes         *prometheus.GaugeVec
	epoch         prometheus.Gauge
	epochHeard    prometheus.Gauge
	conflicts     prometheus.Gauge
	dissent       prometheus.Gauge
	seedsMissing  prometheus.Gauge
	dropped       *prometheus.CounterVec
	readsFailed   prometheus.Counter
	addrConflicts prometheus.Counter
}

func newMetrics() *metrics {
	return &metrics{
		nodes: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "likewise_routing_nodes",
			Help: "Nodes in this node's map, by state. Many dead or few ready: nodes are down, or this node is cut off.",
		}, []string{"state"}),
		epoch: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "likewise_routing_topology_epoch",
			Help: "Epoch of the topology that this node goes by. Lower than elsewhere: this node sends writes to old homes.",
		}),
		epochHeard: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "likewise_routing_topology_epoch_heard",
			Help: "Highest topology epoch heard. Above likewise_routing_topology_epoch for long: the topology cannot be read.",
		}),
		conflicts: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "likewise_routing_name_conflicts",
			Help: "Names under which more than one live process is seen. Above 0 for more than a minute: two nodes have one name.",
		}),
		dissent: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "likewise_routing_topology_conflicts",
			Help: "Live nodes that go by another topology of the same epoch. Any: they use another database.",
		}),
		seedsMissing: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "likewise_routing_seeds_missing",
			Help: "Configured seeds that are not among the live members. Above 0 for long: they are down or cut off, or have another key.",
		}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "likewise_routing_dropped_messages_total",
			Help: "Gossip dropped, by reason; push/pull repairs it. Many inbox_full: this node is overloaded. Many unreadable: " +
				"nodes of versions that do not fit. Any roster_full: more nodes than a map can hold.",
		}, []string{"reason"}),
		readsFailed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "likewise_routing_topology_read_failures_total",
			Help: "Reads of the topology that failed or were not as new as what was heard. Many: the database is not reached.",
		}),
		addrConflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "likewise_routing_identity_conflicts_total",
			Help: "Claims of one name and incarnation from two addresses. Any: incarnations are not drawn from one database.",
		}),
	}
}

// register registers all metrics. A nil registerer is allowed.
func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.nodes, m.epoch, m.epochHeard, m.conflicts, m.dissent, m.seedsMissing, m.dropped, m.readsFailed, m.addrConflicts,
	} {
		errs = append(errs, r.Register(c))
	}
	return errors.Join(errs...)
}

// observe sets the gauges to what the node knows.
func (m *metrics) observe(known *members, snapshot *Map) {
	counts := map[State]int{Joining: 0, Ready: 0, Leaving: 0, Dead: 0}
	for _, n := range snapshot.Nodes() {
		counts[n.State]++
	}
	for state, n := range counts {
		m.nodes.WithLabelValues(state.String()).Set(float64(n))
	}
	m.epoch.Set(float64(known.topology.Epoch))
	m.epochHeard.Set(float64(known.epoch))
	m.conflicts.Set(float64(len(known.conflicts())))
	_, disagree, _ := known.dissent()
	m.dissent.Set(float64(disagree.all))
}
