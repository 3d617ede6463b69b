package coordinator

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardsched/shardsched/coordinator/metrics"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/scorer"
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
	compiled, rejected, broken             *metrics.Histogram // PreFilter
	preBind, preBindError, bind, bindError *metrics.Histogram
	preBindPlugin, preBindPluginError      *metrics.Histogram
	bindPlugin, bindPluginError            *metrics.Histogram
	evaluations                            map[pluginAt]prometheus.Counter
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
func (m *meters) of(profile string) *profileMeters {
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
		compiled: point("PreFilter", statusSuccess), rejected: point("PreFilter", statusUnresolved), broken: point("PreFilter", statusError),
		filter: point("Filter", statusSuccess), score: point("Score", statusSuccess),
		preBind: point("PreBind", statusSuccess), preBindError: point("PreBind", statusError),
		bind: point("Bind", statusSuccess), bindError: point("Bind", statusError),
		preBindPlugin: plugin(rules.VolumeBinding, "PreBind", statusSuccess), preBindPluginError: plugin(rules.VolumeBinding, "PreBind", statusError),
		bindPlugin: plugin(rules.DefaultBinder, "Bind", statusSuccess), bindPluginError: plugin(rules.DefaultBinder, "Bind", statusError),
		evaluations: map[pluginAt]prometheus.Counter{},
	}
}

// evaluated counts the rows that a plugin looked at.
func (p *profileMeters) evaluated(at pluginAt, rows int) {
	c := p.evaluations[at]
	if c == nil {
		c = p.set.Counter("scheduler_plugin_evaluation_total", scorer.PluginName(at.plugin), scorer.ExtensionPointName(at.point), p.name)
		p.evaluations[at] = c
	}
	c.Add(float64(rows))
}

// prepared counts what it took to compile a batch: to all of its pods the same.
func (m *meters) prepared(attempts []attempt, d time.Duration) {
	if len(attempts) == 0 {
		return
	}
	each := d.Seconds() / float64(len(attempts))
	var same *metrics.Histogram // of n attempts so far
	n := 0
	for i := range attempts {
		a := &attempts[i]
		p := m.of(a.pod.Obj.Spec.SchedulerName)
		h := p.compiled
		switch {
		case a.failed != nil:
			h = p.broken
		case a.class.Rejected != nil:
			h = p.rejected
		}
		if h != same && same != nil {
			same.ObserveN(each, n)
			n = 0
		}
		same = h
		n++
	}
	same.ObserveN(each, n)
}

// refusedAttempt counts an attempt that has found no node.
func (m *meters) refusedAttempt(profile string, failed bool, d time.Duration) {
	p := m.of(profile)
	if failed {
		p.errors.count(d)
		return
	}
	p.unschedulable.count(d)
}

// binds counts what PreBind and Bind of a placement took, unless its plugins have told that themselves.
func (m *meters) binds(job *bindJob, err error) {
	p := m.of(job.binding.Pod.Spec.SchedulerName)
	preBind, preBindPlugin, bind, bindPlugin := p.preBind, p.preBindPlugin, p.bind, p.bindPlugin
	if err != nil {
		bind, bindPlugin = p.bindError, p.bindPluginError
		if job.bind == 0 {
			preBind, preBindPlugin = p.preBindError, p.preBindPluginError
			m.bindErrors.Inc()
		}
	}
	if job.cycle != nil {
		return
	}
	if job.preBind > 0 {
		preBind.Seconds(job.preBind)
		preBindPlugin.Seconds(job.preBind)
	}
	if job.bind > 0 {
		bind.Seconds(job.bind)
		bindPlugin.Seconds(job.bind)
	}
}

// bound counts an attempt that has put its pod on a node; queueNow is by the queue's clock.
func (m *meters) bound(job *bindJob, now, queueNow time.Time) {
	m.boundPods.Inc()
	m.of(job.binding.Pod.Spec.SchedulerName).scheduled.count(now.Sub(job.popped))
	m.attempts.Observe(float64(job.pod.Attempts))
	if !job.pod.FirstAttempt.IsZero() {
		m.sliOf(job.pod.Attempts).Seconds(max(queueNow.Round(0).Sub(job.pod.FirstAttempt), 0))
	}
	if job.pod.Flushed {
		m.afterFlush.Inc()
	}
}

func (m *meters) sliOf(attempts int) *metrics.Histogram {
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

// notBound counts an attempt whose bind has failed.
func (m *meters) notBound(job *bindJob, now time.Time) {
	m.bindFailures.Inc()
	m.of(job.binding.Pod.Spec.SchedulerName).errors.count(now.Sub(job.popped))
}
