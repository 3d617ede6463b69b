package coordinator

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/metrics"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/scan"
)

// meters are the series that the loop writes to, each looked up once. They belong to the
// loop; profile_meters.go has those of a profile, queue_meter.go those of the queue.
type meters struct {
	set      *metrics.Set
	profiles map[string]*profileMeters
	last     *profileMeters // the profile asked for last
	queue    *queueMeter

	algorithm, attempts, batchPods   *metrics.Histogram
	turns, compiles                  *metrics.Histogram
	sli                              [maxAttemptsLabel + 1]*metrics.Histogram
	events                           [queue.Kinds]*metrics.Histogram
	plugins                          map[pluginAt]*metrics.Histogram
	nodes, pods, assumed, journalLag prometheus.Gauge
	goroutines                       prometheus.Gauge
	afterFlush, decided, boundPods   prometheus.Counter
	bindFailures, requeries, pinned  prometheus.Counter
	unsettled                        prometheus.Counter
	repaired                         prometheus.Counter
	work                             answers.Work // that the counters know of
	assumeErrors, bindErrors         prometheus.Counter

	preemptionAttempts, dryRuns, dryRunRows prometheus.Counter
	preemptionVictims                       *metrics.Histogram
	framework                               framework.Meter
}

// pluginAt is a plugin at an extension point.
type pluginAt struct {
	plugin pb.Plugin
	point  pb.ExtensionPoint
}

// newMeters registers everything; r may be nil.
func newMeters(r prometheus.Registerer) *meters {
	set := metrics.NewSet(r)
	return &meters{
		set:       set,
		framework: framework.NewMeter(set),
		profiles:  map[string]*profileMeters{},
		queue:     newQueueMeter(set),
		plugins:   map[pluginAt]*metrics.Histogram{},
		algorithm: set.Histogram("scheduler_scheduling_algorithm_duration_seconds"),
		attempts:  set.Histogram("scheduler_pod_scheduling_attempts"),
		batchPods: set.Histogram("shardsched_batch_pods"),
		turns:     set.Histogram("shardsched_loop_turn_seconds"),
		compiles:  set.Histogram("shardsched_compile_seconds"),

		nodes:      set.Gauge("scheduler_cache_size", "nodes"),
		pods:       set.Gauge("scheduler_cache_size", "pods"),
		assumed:    set.Gauge("scheduler_cache_size", "assumed_pods"),
		journalLag: set.Gauge("shardsched_journal_lag_entries"),
		goroutines: set.Gauge("scheduler_goroutines", "binding"),

		afterFlush:   set.Counter("scheduler_pod_scheduled_after_flush_total"),
		decided:      set.Counter("shardsched_decided_pods_total"),
		boundPods:    set.Counter("shardsched_bound_pods_total"),
		bindFailures: set.Counter("shardsched_bind_failures_total"),
		requeries:    set.Counter("shardsched_requeries_total"),
		pinned:       set.Counter("shardsched_pinned_classes_total"),
		unsettled:    set.Counter("shardsched_unsettled_answers_total"),
		repaired:     set.Counter("shardsched_repaired_rows_total"),
		assumeErrors: set.Counter("scheduler_volume_scheduling_stage_error_total", "assume"),
		bindErrors:   set.Counter("scheduler_volume_scheduling_stage_error_total", "bind"),

		preemptionAttempts: set.Counter("scheduler_preemption_attempts_total"),
		preemptionVictims:  set.Histogram("scheduler_preemption_victims"),
		dryRuns:            set.Counter("shardsched_preemption_dry_runs_total"),
		dryRunRows:         set.Counter("shardsched_preemption_rows_total"),
	}
}

// quarantined is how many objects of a kind are in quarantine.
func (m *meters) quarantined(kind objects.Kind) prometheus.Gauge {
	return m.set.Gauge("shardsched_quarantined_objects", string(kind))
}

// panics counts the bugs that pods met.
func (m *meters) panics(where string) prometheus.Counter {
	return m.set.Counter("shardsched_panics_total", where)
}

// evicted counts a preemption that was carried out, or failed.
//
// Differs from upstream: the result is told, and what it took; there it is always a success that
// took no time.
func (m *meters) evicted(err error, d time.Duration) {
	result := "success"
	if err != nil {
		result = "error"
	}
	m.set.Histogram("scheduler_preemption_goroutines_duration_seconds", result).Seconds(d)
	m.set.Counter("scheduler_preemption_goroutines_execution_total", result).Inc()
}

// batch counts a batch and what it took.
//
// Differs from upstream: an attempt's share is the same for all pods of the batch.
func (m *meters) batch(pods int, d time.Duration) {
	if pods == 0 {
		return
	}
	m.batchPods.Observe(float64(pods))
	m.algorithm.ObserveN(d.Seconds()/float64(pods), pods)
}

// engine takes in what the decision engine has done by now.
func (m *meters) engine(work answers.Work) {
	m.repaired.Add(float64(work.Repaired - m.work.Repaired))
	m.pinned.Add(float64(work.Pinned - m.work.Pinned))
	m.work = work
}

// asking is whom a request to the workers is for.
type asking struct {
	profile *profileMeters
	// pods is how many attempts wait for the answer; 0: it does not count as their filtering
	// and scoring.
	pods int
}

// passed counts what the plugins did for one request.
//
// Differs from upstream: a call of a plugin is a pass over the rows for a class, and
// each is timed; upstream times the calls of one attempt in ten, node by node.
func (m *meters) passed(a asking, passes []scan.Pass) {
	var filter, score time.Duration
	for i := range passes {
		p := &passes[i]
		m.plugin(pluginAt{p.Plugin, p.Point}).Seconds(p.Took)
		a.profile.evaluated(pluginAt{p.Plugin, p.Point}, int(p.RowsIn))
		if p.Point == pb.ExtensionPoint_EXTENSION_POINT_FILTER {
			filter += p.Took
		} else {
			score += p.Took
		}
	}
	if a.pods > 0 {
		a.profile.filter.ObserveN(filter.Seconds()/float64(a.pods), a.pods)
	}
	// Where nothing fits nothing is scored.
	if a.pods > 0 && (score > 0 || len(passes) == 0) {
		a.profile.score.ObserveN(score.Seconds()/float64(a.pods), a.pods)
	}
}

// held counts an attempt that an earlier attempt's answer serves.
func (m *meters) held(profile string) {
	p := m.of(profile)
	p.filter.Observe(0)
	p.score.Observe(0)
}

func (m *meters) plugin(at pluginAt) *metrics.Histogram {
	h := m.plugins[at]
	if h == nil {
		h = m.set.Histogram("scheduler_plugin_execution_duration_seconds",
			scorer.PluginName(at.plugin), scorer.ExtensionPointName(at.point), statusSuccess)
		m.plugins[at] = h
	}
	return h
}

// event counts the handling of an event.
func (m *meters) event(k queue.Kind, d time.Duration) {
	h := m.events[k]
	if h == nil {
		h = m.set.Histogram("scheduler_event_handling_duration_seconds", k.String())
		m.events[k] = h
	}
	h.Seconds(d)
}

// sizes reads what only the loop may read.
func (m *meters) sizes(q *queue.Queue, c *cache.Cache, binding, journalLag int) {
	m.queue.sizes(q)
	pods, assumed := c.Pods()
	m.nodes.Set(float64(c.Nodes()))
	m.pods.Set(float64(pods))
	m.assumed.Set(float64(assumed))
	m.goroutines.Set(float64(binding))
	m.journalLag.Set(float64(journalLag))
}
