package observe

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/durationpb"

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

// Meters count what happens in the loop: in series, each looked up once, and for summaries. They belong to the loop;
// profile.go has the series of a profile, queue.go those of the queue.
type Meters struct {
	set      *metrics.Set
	tally    tally
	profiles map[string]*profileMeters
	last     *profileMeters // the profile asked for last
	queue    *queueMeter
	plugins  map[pluginAt]*pluginMeter
	requests []request
	refusals map[string]prometheus.Counter

	algorithm, attempts, batchPods   *metrics.Histogram
	turns, compiles                  *metrics.Histogram
	sli                              [maxAttemptsLabel + 1]*metrics.Histogram
	events                           [queue.Kinds]*metrics.Histogram
	nodes, pods, assumed, journalLag prometheus.Gauge
	goroutines                       prometheus.Gauge
	afterFlush, decided, boundPods   prometheus.Counter
	bindFailures, requeries, pinned  prometheus.Counter
	unsettled, unfinished            prometheus.Counter
	aheadTaken, aheadAgain           prometheus.Counter
	repaired                         prometheus.Counter
	work                             answers.Work // that the counters know of
	assumeErrors, bindErrors         prometheus.Counter
	progress                         progress

	preemptionAttempts, dryRuns, dryRunRows prometheus.Counter
	preemptionVictims                       *metrics.Histogram
	framework                               *pluginCalls
	podGroups                               podGroupMeter
}

// pluginAt is a plugin at an extension point.
type pluginAt struct {
	plugin pb.Plugin
	point  pb.ExtensionPoint
}

// pluginMeter measures what a plugin takes at an extension point, for metrics and for summaries.
type pluginMeter struct {
	series *metrics.Histogram
	*latency
}

// NewMeters registers everything; r may be nil.
func NewMeters(r prometheus.Registerer, term uint64) *Meters {
	set := metrics.NewSet(r)
	set.Gauge("shardsched_term").Set(float64(term))
	return &Meters{
		set:       set,
		framework: &pluginCalls{Meter: framework.NewMeter(set)},
		tally:     tally{submitToBound: newLatency()},
		profiles:  map[string]*profileMeters{},
		queue:     newQueueMeter(set),
		plugins:   map[pluginAt]*pluginMeter{},
		refusals:  newRefusals(set),
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
		unfinished:   set.Counter("shardsched_unfinished_searches_total"),
		aheadTaken:   set.Counter("shardsched_asked_ahead_total", "taken"),
		aheadAgain:   set.Counter("shardsched_asked_ahead_total", "again"),
		repaired:     set.Counter("shardsched_repaired_rows_total"),
		assumeErrors: set.Counter("scheduler_volume_scheduling_stage_error_total", "assume"),
		bindErrors:   set.Counter("scheduler_volume_scheduling_stage_error_total", "bind"),

		preemptionAttempts: set.Counter("scheduler_preemption_attempts_total"),
		preemptionVictims:  set.Histogram("scheduler_preemption_victims"),
		dryRuns:            set.Counter("shardsched_preemption_dry_runs_total"),
		dryRunRows:         set.Counter("shardsched_preemption_rows_total"),
	}
}

// Set has all series, for meters that others make.
func (m *Meters) Set() *metrics.Set { return m.set }

// Framework measures what plugins take.
func (m *Meters) Framework() framework.Meter { return m.framework }

// Queue is the queue's meter.
func (m *Meters) Queue() queue.Meter { return m.queue }

// Summary is the part of a summary that the meters know, after so many decisions.
func (m *Meters) Summary(now time.Time, decisions uint64) *pb.Summary {
	t := &m.tally
	deciding, working := t.deciding.read(now), t.working.read(now)
	return &pb.Summary{
		PodsPresent:      t.present,
		PodsBound:        t.bound,
		Decisions:        decisions,
		BindFailures:     t.bindFailures,
		PodsPreempted:    t.preempted,
		Deciding:         durationpb.New(deciding),
		Binding:          durationpb.New(working),
		DecidedPerSecond: perSecond(decisions, deciding),
		BoundPerSecond:   perSecond(t.bound, working),
		SubmitToBound:    t.submitToBound.quantiles(),
		Plugins:          m.pluginLatencies(),
		Requeries:        t.requeries,
		Progress:         m.progress.tell(),
		Stages:           m.stages(),
	}
}

// PodsBound is how many pods were bound.
func (m *Meters) PodsBound() uint64 { return m.tally.bound }

// Turn counts a turn of the loop.
func (m *Meters) Turn(took time.Duration) { m.turns.Seconds(took) }

// Begin is called when a batch is begun, and Rest when no pod can be decided now; binding says that binds are under way.
func (m *Meters) Begin(now time.Time) {
	m.tally.deciding.start(now)
	m.tally.working.start(now)
}

// Rest is described with Begin.
func (m *Meters) Rest(now time.Time, binding bool) {
	m.progress.rested = now
	m.tally.deciding.stop(now)
	if !binding {
		m.tally.working.stop(now)
	}
}

// Batch counts a batch and what it took.
//
// Differs from upstream: an attempt's share is the same for all pods of the batch.
func (m *Meters) Batch(pods int, d time.Duration, work answers.Work) {
	m.repaired.Add(float64(work.Repaired - m.work.Repaired))
	m.pinned.Add(float64(work.Pinned - m.work.Pinned))
	m.work = work
	if pods == 0 {
		return
	}
	m.batchPods.Observe(float64(pods))
	m.algorithm.ObserveN(d.Seconds()/float64(pods), pods)
}

// Event counts the handling of an event.
func (m *Meters) Event(k queue.Kind, d time.Duration) {
	h := m.events[k]
	if h == nil {
		h = m.set.Histogram("scheduler_event_handling_duration_seconds", k.String())
		m.events[k] = h
	}
	h.Seconds(d)
}

// PodPresent counts a pod that was on its node before this scheduler knew of it.
func (m *Meters) PodPresent() { m.tally.present++ }

// Quarantined counts objects of a kind that come into quarantine, or leave it: by is 1 or -1.
func (m *Meters) Quarantined(kind objects.Kind, by int) {
	m.set.Gauge("shardsched_quarantined_objects", string(kind)).Add(float64(by))
}

// Panicked counts a bug that was met.
func (m *Meters) Panicked(where string) { m.set.Counter("shardsched_panics_total", where).Inc() }

// Compiled counts what it took to prepare an attempt.
func (m *Meters) Compiled(took time.Duration) { m.compiles.Seconds(took) }

// request tells for which attempts a request to the workers is made.
type request struct {
	profile *profileMeters
	// pods is how many attempts wait for the answer; 0: the request does not count as filtering
	// and scoring.
	pods int
}

// Ask is called when a round to the workers begins, and then Request for each of its requests, in order: for how many attempts
// of a profile it is, or 0 where it does not count as their filtering and scoring.
func (m *Meters) Ask() { m.requests = m.requests[:0] }

// Request is described with Ask.
func (m *Meters) Request(profile string, pods int) {
	m.requests = append(m.requests, request{m.of(profile), pods})
}

// Passed counts what the plugins did for one request of the round.
//
// Differs from upstream: a call of a plugin is a pass over the rows for a class, and
// each is timed; upstream times the calls of one attempt in ten, node by node.
func (m *Meters) Passed(i int, passes []scan.Pass) {
	if i >= len(m.requests) {
		return
	}
	a := m.requests[i]
	var filter, score time.Duration
	for i := range passes {
		p := &passes[i]
		at := pluginAt{p.Plugin, p.Point}
		meter := m.plugin(at)
		meter.series.Seconds(p.Took)
		meter.record(p.Took)
		a.profile.evaluated(at, p)
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

func (m *Meters) plugin(at pluginAt) *pluginMeter {
	p := m.plugins[at]
	if p == nil {
		series := m.set.Histogram("scheduler_plugin_execution_duration_seconds",
			scorer.PluginName(at.plugin), scorer.ExtensionPointName(at.point), statusSuccess)
		p = &pluginMeter{series, newLatency()}
		m.plugins[at] = p
	}
	return p
}

// pluginLatencies lists the plugins by extension point, the costliest first.
func (m *Meters) pluginLatencies() []*pb.PluginLatency {
	out := m.framework.latencies()
	for k, p := range m.plugins {
		out = append(out, &pb.PluginLatency{Plugin: scorer.PluginName(k.plugin), ExtensionPoint: scorer.ExtensionPointName(k.point),
			Latency: p.quantiles()})
	}
	slices.SortFunc(out, func(a, b *pb.PluginLatency) int {
		return cmp.Or(cmp.Compare(a.ExtensionPoint, b.ExtensionPoint),
			cmp.Compare(b.Latency.Total.AsDuration(), a.Latency.Total.AsDuration()), cmp.Compare(a.Plugin, b.Plugin))
	})
	return out
}

// Held counts an attempt that an earlier attempt's answer serves.
func (m *Meters) Held(profile string) {
	p := m.of(profile)
	p.filter.Observe(0)
	p.score.Observe(0)
}

// Requeried counts an answer that had to be asked for again in the middle of a batch.
func (m *Meters) Requeried() {
	m.tally.requeries++
	m.requeries.Inc()
}

// Ahead counts classes that were asked ahead.
func (m *Meters) Ahead(taken, again int) {
	m.aheadTaken.Add(float64(taken))
	m.aheadAgain.Add(float64(again))
}

// Unsettled counts an answer of workers that can not be right.
func (m *Meters) Unsettled() { m.unsettled.Inc() }

// Unfinished counts an attempt whose devices are to be searched for in slices.
func (m *Meters) Unfinished() { m.unfinished.Inc() }

// Decided counts a decision.
func (m *Meters) Decided() { m.decided.Inc() }

// AssumeFailed counts a placement that ended before its bind.
func (m *Meters) AssumeFailed() { m.assumeErrors.Inc() }

// ClaimCreated counts a request to make a claim for extended resources.
func (m *Meters) ClaimCreated(ok bool) {
	status := "failure"
	if ok {
		status = "success"
	}
	m.set.Counter("scheduler_resourceclaim_creates_total", status).Inc()
}

// DevicesWaited counts a device that a pod's PreBind has waited for, and how it ended. conditioned: the device itself had to become
// ready.
func (m *Meters) DevicesWaited(profile, driver, status string, conditioned bool, took time.Duration) {
	if conditioned {
		m.set.Counter("scheduler_dra_bindingconditions_allocations_total", profile, driver, status).Inc()
	}
	m.set.Histogram("scheduler_dra_bindingconditions_wait_duration_seconds", profile, driver, status).Observe(took.Seconds())
}

// PreemptionsTried counts attempts for whose pods victims are looked for, DryRuns the dry runs, and DryRunRows the rows that
// these have tried.
func (m *Meters) PreemptionsTried() prometheus.Counter { return m.preemptionAttempts }

// DryRuns is described with PreemptionsTried.
func (m *Meters) DryRuns() prometheus.Counter { return m.dryRuns }

// DryRunRows is described with PreemptionsTried.
func (m *Meters) DryRunRows() prometheus.Counter { return m.dryRunRows }

// Victims counts the victims of a preemption, and Preempted those of them that are told to leave.
func (m *Meters) Victims(n int) { m.preemptionVictims.Observe(float64(n)) }

// Preempted is described with Victims.
func (m *Meters) Preempted(victims int) { m.tally.preempted += uint64(victims) }

// Evicted counts a preemption that was carried out, or failed.
//
// Differs from upstream: the result is told, and what it took; there it is always a success that
// took no time.
func (m *Meters) Evicted(err error, d time.Duration) {
	result := "success"
	if err != nil {
		result = "error"
	}
	m.set.Histogram("scheduler_preemption_goroutines_duration_seconds", result).Seconds(d)
	m.set.Counter("scheduler_preemption_goroutines_execution_total", result).Inc()
}

// Sizes reads what only the loop may read.
func (m *Meters) Sizes(q *queue.Queue, c *cache.Cache, binding, journalLag int) {
	m.queue.sizes(q)
	pods, assumed := c.Pods()
	m.nodes.Set(float64(c.Nodes()))
	m.pods.Set(float64(pods))
	m.assumed.Set(float64(assumed))
	m.goroutines.Set(float64(binding))
	m.journalLag.Set(float64(journalLag))
}
