package coordinator

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// metrics are upstream's, with their names, labels and buckets, and ours.
type metrics struct {
	scheduleAttempts *prometheus.CounterVec
	algorithm        prometheus.Histogram
	pluginDuration   *prometheus.HistogramVec
	pendingPods      *prometheus.GaugeVec
	incomingPods     *prometheus.CounterVec
	cacheSize        *prometheus.GaugeVec
	boundPods        prometheus.Counter
	bindFailures     prometheus.Counter
	requeries        prometheus.Counter
	batchPods        prometheus.Histogram
	journalLag       prometheus.Gauge
}

// newMetrics registers them; nil: nowhere.
func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		scheduleAttempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scheduler_schedule_attempts_total",
			Help: "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, while 'error' means an internal scheduler problem.",
		}, []string{"result", "profile"}),
		algorithm: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "scheduler_scheduling_algorithm_duration_seconds",
			Help:    "Scheduling algorithm latency in seconds: a batch's time divided by its pods.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}),
		pluginDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "scheduler_plugin_execution_duration_seconds",
			Help:    "Duration for running a plugin at a specific extension point, a pass over the rows of one worker for one class.",
			Buckets: prometheus.ExponentialBuckets(0.00001, 1.5, 20),
		}, []string{"plugin", "extension_point", "status"}),
		pendingPods: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "scheduler_pending_pods",
			Help: "Number of pending pods, by the queue type.",
		}, []string{"queue"}),
		incomingPods: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scheduler_queue_incoming_pods_total",
			Help: "Number of pods added to scheduling queues by event and queue type.",
		}, []string{"queue", "event"}),
		cacheSize: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "scheduler_cache_size",
			Help: "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
		}, []string{"type"}),
		boundPods: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "shardsched_bound_pods_total",
			Help: "Pods whose bind was committed.",
		}),
		bindFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "shardsched_bind_failures_total",
			Help: "Binds that were refused and taken back.",
		}),
		requeries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "shardsched_requeries_total",
			Help: "Classes asked again within a batch: their candidates ran out, or the reasons were wanted.",
		}),
		batchPods: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "shardsched_batch_pods",
			Help:    "Pods decided in one batch.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 12),
		}),
		journalLag: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "shardsched_journal_lag_entries",
			Help: "Queue entries that are not written to etcd yet.",
		}),
	}
	if r != nil {
		r.MustRegister(m.scheduleAttempts, m.algorithm, m.pluginDuration, m.pendingPods, m.incomingPods, m.cacheSize,
			m.boundPods, m.bindFailures, m.requeries, m.batchPods, m.journalLag)
	}
	return m
}

// plugin counts one call of a plugin.
//
// Differs from upstream: a call is a pass over all rows of a worker, and each is timed;
// upstream times the calls of one attempt in ten, node by node.
func (m *metrics) plugin(plugin, point string, d time.Duration) {
	m.pluginDuration.WithLabelValues(plugin, point, "Success").Observe(d.Seconds())
}

func (m *metrics) incoming(place queue.Place, event string) {
	m.incomingPods.WithLabelValues(place.String(), event).Inc()
}

func (m *metrics) batch(pods int, d time.Duration) {
	if pods == 0 {
		return
	}
	m.batchPods.Observe(float64(pods))
	each := d.Seconds() / float64(pods)
	for range pods {
		m.algorithm.Observe(each)
	}
}

// decision counts an attempt under upstream's results.
func (m *metrics) decision(d *pb.Decision, failed bool) {
	result := "scheduled"
	switch {
	case failed:
		result = "error"
	case d.Node == "":
		result = "unschedulable"
	}
	m.scheduleAttempts.WithLabelValues(result, d.Profile).Inc()
}

// sizes reads the queue and the cache.
func (m *metrics) sizes(q *queue.Queue, c *cache.Cache, journalLag int) {
	for place, n := range q.Lens() {
		m.pendingPods.WithLabelValues(place).Set(float64(n))
	}
	pods, assumed := c.Pods()
	m.cacheSize.WithLabelValues("nodes").Set(float64(c.Nodes()))
	m.cacheSize.WithLabelValues("pods").Set(float64(pods))
	m.cacheSize.WithLabelValues("assumed_pods").Set(float64(assumed))
	m.journalLag.Set(float64(journalLag))
}
