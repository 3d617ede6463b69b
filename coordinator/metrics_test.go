package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// gathered words the counters and gauges of the given families, without those at 0.
func gathered(t *testing.T, r *prometheus.Registry, names ...string) []string {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		if !slices.Contains(names, f.GetName()) {
			continue
		}
		for _, m := range f.GetMetric() {
			if v := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount()); v != 0 {
				out = append(out, fmt.Sprintf("%s%s %v", f.GetName(), labelsOf(m), v))
			}
		}
	}
	return out
}

// counter is the value of one of a scheduler's counters.
func (s *Scheduler) counter(name string, labels ...string) float64 {
	return testutil.ToFloat64(s.metrics.Set().Counter(name, labels...))
}

func labelsOf(m *dto.Metric) string {
	var list []string
	for _, l := range m.GetLabel() {
		list = append(list, l.GetName()+"="+l.GetValue())
	}
	if len(list) == 0 {
		return ""
	}
	return "{" + strings.Join(list, ",") + "}"
}

func TestMetricsOfAScheduler(t *testing.T) {
	r := prometheus.NewRegistry()
	x := newTrial(t, SchedulerConfig{Shards: 2, Registerer: r}, 0)
	defer x.fanout.Close()
	x.Load(&objects.Snapshot{
		Nodes: []*v1.Node{build.Node("a").CPU("4").Obj(), build.Node("b").CPU("4").Obj()},
		Pods: []*v1.Pod{
			build.Pod("fits").CPU("1").Obj(), build.Pod("fits-too").CPU("1").Obj(),
			build.Pod("huge").CPU("100").Obj(),
			unreadable("wrong"),
			build.Pod("held").Gate("wait").Obj(),
			build.Pod("there").CPU("1").Node("a").Obj(),
		},
	}, nil)
	x.turn(t)
	x.rest()
	want := []string{
		"scheduler_cache_size{type=nodes} 2",
		"scheduler_cache_size{type=pods} 3",
		"scheduler_pending_pods{queue=backoff} 1",
		"scheduler_pending_pods{queue=gated} 1",
		"scheduler_pending_pods{queue=unschedulable} 1",
		"scheduler_schedule_attempts_total{profile=default-scheduler,result=error} 1",
		"scheduler_schedule_attempts_total{profile=default-scheduler,result=scheduled} 2",
		"scheduler_schedule_attempts_total{profile=default-scheduler,result=unschedulable} 1",
		"scheduler_scheduling_algorithm_duration_seconds 4",
		"shardsched_batch_pods 1",
		"shardsched_bound_pods_total 2",
		"shardsched_decided_pods_total 4",
		"shardsched_requeries_total 1",
	}
	got := gathered(t, r, "scheduler_cache_size", "scheduler_pending_pods", "scheduler_schedule_attempts_total",
		"scheduler_scheduling_algorithm_duration_seconds", "shardsched_batch_pods", "shardsched_bound_pods_total",
		"shardsched_bind_failures_total", "shardsched_decided_pods_total", "shardsched_requeries_total", "shardsched_journal_lag_entries")
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("metrics (-want +got):\n%s", d)
	}
}

// What an attempt adds to the metrics that dashboards are made of, from its pod's arrival to
// its end.
func TestMetricsOfAttempts(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	runScenarioWith(t, func(cfg *SchedulerConfig) { cfg.Registerer = r }, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
		release := x.binder.hold()
		p := cores("p", "3")
		x.deliver(objects.Added, p)
		elapse(2 * time.Second)
		release(always(objects.ErrConflict))
		elapse(3 * time.Second)
		x.confirm(p, "n")
		x.deliver(objects.Added, cores("q", "2"))
		elapse(10 * time.Minute) // flushed once, and again
		x.deliver(objects.Deleted, p)
		elapse(time.Minute)
		// The one that is unschedulable is counted until it is tried again.
		x.deliver(objects.Added, cores("huge", "5"))
		if got := gathered(t, r, "scheduler_unschedulable_pods"); len(got) != 1 || got[0] != "scheduler_unschedulable_pods{plugin=NodeResourcesFit,profile=default-scheduler} 1" {
			t.Errorf("got %q, want one pod for NodeResourcesFit", got)
		}
		x.deliver(objects.Deleted, cores("huge", "5"))
	})
	got := gathered(t, r, "scheduler_schedule_attempts_total", "scheduler_scheduling_attempt_duration_seconds",
		"scheduler_pod_scheduling_sli_duration_seconds", "scheduler_pod_scheduling_attempts", "scheduler_event_handling_duration_seconds",
		"scheduler_unschedulable_pods", "scheduler_queueing_hint_execution_duration_seconds", "scheduler_pod_scheduled_after_flush_total",
		"shardsched_decided_pods_total", "shardsched_bound_pods_total", "shardsched_bind_failures_total")
	want := []string{
		"scheduler_event_handling_duration_seconds{event=AssignedPodAdd} 1",
		"scheduler_event_handling_duration_seconds{event=AssignedPodDelete} 1",
		"scheduler_event_handling_duration_seconds{event=UnschedulablePodAdd} 3",
		"scheduler_event_handling_duration_seconds{event=UnschedulablePodDelete} 1",
		"scheduler_pod_scheduling_attempts 2",
		"scheduler_pod_scheduling_sli_duration_seconds{attempts=2} 1",
		"scheduler_pod_scheduling_sli_duration_seconds{attempts=3} 1",
		"scheduler_queueing_hint_execution_duration_seconds{event=AssignedPodDelete,hint=Queue,plugin=NodeResourcesFit} 1",
		"scheduler_schedule_attempts_total{profile=default-scheduler,result=error} 1",
		"scheduler_schedule_attempts_total{profile=default-scheduler,result=scheduled} 2",
		"scheduler_schedule_attempts_total{profile=default-scheduler,result=unschedulable} 3",
		"scheduler_scheduling_attempt_duration_seconds{profile=default-scheduler,result=error} 1",
		"scheduler_scheduling_attempt_duration_seconds{profile=default-scheduler,result=scheduled} 2",
		"scheduler_scheduling_attempt_duration_seconds{profile=default-scheduler,result=unschedulable} 3",
		"shardsched_bind_failures_total 1",
		"shardsched_bound_pods_total 2",
		"shardsched_decided_pods_total 6",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("metrics (-want +got):\n%s", d)
	}
}
