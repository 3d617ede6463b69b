package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/build"
	"github.com/shardsched/shardsched/coordinator/store"
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
	x.Load(&store.Objects{
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
		"shardsched_requeries_total 1",
	}
	got := gathered(t, r, "scheduler_cache_size", "scheduler_pending_pods", "scheduler_schedule_attempts_total",
		"scheduler_scheduling_algorithm_duration_seconds", "shardsched_batch_pods", "shardsched_bound_pods_total",
		"shardsched_bind_failures_total", "shardsched_requeries_total", "shardsched_journal_lag_entries")
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("metrics (-want +got):\n%s", d)
	}
}
