package observe

import (
	"cmp"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/shardsched/shardsched/coordinator/metrics"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// PluginUses tells what plugins did and took, and extenders. expressions are those of a plugin of a profile.
func (m *Meters) PluginUses(expressions func(profile, plugin string) []string) *pb.ListPluginsResponse {
	out := &pb.ListPluginsResponse{Plugins: m.pluginLatencies(), Extenders: m.extenderUses()}
	for name, p := range m.profiles {
		for at, e := range p.evaluations {
			plugin := scorer.PluginName(at.plugin)
			out.Uses = append(out.Uses, &pb.PluginUse{
				Profile: name, Plugin: plugin, ExtensionPoint: scorer.ExtensionPointName(at.point),
				Calls: e.calls, Took: durationpb.New(e.took), RowsIn: e.in, RowsOut: e.out, Expressions: expressions(name, plugin),
			})
		}
	}
	slices.SortFunc(out.Uses, func(a, b *pb.PluginUse) int {
		return cmp.Or(cmp.Compare(b.Took.AsDuration(), a.Took.AsDuration()), cmp.Compare(a.Profile, b.Profile),
			cmp.Compare(a.Plugin, b.Plugin), cmp.Compare(a.ExtensionPoint, b.ExtensionPoint))
	})
	return out
}

// extenderUses lists the extenders that were asked, by what it took.
func (m *Meters) extenderUses() (out []*pb.ExtenderUse) {
	m.set.Each("shardsched_extender_call_duration_seconds", func(labels []string, d metrics.Distribution) {
		var failed dto.Metric
		_ = m.set.Counter("shardsched_extender_errors_total", labels...).Write(&failed) // a counter can be written
		if failures := failed.GetCounter().GetValue(); d.Count > 0 || failures > 0 {
			out = append(out, &pb.ExtenderUse{Extender: labels[0], Verb: labels[1], Latency: quantiles(d), Failures: uint64(failures)})
		}
	})
	slices.SortFunc(out, func(a, b *pb.ExtenderUse) int {
		return cmp.Or(cmp.Compare(b.Latency.Total.AsDuration(), a.Latency.Total.AsDuration()), cmp.Compare(a.Extender, b.Extender),
			cmp.Compare(a.Verb, b.Verb))
	})
	return out
}

// stages are those of an attempt, in their order, each with its metric and the first label of its series (empty: all).
var stages = [...]struct{ name, metric, label string }{
	{"compile: the pod's terms become a class", "shardsched_compile_seconds", ""},
	{"filter", "scheduler_framework_extension_point_duration_seconds", "Filter"},
	{"score", "scheduler_framework_extension_point_duration_seconds", "Score"},
	{"decide: a pod's share of its batch", "scheduler_scheduling_algorithm_duration_seconds", ""},
	{"pre-bind", "scheduler_framework_extension_point_duration_seconds", "PreBind"},
	{"bind", "scheduler_framework_extension_point_duration_seconds", "Bind"},
	{"attempt, to its bind", "scheduler_scheduling_attempt_duration_seconds", resultScheduled},
	{"first attempt to bind", "scheduler_pod_scheduling_sli_duration_seconds", ""},
	{"turn of the loop", "shardsched_loop_turn_seconds", ""},
}

// stages tells what the stages of an attempt took that were measured.
func (m *Meters) stages() (out []*pb.StageLatency) {
	for _, s := range stages {
		var all metrics.Distribution
		m.set.Each(s.metric, func(labels []string, d metrics.Distribution) {
			if s.label == "" || labels[0] == s.label {
				all.Add(d)
			}
		})
		if all.Count > 0 {
			out = append(out, &pb.StageLatency{Stage: s.name, Metric: s.metric, Latency: quantiles(all)})
		}
	}
	return out
}

func quantiles(d metrics.Distribution) *pb.Quantiles {
	seconds := func(s float64) *durationpb.Duration { return durationpb.New(time.Duration(s * float64(time.Second))) }
	return &pb.Quantiles{Count: d.Count, Total: seconds(d.Sum), P50: seconds(d.Quantile(0.5)), P99: seconds(d.Quantile(0.99))}
}
