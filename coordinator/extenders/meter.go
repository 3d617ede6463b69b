package extenders

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/metrics"
)

// meter counts the calls of one extender.
type meter struct {
	took     [extender.Verbs]*metrics.Histogram
	failed   [extender.Verbs]prometheus.Counter
	inFlight [extender.Verbs]prometheus.Gauge
	// prioritizing is upstream's: the calls of all extenders.
	prioritizing prometheus.Gauge
}

var _ extender.Meter = (*meter)(nil)

func newMeter(set *metrics.Set, name string) *meter {
	m := &meter{prioritizing: set.Gauge("scheduler_goroutines", "prioritizing_extender")}
	for v := range extender.Verbs {
		m.took[v] = set.Histogram("shardsched_extender_call_duration_seconds", name, v.String())
		m.failed[v] = set.Counter("shardsched_extender_errors_total", name, v.String())
		m.inFlight[v] = set.Gauge("shardsched_extender_calls_in_flight", name, v.String())
	}
	return m
}

// Began is part of extender.Meter.
func (m *meter) Began(v extender.Verb) {
	m.inFlight[v].Inc()
	if v == extender.Prioritize {
		m.prioritizing.Inc()
	}
}

// Ended is part of extender.Meter.
func (m *meter) Ended(v extender.Verb, took time.Duration, err error) {
	m.inFlight[v].Dec()
	if v == extender.Prioritize {
		m.prioritizing.Dec()
	}
	m.took[v].Seconds(took)
	if err != nil {
		m.failed[v].Inc()
	}
}
