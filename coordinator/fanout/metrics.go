package fanout

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are all named shardsched_fanout_….
type metrics struct {
	rounds      prometheus.Counter
	duration    prometheus.Histogram
	requests    *prometheus.CounterVec
	localShards prometheus.Counter
	hedges      prometheus.Counter
	snapshots   prometheus.Counter
	workers     prometheus.Gauge
}

// newMetrics makes the metrics and registers them with r unless it is nil.
func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	return &metrics{
		rounds: f.NewCounter(prometheus.CounterOpts{
			Name: "shardsched_fanout_rounds_total", Help: "Rounds to the workers and the coordinator's own tables.",
		}),
		duration: f.NewHistogram(prometheus.HistogramOpts{
			Name: "shardsched_fanout_evaluation_duration_seconds", Help: "Time from a question to the merged answer, second rounds included.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 18),
		}),
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "shardsched_fanout_requests_total", Help: "Attempts at workers, by outcome: answered, failed, late.",
		}, []string{"outcome"}),
		localShards: f.NewCounter(prometheus.CounterOpts{
			Name: "shardsched_fanout_local_shards_total", Help: "Shards evaluated on the coordinator's own tables, once a round.",
		}),
		hedges: f.NewCounter(prometheus.CounterOpts{
			Name: "shardsched_fanout_hedges_total", Help: "Times that a shard's next owners were asked because the first was slow.",
		}),
		snapshots: f.NewCounter(prometheus.CounterOpts{
			Name: "shardsched_fanout_snapshots_total", Help: "Snapshots that workers have taken.",
		}),
		workers: f.NewGauge(prometheus.GaugeOpts{
			Name: "shardsched_fanout_workers", Help: "Workers that are registered.",
		}),
	}
}
