package worker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/grpc/status"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/scan"
)

// metrics are the worker's, all named shardsched_worker_….
type metrics struct {
	requests        *prometheus.CounterVec
	duration        *prometheus.HistogramVec
	plugins         *prometheus.HistogramVec
	cacheBytes      prometheus.Gauge
	shards          prometheus.Gauge
	classes         prometheus.Gauge
	evictions       *prometheus.CounterVec
	snapshots       prometheus.Counter
	deltas          prometheus.Counter
	needs           *prometheus.CounterVec
	rows            prometheus.Counter
	term            *prometheus.GaugeVec
	termsRefused    prometheus.Counter
	panics          prometheus.Counter
	pluginObservers map[passName]prometheus.Observer
}

// passName is what tells the series of plugin durations apart.
type passName struct {
	plugin pb.Plugin
	point  pb.ExtensionPoint
}

// newMetrics makes the metrics and registers them with r unless it is nil.
func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	m := &metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "shardsched_worker_requests_total", Help: "Requests answered, by method and gRPC code.",
		}, []string{"method", "code"}),
		duration: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "shardsched_worker_request_duration_seconds", Help: "Time from a request's arrival to its answer, by method.",
			Buckets: prometheus.ExponentialBuckets(0.00005, 2, 18),
		}, []string{"method"}),
		plugins: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "shardsched_worker_plugin_duration_seconds", Help: "Time of one plugin for one class over the shards of a request.",
			Buckets: prometheus.ExponentialBuckets(0.000001, 2, 20),
		}, []string{"plugin", "extension_point"}),
		cacheBytes: f.NewGauge(prometheus.GaugeOpts{
			Name: "shardsched_worker_cache_bytes", Help: "Memory of the shards held, estimated.",
		}),
		shards: f.NewGauge(prometheus.GaugeOpts{
			Name: "shardsched_worker_shards", Help: "Shards held.",
		}),
		classes: f.NewGauge(prometheus.GaugeOpts{
			Name: "shardsched_worker_classes", Help: "Compiled classes held.",
		}),
		evictions: f.NewCounterVec(prometheus.CounterOpts{
			Name: "shardsched_worker_evictions_total", Help: "Entries that made room for others, by cache.",
		}, []string{"cache"}),
		snapshots: f.NewCounter(prometheus.CounterOpts{
			Name: "shardsched_worker_snapshots_loaded_total", Help: "Snapshots of shards loaded.",
		}),
		deltas: f.NewCounter(prometheus.CounterOpts{
			Name: "shardsched_worker_deltas_applied_total", Help: "Deltas applied to shards.",
		}),
		needs: f.NewCounterVec(prometheus.CounterOpts{
			Name: "shardsched_worker_needs_total", Help: "Shards and classes that a request named and the worker lacked, by kind.",
		}, []string{"kind"}),
		rows: f.NewCounter(prometheus.CounterOpts{
			Name: "shardsched_worker_rows_evaluated_total", Help: "Rows looked at, once for each class.",
		}),
		term: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "shardsched_worker_term", Help: "Newest term that has led, by cluster.",
		}, []string{"cluster"}),
		termsRefused: f.NewCounter(prometheus.CounterOpts{
			Name: "shardsched_worker_terms_refused_total", Help: "Requests refused because their term does not lead.",
		}),
		panics: f.NewCounter(prometheus.CounterOpts{
			Name: "shardsched_worker_panics_total", Help: "Classes that could not be evaluated, for a bug that their queries met.",
		}),
	}
	m.pluginObservers = m.observers()
	return m
}

// observers looks every plugin's series up once, so that no request does.
func (m *metrics) observers() map[passName]prometheus.Observer {
	out := make(map[passName]prometheus.Observer)
	for p := range pb.Plugin_name {
		for x := range pb.ExtensionPoint_name {
			name := passName{plugin: pb.Plugin(p), point: pb.ExtensionPoint(x)}
			if p == 0 || x == 0 {
				continue
			}
			out[name] = m.plugins.WithLabelValues(pluginLabel(name.plugin), pointLabel(name.point))
		}
	}
	return out
}

// request notes that a request was answered.
func (m *metrics) request(method string, err error, took time.Duration) {
	m.requests.WithLabelValues(method, status.Code(err).String()).Inc()
	m.duration.WithLabelValues(method).Observe(took.Seconds())
}

// answer notes what one class took.
func (m *metrics) answer(a *scan.Answer) {
	m.rows.Add(float64(a.Result.Rows))
	for _, p := range a.Passes {
		if o := m.pluginObservers[passName{plugin: p.Plugin, point: p.Point}]; o != nil {
			o.Observe(p.Took.Seconds())
		}
	}
}

// Labels carry upstream's names.
func pluginLabel(p pb.Plugin) string        { return scorer.PluginName(p) }
func pointLabel(x pb.ExtensionPoint) string { return scorer.ExtensionPointName(x) }
