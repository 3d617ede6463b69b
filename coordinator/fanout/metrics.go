package fanout

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are all named shardsched_fanout_….
type metrics struct {
	rounds      prometheus.Counter
	duration    prometheus.Histogram
	requests    *prometheus.CounterVec
	localShards *prometheus.CounterVec
	hedges      prometheus.Counter
	snapshots   prometheus.Counter
	workers     prometheus.Gauge
	latency     *prometheus.HistogramVec
	lag         *prometheus.GaugeVec
	quarantines *prometheus.CounterVec
	quarantined prometheus.Gauge
	checks      *prometheus.CounterVec
}

// workerMetrics are those of one worker; nil: none.
type workerMetrics struct {
	latency prometheus.Observer
	lag     prometheus.Gauge
}

// of are a worker's, from now on.
func (m *metrics) of(worker string) *workerMetrics {
	return &workerMetrics{latency: m.latency.WithLabelValues(worker), lag: m.lag.WithLabelValues(worker)}
}

// drop forgets a worker that has left.
func (m *metrics) drop(worker string) {
	m.latency.DeleteLabelValues(worker)
	m.lag.DeleteLabelValues(worker)
}

func (w *workerMetrics) answered(took time.Duration) {
	if w != nil {
		w.latency.Observe(took.Seconds())
	}
}

func (w *workerMetrics) behind(generations uint64) {
	if w != nil {
		w.lag.Set(float64(generations))
	}
}

// newMetrics makes the metrics and registers them with r unless it is nil.
func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	return &metrics{
		rounds: f.NewCounter(prometheus.CounterOpts{
			Name: "shardsched_fanout_rounds_total", Help: "Rounds to the workers and the coordinator's own tables.",
		}),
		duration: f.NewHistogram(prometheus.HistogramOpts{
			Name: "shardsched_fanout_evaluation_duration_seconds", Help: "Time from a question to the merged answer, second rounds " +
				"included.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 18),
		}),
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "shardsched_fanout_requests_total", Help: "Attempts at workers, by outcome: answered, failed, late.",
		}, []string{"outcome"}),
		localShards: f.NewCounterVec(prometheus.CounterOpts{
			Name: "shardsched_fanout_local_shards_total", Help: "Shards evaluated on the coordinator's own tables, once a round, by why: " +
				"chosen, or missing where no worker has the shard or answered in time.",
		}, []string{"why"}),
		hedges: f.NewCounter(prometheus.CounterOpts{
			Name: "shardsched_fanout_hedges_total", Help: "Times that a shard's next owners were asked because the first was slow.",
		}),
		snapshots: f.NewCounter(prometheus.CounterOpts{
			Name: "shardsched_fanout_snapshots_total", Help: "Snapshots that workers have taken.",
		}),
		workers: f.NewGauge(prometheus.GaugeOpts{
			Name: "shardsched_fanout_workers", Help: "Workers that are registered.",
		}),
		latency: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "shardsched_fanout_request_duration_seconds", Help: "Time from a request to a worker to its answer.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 18),
		}, []string{"worker"}),
		lag: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "shardsched_fanout_generation_lag", Help: "By how many generations the worker's shards were behind when it was asked " +
				"last, the one that was most; without those that got a snapshot.",
		}, []string{"worker"}),
		quarantines: f.NewCounterVec(prometheus.CounterOpts{
			Name: "shardsched_fanout_quarantines_total", Help: "Workers that were put in quarantine, by cause: answer, term, errors, slow.",
		}, []string{"cause"}),
		quarantined: f.NewGauge(prometheus.GaugeOpts{
			Name: "shardsched_fanout_quarantined_workers", Help: "Registered workers that are not asked, for they were not to be relied " +
				"on.",
		}),
		checks: f.NewCounterVec(prometheus.CounterOpts{
			Name: "shardsched_fanout_checks_total", Help: "Answers of workers that were held against the coordinator's own tables, by " +
				"kind: measures, copies, refusal, audit, and compare where two owners do not agree.",
		}, []string{"kind"}),
	}
}
