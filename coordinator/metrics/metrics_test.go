package metrics_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/shardsched/shardsched/coordinator/metrics"
)

// What is served under upstream's names is what dashboards and alerts rest on.
func TestUpstreamsNames(t *testing.T) {
	var got []string
	for _, d := range metrics.Upstream() {
		got = append(got, d.Name+"{"+strings.Join(d.Labels, ",")+"}")
	}
	want := []string{
		"scheduler_schedule_attempts_total{result,profile}",
		"scheduler_scheduling_attempt_duration_seconds{result,profile}",
		"scheduler_scheduling_algorithm_duration_seconds{}",
		"scheduler_preemption_victims{}",
		"scheduler_preemption_attempts_total{}",
		"scheduler_preemption_goroutines_duration_seconds{result}",
		"scheduler_preemption_goroutines_execution_total{result}",
		"scheduler_pending_pods{queue}",
		"scheduler_inflight_events{event}",
		"scheduler_goroutines{operation}",
		"scheduler_event_handling_duration_seconds{event}",
		"scheduler_pod_scheduling_sli_duration_seconds{attempts}",
		"scheduler_pod_scheduling_attempts{}",
		"scheduler_pod_scheduled_after_flush_total{}",
		"scheduler_framework_extension_point_duration_seconds{extension_point,status,profile}",
		"scheduler_plugin_execution_duration_seconds{plugin,extension_point,status}",
		"scheduler_plugin_evaluation_total{plugin,extension_point,profile}",
		"scheduler_queueing_hint_execution_duration_seconds{plugin,event,hint}",
		"scheduler_queue_incoming_pods_total{queue,event}",
		"scheduler_permit_wait_duration_seconds{result}",
		"scheduler_cache_size{type}",
		"scheduler_unschedulable_pods{plugin,profile}",
		"scheduler_podgroup_schedule_attempts_total{result,profile}",
		"scheduler_podgroup_scheduling_attempt_duration_seconds{result,profile}",
		"scheduler_podgroup_scheduling_algorithm_duration_seconds{}",
		"scheduler_volume_binder_cache_requests_total{operation}",
		"scheduler_volume_scheduling_stage_error_total{operation}",
		"scheduler_resourceclaim_creates_total{status}",
		"scheduler_dra_bindingconditions_allocations_total{profile,driver,status}",
		"scheduler_dra_bindingconditions_wait_duration_seconds{profile,driver,status}",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("upstream's metrics (-want +got):\n%s", d)
	}
}

func TestOwnNamesAreMarked(t *testing.T) {
	for _, d := range metrics.Own() {
		if !strings.HasPrefix(d.Name, "shardsched_") || d.Help == "" {
			t.Errorf("got %q with help %q, want a name with shardsched_ and a help", d.Name, d.Help)
		}
	}
}

// A histogram is served as the client library would serve it.
func TestHistogramIsTheClientLibrarys(t *testing.T) {
	const name = "scheduler_scheduling_algorithm_duration_seconds"
	r := prometheus.NewPedanticRegistry()
	ours := metrics.NewSet(r).Histogram(name)
	var d metrics.Definition
	for _, x := range metrics.Upstream() {
		if x.Name == name {
			d = x
		}
	}
	theirs := prometheus.NewHistogram(prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: d.Buckets})
	for _, v := range []float64{0, 0.0005, 0.001, 0.0010001, 0.5, 16.384, 17, math.Inf(1)} {
		ours.ObserveN(v, 3)
		for range 3 {
			theirs.Observe(v)
		}
	}
	ours.ObserveN(1, 0)
	var text strings.Builder
	other := prometheus.NewPedanticRegistry()
	other.MustRegister(theirs)
	families, err := other.Gather()
	if err != nil {
		t.Fatal(err)
	}
	mine, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range mine {
		if f.GetName() != name {
			continue
		}
		want := families[0].GetMetric()[0].GetHistogram()
		got := f.GetMetric()[0].GetHistogram()
		want.CreatedTimestamp = nil
		got.CreatedTimestamp = nil
		if got.String() != want.String() || f.GetHelp() != families[0].GetHelp() {
			t.Errorf("got %v\nwant %v", got, want)
		}
		text.WriteString(f.GetName())
	}
	if text.String() != name || ours.Count() != 24 {
		t.Errorf("got %q with %d values, want %q with 24", text.String(), ours.Count(), name)
	}
}

func TestASeriesIsServedOnceItIsAskedFor(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	s := metrics.NewSet(r)
	count := func() int {
		n, err := testutil.GatherAndCount(r, "scheduler_permit_wait_duration_seconds", "scheduler_goroutines", "scheduler_preemption_attempts_total", "scheduler_preemption_victims")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if got := count(); got != 2 {
		t.Errorf("at first: got %d series, want the 2 without labels", got)
	}
	s.Histogram("scheduler_permit_wait_duration_seconds", "Success").Seconds(time.Second)
	s.Gauge("scheduler_goroutines", "binding").Set(1)
	if got := count(); got != 4 {
		t.Errorf("then: got %d series, want 4", got)
	}
	if s.Histogram("scheduler_permit_wait_duration_seconds", "Success").Count() != 1 {
		t.Error("a series was made twice")
	}
}

func BenchmarkObserve(b *testing.B) {
	h := metrics.NewSet(nil).Histogram("scheduler_pod_scheduling_sli_duration_seconds", "1")
	b.ReportAllocs()
	for b.Loop() {
		h.Observe(1.5)
	}
}
