package kube

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Kinds of writes.
const (
	kindBind     = "bind"
	kindStatus   = "status"
	kindVolume   = "volume"
	kindClaim    = "claim"
	kindEvent    = "event"
	kindEviction = "eviction"
)

// writeMetrics count what is sent to the API server.
type writeMetrics struct {
	writes        *prometheus.CounterVec
	duration      *prometheus.HistogramVec
	statusPending prometheus.Gauge
	eventsPending prometheus.Gauge
	eventsDropped prometheus.Counter
}

// newWriteMetrics registers them; nil: nowhere.
func newWriteMetrics(r prometheus.Registerer) *writeMetrics {
	m := &writeMetrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "shardsched_api_writes_total",
			Help: "Requests that write to the API server, each try by itself, by what is written and what came of it: ok, refused, " +
				"throttled (429), open (no answer, or one that leaves the outcome open), unsent, deposed.",
		}, []string{"kind", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "shardsched_api_write_duration_seconds",
			Help:    "From sending a request that writes to its answer, without the wait for the rate limit.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}, []string{"kind"}),
		statusPending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "shardsched_status_pending",
			Help: "Pods whose condition or nominated node is not written yet.",
		}),
		eventsPending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "shardsched_events_pending",
			Help: "Events that are not written yet.",
		}),
		eventsDropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "shardsched_events_dropped_total",
			Help: "Events that were given up: too many waited, the API server refused them, or could not be reached.",
		}),
	}
	if r != nil {
		r.MustRegister(m.writes, m.duration, m.statusPending, m.eventsPending, m.eventsDropped)
	}
	return m
}

// wrote counts one try.
func (m *writeMetrics) wrote(kind string, v verdict, d time.Duration) {
	m.writes.WithLabelValues(kind, v.String()).Inc()
	m.duration.WithLabelValues(kind).Observe(d.Seconds())
}
