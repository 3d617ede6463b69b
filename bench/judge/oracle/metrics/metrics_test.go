package metrics

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
	volumes "k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding/metrics"
	upstream "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/shardsched/shardsched/bench/judge/oracle"
	ours "github.com/shardsched/shardsched/coordinator/metrics"
)

// absent are upstream's metrics that are not served: each is of something that does not take
// place here.
var absent = []string{
	"scheduler_batch_attempts_total", "scheduler_batch_cache_flushed_total",
	"scheduler_get_node_hint_duration_seconds", "scheduler_store_schedule_results_duration_seconds",
}

// touch makes a series of each of upstream's metrics: without one it is not served. Those
// with labels that are not touched here are told of by another test's failure.
func touch(t *testing.T) {
	t.Helper()
	restore, err := oracle.PodGroups(oracle.Gates{})
	if err != nil {
		t.Fatal(err)
	}
	upstream.Register()
	restore()
	upstream.PodGroupScheduled("p", 1)
	upstream.PodGroupSchedulingAlgorithmLatency.Observe(1)
	upstream.PodScheduled("p", 1)
	upstream.ActivePods().Set(1)
	upstream.UnschedulableReason("NodeName", "p").Set(1)
	upstream.InFlightEvents.WithLabelValues("NodeAdd").Set(1)
	upstream.Goroutines.WithLabelValues("binding").Set(1)
	upstream.EventHandlingLatency.WithLabelValues("NodeAdd").Observe(1)
	upstream.PodSchedulingSLIDuration.WithLabelValues("1").Observe(1)
	upstream.FrameworkExtensionPointDuration.WithLabelValues("Filter", "Success", "p").Observe(1)
	upstream.PluginExecutionDuration.WithLabelValues("NodeName", "Filter", "Success").Observe(1)
	upstream.PluginEvaluationTotal.WithLabelValues("NodeName", "Filter", "p").Inc()
	upstream.SchedulerQueueIncomingPods.WithLabelValues("active", "NodeAdd").Inc()
	upstream.PermitWaitDuration.WithLabelValues("Success").Observe(1)
	upstream.CacheSize.WithLabelValues("nodes").Set(1)
	upstream.BatchAttemptStats.WithLabelValues("p", "no_hint").Inc()
	upstream.BatchCacheFlushed.WithLabelValues("p", "expired").Inc()
	upstream.GetNodeHintDuration.WithLabelValues("hint", "p").Observe(1)
	upstream.StoreScheduleResultsDuration.WithLabelValues("p").Observe(1)
	upstream.PreemptionGoroutinesDuration.WithLabelValues("success").Observe(1)
	upstream.PreemptionGoroutinesExecutionTotal.WithLabelValues("success").Inc()
	upstream.ResourceClaimCreatesTotal.WithLabelValues("success").Inc()
	upstream.DRABindingConditionsAllocationsTotal.WithLabelValues("p", "d", "success").Inc()
	upstream.DRABindingConditionsPreBindDuration.WithLabelValues("p", "d", "success").Observe(1)
	volumes.VolumeBindingRequestSchedulerBinderCache.WithLabelValues("add").Inc()
	volumes.VolumeSchedulingStageFailed.WithLabelValues("bind").Inc()
	recorder := upstream.NewMetricsAsyncRecorder(1, 0, make(chan struct{}))
	recorder.ObserveQueueingHintDurationAsync("NodeName", "NodeAdd", "Queue", 1)
	recorder.FlushMetrics()
}

// definition is what two metrics of one name have to have in common.
type definition struct {
	Kind    ours.Kind
	Help    string
	Labels  []string // sorted
	Buckets []float64
}

func TestOursAreUpstreams(t *testing.T) {
	touch(t)
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]definition{}
	for _, f := range families {
		name := f.GetName()
		if strings.HasPrefix(name, "scheduler_") && !slices.Contains(absent, name) {
			want[name] = read(f)
		}
	}
	got := map[string]definition{}
	for _, d := range ours.Upstream() {
		got[d.Name] = definition{d.Kind, d.Help, slices.Sorted(slices.Values(d.Labels)), d.Buckets}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("metrics (-upstream +ours):\n%s", d)
	}
}

func read(f *dto.MetricFamily) definition {
	m := f.GetMetric()[0]
	_, help, _ := strings.Cut(f.GetHelp(), "] ") // [STABLE]
	d := definition{Help: help}
	for _, l := range m.GetLabel() {
		d.Labels = append(d.Labels, l.GetName())
	}
	slices.Sort(d.Labels)
	switch f.GetType() {
	case dto.MetricType_GAUGE:
		d.Kind = ours.Gauge
	case dto.MetricType_HISTOGRAM:
		d.Kind = ours.HistogramKind
		for _, b := range m.GetHistogram().GetBucket() {
			if !math.IsInf(b.GetUpperBound(), 1) {
				d.Buckets = append(d.Buckets, b.GetUpperBound())
			}
		}
	}
	return d
}

// What is listed as absent exists: the list is of upstream's 1.36.
func TestTheAbsentOnesAreUpstreams(t *testing.T) {
	touch(t)
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range absent {
		if !slices.ContainsFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == name }) {
			t.Errorf("%s is not a metric of upstream's", name)
		}
	}
}
