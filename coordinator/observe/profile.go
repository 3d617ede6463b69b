package observe

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardsched/shardsched/coordinator/metrics"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/scan"
)

// Upstream's labels.
const (
	statusSuccess    = "Success"
	statusError      = "Error"
	statusUnresolved = "UnschedulableAndUnresolvable"

	resultScheduled     = "scheduled"
	resultUnschedulable = "unschedulable"
	resultError         = "error"
)

// maxAttemptsLabel is from which attempt on pods are counted together.
const maxAttemptsLabel = 15

// profileMeters are the series of one profile.
type profileMeters struct {
	set  *metrics.Set
	name string

	scheduled, unschedulable, errors       attemptMeters
	filter, score                          *metrics.Histogram
	prepared                               [Broken + 1]*metrics.Histogram // PreFilter
	preBind, preBindError, bind, bindError *metrics.Histogram
	preBindPlugin, preBindPluginError      *metrics.Histogram
	bindPlugin, bindPluginError            *metrics.Histogram
	evaluations                            map[pluginAt]*evaluation
}

// evaluation is what a plugin did at an extension point for the pods of a profile.
type evaluation struct {
	rows           prometheus.Counter // that it looked at
	calls, in, out uint64             // passes, and rows
	took           time.Duration
}

// attemptMeters count the attempts of one result.
type attemptMeters struct {
	total    prometheus.Counter
	duration *metrics.Histogram
}

func (a *attemptMeters) count(d time.Duration) {
	a.total.Inc()
	a.duration.Seconds(d)
}

// of are the series of a profile.
func (m *Meters) of(profile string) *profileMeters {
	if m.last != nil && m.last.name == profile {
		return m.last
	}
	p := m.profiles[profile]
	if p == nil {
		p = newProfileMeters(m.set, profile)
		m.profiles[profile] = p
	}
	m.last = p
	return p
}

func newProfileMeters(set *metrics.Set, name string) *profileMeters {
	attempts := func(result string) attemptMeters {
		return attemptMeters{
			total:    set.Counter("scheduler_schedule_attempts_total", result, name),
			duration: set.Histogram("scheduler_scheduling_attempt_duration_seconds", result, name),
		}
	}
	point := func(point, status string) *metrics.Histogram {
		return set.Histogram("scheduler_framework_extension_point_duration_seconds", point, status, name)
	}
	plugin := func(plugin, point, status string) *metrics.Histogram {
		return set.Histogram("scheduler_plugin_execution_duration_seconds", plugin, point, status)
	}
	return &profileMeters{
		set: set, name: name,
		scheduled: attempts(resultScheduled), unschedulable: attempts(resultUnschedulable), errors: attempts(resultError),
		prepared: [...]*metrics.Histogram{
			Compiled: point("PreFilter", statusSuccess), Rejected: point("PreFilter", statusUnresolved),
			Broken: point("PreFilter", statusError),
		},
		filter: point("Filter", statusSuccess), score: point("Score", statusSuccess),
		preBind: point("PreBind", statusSuccess), preBindError: point("PreBind", statusError),
		bind: point("Bind", statusSuccess), bindError: point("Bind", statusError),
		preBindPlugin:      plugin(rules.VolumeBinding, "PreBind", statusSuccess),
		preBindPluginError: plugin(rules.VolumeBinding, "PreBind", statusError),
		bindPlugin:         plugin(rules.DefaultBinder, "Bind", statusSuccess),
		bindPluginError:    plugin(rules.DefaultBinder, "Bind", statusError),
		evaluations:        map[pluginAt]*evaluation{},
	}
}

// evaluated counts a pass of a plugin.
func (p *profileMeters) evaluated(at pluginAt, pass *scan.Pass) {
	e := p.evaluations[at]
	if e == nil {
		e = &evaluation{rows: p.set.Counter("scheduler_plugin_evaluation_total", scorer.PluginName(at.plugin),
			scorer.ExtensionPointName(at.point), p.name)}
		p.evaluations[at] = e
	}
	e.rows.Add(float64(pass.RowsIn))
	e.calls++
	e.in += uint64(pass.RowsIn)
	e.out += uint64(pass.RowsOut)
	e.took += pass.Took
}

// Prepared is how the preparation of an attempt has ended.
type Prepared int

// An attempt has a class, its class refuses all nodes, or it has no class for an error.
const (
	Compiled Prepared = iota
	Rejected
	Broken
)

// Prepared counts what it took to compile a batch of so many attempts: to all of its pods the same. of is asked for the
// profile of each.
func (m *Meters) Prepared(attempts int, d time.Duration, of func(i int) (profile string, how Prepared)) {
	if attempts == 0 {
		return
	}
	each := d.Seconds() / float64(attempts)
	var same *metrics.Histogram // of n attempts so far
	n := 0
	for i := range attempts {
		profile, how := of(i)
		h := m.of(profile).prepared[how]
		if h != same && same != nil {
			same.ObserveN(each, n)
			n = 0
		}
		same = h
		n++
	}
	same.ObserveN(each, n)
}

// Unplaced counts an attempt that has found no node.
func (m *Meters) Unplaced(profile string, failed bool, d time.Duration) {
	p := m.of(profile)
	if failed {
		p.errors.count(d)
		return
	}
	p.unschedulable.count(d)
}

// BindEnded counts what PreBind and Bind of a placement took, 0 where they did not run. With outOfTree the
// plugins of the profile have counted that already.
func (m *Meters) BindEnded(profile string, preBound, bound time.Duration, outOfTree bool, err error) {
	p := m.of(profile)
	preBind, preBindPlugin, bind, bindPlugin := p.preBind, p.preBindPlugin, p.bind, p.bindPlugin
	if err != nil {
		bind, bindPlugin = p.bindError, p.bindPluginError
		if bound == 0 {
			preBind, preBindPlugin = p.preBindError, p.preBindPluginError
			m.bindErrors.Inc()
		}
	}
	if outOfTree {
		return
	}
	if preBound > 0 {
		preBind.Seconds(preBound)
		preBindPlugin.Seconds(preBound)
	}
	if bound > 0 {
		bind.Seconds(bound)
		bindPlugin.Seconds(bound)
	}
}

// Bound counts an attempt that has put its pod on a node, and took so long; queueNow is by the queue's clock.
func (m *Meters) Bound(profile string, p *queue.Pod, took time.Duration, queueNow time.Time) {
	m.tally.bound++
	m.boundPods.Inc()
	m.of(profile).scheduled.count(took)
	m.attempts.Observe(float64(p.Attempts))
	if !p.FirstAttempt.IsZero() {
		m.sliOf(p.Attempts).Seconds(max(queueNow.Round(0).Sub(p.FirstAttempt), 0))
	}
	if p.Flushed {
		m.afterFlush.Inc()
	}
}

// SubmittedToBound counts the time from when a pod was submitted until it was bound.
func (m *Meters) SubmittedToBound(d time.Duration) { m.tally.submitToBound.record(d) }

// NotBound counts an attempt whose bind has failed, and that took so long.
func (m *Meters) NotBound(profile string, took time.Duration) {
	m.tally.bindFailures++
	m.bindFailures.Inc()
	m.of(profile).errors.count(took)
}

func (m *Meters) sliOf(attempts int) *metrics.Histogram {
	i := min(max(attempts, 0), maxAttemptsLabel)
	if m.sli[i] == nil {
		label := strconv.Itoa(i)
		if i == maxAttemptsLabel {
			label += "+"
		}
		m.sli[i] = m.set.Histogram("scheduler_pod_scheduling_sli_duration_seconds", label)
	}
	return m.sli[i]
}
