package metrics

import "github.com/prometheus/client_golang/prometheus"

// Set holds a collector for each definition. Asking it for what is not defined is a bug, and
// panics.
type Set struct {
	counters   map[string]*prometheus.CounterVec
	gauges     map[string]*prometheus.GaugeVec
	histograms map[string]*HistogramVec
}

// NewSet makes the collectors and registers them; r may be nil.
func NewSet(r prometheus.Registerer) *Set {
	s := &Set{map[string]*prometheus.CounterVec{}, map[string]*prometheus.GaugeVec{}, map[string]*HistogramVec{}}
	for _, definitions := range [][]Definition{Upstream(), Own()} {
		for i := range definitions {
			c := s.add(&definitions[i])
			if r != nil {
				r.MustRegister(c)
			}
		}
	}
	return s
}

func (s *Set) add(d *Definition) prometheus.Collector {
	plain := len(d.Labels) == 0
	switch d.Kind {
	case Counter:
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)
		s.counters[d.Name] = v
		if plain {
			v.WithLabelValues()
		}
		return v
	case Gauge:
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.Name, Help: d.Help}, d.Labels)
		s.gauges[d.Name] = v
		if plain {
			v.WithLabelValues()
		}
		return v
	default:
		v := newHistogramVec(d)
		s.histograms[d.Name] = v
		if plain {
			v.With()
		}
		return v
	}
}

// Counter is one series.
func (s *Set) Counter(name string, labels ...string) prometheus.Counter {
	return s.counters[name].WithLabelValues(labels...)
}

// Gauge is one series.
func (s *Set) Gauge(name string, labels ...string) prometheus.Gauge {
	return s.gauges[name].WithLabelValues(labels...)
}

// Histogram is one series.
func (s *Set) Histogram(name string, labels ...string) *Histogram {
	return s.histograms[name].With(labels...)
}
