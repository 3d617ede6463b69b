package store

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// What a transaction is for: the label "operation".
const (
	opApply   = "apply"
	opDelete  = "delete"
	opBind    = "bind"
	opUpdate  = "update"
	opEvict   = "evict"
	opJournal = "journal"
	opHistory = "history"
)

// metrics counts transactions, not objects: a transaction carries up to a hundred.
type metrics struct {
	seconds    *prometheus.HistogramVec
	writes     *prometheus.CounterVec
	conflicts  *prometheus.CounterVec
	unanswered *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	label := []string{"operation"}
	m := &metrics{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "shardsched_etcd_txn_duration_seconds",
			Help:    "Time from sending an etcd transaction to its answer, by operation.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}, label),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "shardsched_etcd_writes_total",
			Help: "Objects, journal entries and parts of the history whose change etcd has committed, by operation.",
		}, label),
		conflicts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "shardsched_etcd_conflicts_total",
			Help: "Changes that etcd refused because another write came before, by operation.",
		}, label),
		unanswered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "shardsched_etcd_unanswered_txns_total",
			Help: "Transactions that etcd did not answer and that were sent again or given up, by operation.",
		}, label),
	}
	if r != nil {
		r.MustRegister(m.seconds, m.writes, m.conflicts, m.unanswered)
	}
	return m
}

func (m *metrics) observe(operation string, took time.Duration) {
	m.seconds.WithLabelValues(operation).Observe(took.Seconds())
}
