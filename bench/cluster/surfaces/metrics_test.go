package surfaces

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
)

// family is a metric as dashboards know it.
type family struct {
	kind   dto.MetricType
	labels []string // of all its series, sorted
}

// scrape asks a scheduler for metrics.
func scrape(t *testing.T, p *testbed.SchedulerProcess, path, token string) map[string]family {
	t.Helper()
	status, text, err := p.Get(t.Context(), path, token)
	if err != nil || status != 200 {
		t.Fatalf("%s of %s: got %d, %v", path, p.Name, status, err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	parsed, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%s of %s: %v", path, p.Name, err)
	}
	out := map[string]family{}
	for name, f := range parsed {
		got := family{kind: f.GetType()}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				got.labels = append(got.labels, l.GetName())
			}
		}
		slices.Sort(got.labels)
		got.labels = slices.Compact(got.labels)
		out[name] = got
	}
	return out
}

// notServed are upstream's metrics that we do not have, by what they begin with, and why:
// docs/metrics.md lists them.
var notServed = map[string]string{
	"scheduler_batch_":                         "opportunistic batching does not take place",
	"scheduler_get_node_hint_duration_seconds": "opportunistic batching does not take place",
	"scheduler_store_schedule_results_":        "opportunistic batching does not take place",
	"scheduler_preemption_goroutines_":         "preemption has no goroutines",
	"scheduler_resourceclaim_":                 "dynamic resources are not allocated",
	"scheduler_dra_":                           "dynamic resources are not allocated",
	"scheduler_async_api_call":                 "the gate is off by default",
	"scheduler_pending_async_api_calls":        "the gate is off by default",
	"scheduler_podgroup_":                      "the gate is off by default",
}

func left(name string) bool {
	for prefix := range notServed {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// metrics has all that upstream serves: the same names, kinds and labels.
func (r *rig) metrics(t *testing.T) {
	for _, path := range []string{"/metrics", "/metrics/resources", "/metrics/slis"} {
		theirs, ours := scrape(t, r.upstream, path, r.AdminToken()), scrape(t, r.ours, path, r.AdminToken())
		own := 0
		for name, want := range theirs {
			if left(name) {
				continue
			}
			if strings.HasPrefix(name, "scheduler_") {
				own++
			}
			got, ok := ours[name]
			if !ok {
				t.Errorf("%s: want %s with labels %v, got none", path, name, want.labels)
				continue
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %s: want kind and labels %v, got %v", path, name, want, got)
			}
		}
		// Were its endpoint empty, all would be well.
		if path == "/metrics" && own < 15 {
			t.Errorf("%s: upstream serves %d metrics of its own, want 15 and more", path, own)
		}
	}
	_, text, err := r.ours.Get(t.Context(), "/metrics", r.AdminToken())
	if want := `git_version="v1.36.3+shardsched.`; err != nil || !strings.Contains(text, want) {
		t.Errorf("kubernetes_build_info: want %s, %v", want, err)
	}
}
