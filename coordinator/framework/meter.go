package framework

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardsched/shardsched/coordinator/metrics"
)

// Meter takes what is measured. Any goroutine calls it. Points and statuses are upstream's labels.
type Meter interface {
	// Point is how long all plugins of a point took.
	Point(profile, point, status string, took time.Duration)
	// Plugin is how long one took.
	Plugin(plugin, point, status string, took time.Duration)
	// Evaluated counts a call of a plugin: of PreFilter, Filter, PreScore and Score.
	Evaluated(profile, plugin, point string)
	// Waited is how long a pod waited on Permit.
	Waited(result string, took time.Duration)
}

// NewMeter serves upstream's metrics.
func NewMeter(s *metrics.Set) Meter { return &meter{set: s} }

type meter struct {
	set *metrics.Set
	// histograms and counters are by series.
	histograms, counters sync.Map
}

// series names one: the metric's name and up to three labels.
type series struct{ metric, a, b, c string }

// Point is part of Meter.
func (m *meter) Point(profile, point, status string, took time.Duration) {
	m.histogram(series{"scheduler_framework_extension_point_duration_seconds", point, status, profile}, 3).Seconds(took)
}

// Plugin is part of Meter.
func (m *meter) Plugin(plugin, point, status string, took time.Duration) {
	m.histogram(series{"scheduler_plugin_execution_duration_seconds", plugin, point, status}, 3).Seconds(took)
}

// Waited is part of Meter.
func (m *meter) Waited(result string, took time.Duration) {
	m.histogram(series{metric: "scheduler_permit_wait_duration_seconds", a: result}, 1).Seconds(took)
}

// Evaluated is part of Meter.
func (m *meter) Evaluated(profile, plugin, point string) {
	key := series{"scheduler_plugin_evaluation_total", plugin, point, profile}
	c, ok := m.counters.Load(key)
	if !ok {
		c, _ = m.counters.LoadOrStore(key, m.set.Counter(key.metric, plugin, point, profile))
	}
	c.(prometheus.Counter).Inc()
}

func (m *meter) histogram(key series, labels int) *metrics.Histogram {
	h, ok := m.histograms.Load(key)
	if !ok {
		h, _ = m.histograms.LoadOrStore(key, m.set.Histogram(key.metric, []string{key.a, key.b, key.c}[:labels]...))
	}
	return h.(*metrics.Histogram)
}

// noMeter measures nothing.
type noMeter struct{}

func (noMeter) Point(_, _, _ string, _ time.Duration)  {}
func (noMeter) Plugin(_, _, _ string, _ time.Duration) {}
func (noMeter) Evaluated(_, _, _ string)               {}
func (noMeter) Waited(_ string, _ time.Duration)       {}
