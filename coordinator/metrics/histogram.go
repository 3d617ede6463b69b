package metrics

import (
	"math"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Histogram counts observations in buckets. Any goroutine may observe, and none waits for
// another.
type Histogram struct {
	desc   *prometheus.Desc
	labels []string
	upper  []float64
	counts []atomic.Uint64 // one more than upper, each for itself
	sum    atomic.Uint64   // float64 bits
}

func newHistogram(desc *prometheus.Desc, upper []float64, labels []string) *Histogram {
	return &Histogram{desc: desc, labels: labels, upper: upper, counts: make([]atomic.Uint64, len(upper)+1)}
}

// Observe counts one value.
func (h *Histogram) Observe(v float64) { h.ObserveN(v, 1) }

// Seconds counts a duration.
func (h *Histogram) Seconds(d time.Duration) { h.ObserveN(d.Seconds(), 1) }

// ObserveN counts a value n times.
func (h *Histogram) ObserveN(v float64, n int) {
	if n <= 0 {
		return
	}
	h.counts[sort.SearchFloat64s(h.upper, v)].Add(uint64(n))
	for {
		old := h.sum.Load()
		if h.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v*float64(n))) {
			return
		}
	}
}

// Count is how many values were observed.
func (h *Histogram) Count() uint64 {
	var n uint64
	for i := range h.counts {
		n += h.counts[i].Load()
	}
	return n
}

// Desc is part of prometheus.Metric.
func (h *Histogram) Desc() *prometheus.Desc { return h.desc }

// Write is part of prometheus.Metric.
func (h *Histogram) Write(m *dto.Metric) error {
	buckets := make(map[float64]uint64, len(h.upper))
	var n uint64
	for i, le := range h.upper {
		n += h.counts[i].Load()
		buckets[le] = n
	}
	n += h.counts[len(h.upper)].Load()
	c, err := prometheus.NewConstHistogram(h.desc, n, math.Float64frombits(h.sum.Load()), buckets, h.labels...)
	if err != nil {
		return err
	}
	return c.Write(m)
}

// HistogramVec is a histogram for each set of labels.
type HistogramVec struct {
	desc  *prometheus.Desc
	upper []float64

	mu sync.RWMutex
	of map[string]*Histogram
}

func newHistogramVec(d *Definition) *HistogramVec {
	return &HistogramVec{desc: prometheus.NewDesc(d.Name, d.Help, d.Labels, nil), upper: d.Buckets, of: map[string]*Histogram{}}
}

// With is the histogram of these labels, which stand in the order of the definition.
func (v *HistogramVec) With(labels ...string) *Histogram {
	key := strings.Join(labels, "\xff")
	v.mu.RLock()
	h := v.of[key]
	v.mu.RUnlock()
	if h != nil {
		return h
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if h = v.of[key]; h == nil {
		h = newHistogram(v.desc, v.upper, append([]string(nil), labels...))
		v.of[key] = h
	}
	return h
}

// Describe is part of prometheus.Collector.
func (v *HistogramVec) Describe(ch chan<- *prometheus.Desc) { ch <- v.desc }

// Collect is part of prometheus.Collector.
func (v *HistogramVec) Collect(ch chan<- prometheus.Metric) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, h := range v.of {
		ch <- h
	}
}

// Distribution is what a histogram has observed by now, or several of the same buckets.
type Distribution struct {
	Count uint64
	Sum   float64

	upper  []float64
	counts []uint64
}

// distribution reads the histogram.
func (h *Histogram) distribution() Distribution {
	d := Distribution{Sum: math.Float64frombits(h.sum.Load()), upper: h.upper, counts: make([]uint64, len(h.counts))}
	for i := range h.counts {
		d.counts[i] = h.counts[i].Load()
		d.Count += d.counts[i]
	}
	return d
}

// Add adds what another histogram of the same buckets has observed.
func (d *Distribution) Add(o Distribution) {
	if d.counts == nil {
		d.upper, d.counts = o.upper, make([]uint64, len(o.counts))
	}
	d.Count += o.Count
	d.Sum += o.Sum
	for i, n := range o.counts {
		d.counts[i] += n
	}
}

// Quantile estimates a quantile as histogram_quantile of Prometheus does: values are spread evenly over their bucket, and what is above the
// last bucket is as large as that. 0: nothing was observed.
func (d *Distribution) Quantile(q float64) float64 {
	rank, before, low := q*float64(d.Count), 0.0, 0.0
	for i, upper := range d.upper {
		n := float64(d.counts[i])
		if n > 0 && before+n >= rank {
			return low + (upper-low)*(rank-before)/n
		}
		before, low = before+n, upper
	}
	if d.Count == 0 {
		return 0
	}
	return low
}

// Each calls f for each series of a histogram, in no order.
func (s *Set) Each(name string, f func(labels []string, d Distribution)) {
	v := s.histograms[name]
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, h := range v.of {
		f(h.labels, h.distribution())
	}
}
