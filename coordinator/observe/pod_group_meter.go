package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/metrics"
)

// Results of attempts to place a pod group, by upstream's names.
const (
	PodGroupScheduled     = "scheduled"
	PodGroupUnschedulable = "unschedulable"
	PodGroupPreempting    = "waiting_on_preemption"
	PodGroupError         = "error"
)

// podGroupMeter are the series of pod groups. They come where there are pod groups.
type podGroupMeter struct {
	states    [groups.States]prometheus.Gauge
	deficit   prometheus.Gauge
	algorithm *metrics.Histogram
}

// PodGroup counts an attempt to place a pod group, and what it took.
func (m *Meters) PodGroup(result, profile string, took time.Duration) {
	m.set.Counter("scheduler_podgroup_schedule_attempts_total", result, profile).Inc()
	m.set.Histogram("scheduler_podgroup_scheduling_attempt_duration_seconds", result, profile).Seconds(took)
	if m.podGroups.algorithm == nil {
		m.podGroups.algorithm = m.set.Histogram("scheduler_podgroup_scheduling_algorithm_duration_seconds")
	}
	m.podGroups.algorithm.Seconds(took)
}

// PodGroups reads how many pod groups are in each state; nil: there are none.
func (m *Meters) PodGroups(g *groups.Groups) {
	if g == nil {
		return
	}
	if m.podGroups.deficit == nil {
		m.podGroups.deficit = m.set.Gauge("shardsched_pod_group_deficit_pods")
		for i := range m.podGroups.states {
			m.podGroups.states[i] = m.set.Gauge("shardsched_pod_groups", groups.State(i).String())
		}
	}
	t := g.Tally()
	for i, n := range t.States {
		m.podGroups.states[i].Set(float64(n))
	}
	m.podGroups.deficit.Set(float64(t.Deficit))
}
