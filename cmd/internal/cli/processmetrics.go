package cli

import (
	"regexp"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/shardsched/shardsched/coordinator/leader"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/scorer/scan"
)

// newRegistry holds a process's metrics, those of Go and of the process among them.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	// The live heap against go_gc_gomemlimit_bytes tells how near the limit is: garbage may fill all that is between.
	live := collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)}
	r.MustRegister(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(live)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// The components that a process of ours may be.
const (
	componentCoordinator = "coordinator"
	componentWorker      = "worker"
	componentShadow      = "shadow"
)

// tellBuild registers which build a process is.
func tellBuild(r prometheus.Registerer, component string) {
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "shardsched_build_info",
		Help: "1, labeled by the component that the process is, its version, and the version of the rules that it computes by.",
		ConstLabels: prometheus.Labels{
			"component": component, "version": Version(), "rules": strconv.FormatUint(scan.Rules(), 16),
		},
	}, func() float64 { return 1 }))
}

// tellLead registers since when a coordinator leads, and for how long its loop has been in one turn.
func tellLead(r prometheus.Registerer, f *leader.Fence, h *observe.Heartbeat) {
	r.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "shardsched_leader_since_timestamp_seconds",
			Help: "When this process began to lead; 0: it does not lead.",
		}, func() float64 { return unixSeconds(f.Since()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "shardsched_loop_turn_age_seconds",
			Help: "For how long the turn of the scheduling loop that is under way has lasted, in whole seconds; 0: it rests, or its turns end.",
		}, func() float64 { return h.Age().Seconds() }),
	)
}

// unixSeconds is a moment as Prometheus has it; 0: there is none.
func unixSeconds(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.UnixMilli()) / 1000
}
