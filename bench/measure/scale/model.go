package main

import (
	"fmt"
	"math"
)

// Model says how many pods a second a coordinator and its workers decide where each pod is a class of its own: the least of four
// bounds. Times are µs, of CPU but for Trip.
//
//	coordinator   one core, and Pod + Answer · workers for each pod
//	workers       each its share of a core, and Class + Row · its rows for each pod
//	round trip    two batches are under way, each for Trip and what both sides take for its pods
//	cores         those of the machine, without what others use, and all of the above
type Model struct {
	Pod    float64 `json:"podMicros"`
	Answer float64 `json:"answerMicros"`
	Class  float64 `json:"classMicros"`
	Row    float64 `json:"rowMicros"`
	Trip   float64 `json:"tripMicros"`
}

// Point is a measured number of workers and nodes, or one that nobody has measured.
type Point struct {
	Workers int     `json:"workers"`
	Nodes   int     `json:"nodes"`
	Rows    float64 `json:"rowsOfLargest"`
	// Share is what each worker has of a core. Cores are those that coordinator and workers have together, without those that
	// others kept busy; 0: each has its own.
	Share float64 `json:"shareOfCore"`
	Cores float64 `json:"cores"`
	// Batch is how many pods are asked for at once.
	Batch float64 `json:"podsPerBatch"`
	// PerSecond was measured, and CPU-µs a pod of the coordinator and of the worker with the most rows.
	PerSecond   float64 `json:"decidedPerSecond,omitempty"`
	Coordinator float64 `json:"coordinatorCPUMicros,omitempty"`
	Worker      float64 `json:"workerCPUMicros,omitempty"`
	// Model is what the model says, Bound by which of its bounds, and Error by how much that is more than measured, as a share of it.
	Model float64 `json:"model"`
	Bound string  `json:"bound"`
	Error float64 `json:"error,omitempty"`
}

const (
	pipelined = 2       // batches that are under way at once
	maxTrip   = 100_000 // µs
	stepTrip  = 50
	// leastCores is what is left on a machine on which nothing can be measured.
	leastCores = 0.1
)

// fitted is the model with the least squares of its relative errors: each side's costs go by its CPU time, and Trip, which no CPU
// time tells, by the rates.
func fitted(points []Point) (m Model) {
	at := func(x, y func(*Point) float64) (float64, float64) {
		var xs, ys []float64
		for i := range points {
			xs, ys = append(xs, x(&points[i])), append(ys, y(&points[i]))
		}
		return line(xs, ys)
	}
	m.Pod, m.Answer = at(func(p *Point) float64 { return float64(p.Workers) }, func(p *Point) float64 { return p.Coordinator })
	m.Class, m.Row = at(func(p *Point) float64 { return p.Rows }, func(p *Point) float64 { return p.Worker })
	best := math.Inf(1)
	for trip := 0.0; trip <= maxTrip; trip += stepTrip {
		try, squares := m, 0.0
		try.Trip = trip
		for _, p := range points {
			rate, _ := try.rate(&p)
			squares += math.Pow(rate/p.PerSecond-1, 2)
		}
		if squares < best {
			best, m.Trip = squares, trip
		}
	}
	return m
}

// line is y = a + b·x with the least squares of relative errors, of those in which neither is below 0.
func line(xs, ys []float64) (a, b float64) {
	// With w = 1/y it is w·a + w·x·b = 1.
	var ww, wx, xx, w, x float64
	for i := range xs {
		u := 1 / ys[i]
		v := xs[i] * u
		ww, wx, xx, w, x = ww+u*u, wx+u*v, xx+v*v, w+u, x+v
	}
	if det := ww*xx - wx*wx; det > 1e-9*ww*xx {
		a, b = (w*xx-x*wx)/det, (x*ww-w*wx)/det
	} else {
		b = -1 // all x are the same
	}
	switch {
	case b < 0:
		return w / ww, 0
	case a < 0:
		return 0, x / xx
	}
	return a, b
}

// rate is the model's, in pods a second, and the bound that it comes from.
func (m *Model) rate(p *Point) (perSecond float64, bound string) {
	coordinator := m.Pod + m.Answer*float64(p.Workers)
	worker := (m.Class + m.Row*p.Rows) / p.Share
	micros, bound := coordinator, "coordinator"
	for _, x := range []struct {
		micros float64
		name   string
	}{
		{worker, "workers"}, {(m.Trip/p.Batch + coordinator + worker) / pipelined, "round trip"}, {m.shared(p, coordinator), "cores"},
	} {
		if x.micros > micros {
			micros, bound = x.micros, x.name
		}
	}
	return 1e6 / micros, bound
}

// shared is what all take of a pod together, by the core.
func (m *Model) shared(p *Point, coordinator float64) float64 {
	if p.Cores == 0 {
		return 0
	}
	return (coordinator + m.Class*float64(p.Workers) + m.Row*float64(p.Nodes)) / p.Cores
}

// say fills in what the model says of a point.
func (m *Model) say(p *Point) {
	p.Model, p.Bound = m.rate(p)
	if p.PerSecond > 0 {
		p.Error = p.Model/p.PerSecond - 1
	}
}

// Fit is the model of what was measured, and what follows from it.
type Fit struct {
	Model       Model   `json:"model"`
	Measured    []Point `json:"measured"`
	Predictions []Point `json:"predictions"`
}

// newFit fits the model; nil: there are too few points.
func newFit(measured []Point) *Fit {
	if len(measured) < 2 {
		return nil
	}
	f := &Fit{Model: fitted(measured), Measured: measured}
	batch := median(measured, func(p Point) float64 { return p.Batch })
	for i := range f.Measured {
		f.Model.say(&f.Measured[i])
	}
	for _, nodes := range []int{200_000, 1_000_000} {
		for _, workers := range []int{16, 64, 256} {
			p := Point{Workers: workers, Nodes: nodes, Rows: float64(nodes) / float64(workers), Share: 1, Batch: batch}
			f.Model.say(&p)
			f.Predictions = append(f.Predictions, p)
		}
	}
	return f
}

// points are what was measured with each number of nodes and workers, medians of the runs that count, where all share so many cores;
// 0: each has its own.
func points(runs []Decide, cores float64) (out []Point) {
	for _, g := range situations(runs) {
		m := func(f func(Decide) float64) float64 { return median(g, f) }
		p := Point{
			Workers: g[0].Workers, Nodes: g[0].Nodes, Rows: float64(g[0].Rows), Share: g[0].Share, Batch: m(podsPerBatch),
			PerSecond: m(decidedPerSecond), Coordinator: m(func(d Decide) float64 { return d.CoordinatorMicros }),
			Worker: m(largestMicros),
		}
		if cores > 0 {
			p.Cores = max(cores-m(func(d Decide) float64 { return d.Others }), leastCores)
		}
		out = append(out, p)
	}
	return out
}

// about tells the model and its parameters.
func (f *Fit) about() string {
	if f == nil {
		return ""
	}
	m := f.Model
	return fmt.Sprintf("Model, fitted to the two tables above; CPU-µs a pod: coordinator %.1f + %.2f · workers, worker %.1f + %.5f "+
		"· rows; %.0f µs a round trip, %d batches under way.\nerror: model to measured; those without are of workers with a core each "+
		"that nobody has measured, rows in equal parts, %.0f pods a batch.",
		m.Pod, m.Answer, m.Class, m.Row, m.Trip, pipelined, f.Predictions[0].Batch)
}

func (f *Fit) rows() [][]string {
	out := [][]string{{"nodes", "workers", "share of core", "measured/s", "model/s", "error", "bound by"}}
	for _, list := range [][]Point{f.Measured, f.Predictions} {
		for _, p := range list {
			off := "-"
			if p.PerSecond > 0 {
				off = fmt.Sprintf("%+.1f %%", 100*p.Error)
			}
			out = append(out, []string{
				fmt.Sprint(p.Nodes), fmt.Sprint(p.Workers), figure(p.Share), figure(p.PerSecond), figure(p.Model), off, p.Bound,
			})
		}
	}
	return out
}
