package main

import (
	"math"
	"testing"
)

// told are points that a model says of itself.
func told(m Model, share, cores float64, nodes []int, workers []int) (out []Point) {
	for _, n := range nodes {
		for _, w := range workers {
			p := Point{Workers: w, Nodes: n, Rows: float64(n) / float64(w), Share: share, Cores: cores, Batch: 32}
			p.Coordinator, p.Worker = m.Pod+m.Answer*float64(w), m.Class+m.Row*p.Rows
			p.PerSecond, p.Bound = m.rate(&p)
			out = append(out, p)
		}
	}
	return out
}

func TestTheFitFindsTheModelThatMadeThePoints(t *testing.T) {
	for _, want := range []Model{
		{Pod: 80, Answer: 5, Class: 60, Row: 0.003, Trip: 30_000},
		{Pod: 120, Answer: 0, Class: 0, Row: 0.001, Trip: 20000},
	} {
		points := append(told(want, 0.125, 0, []int{50_000, 200_000}, []int{1, 2, 4, 8}), told(want, 1, 2, []int{1_000_000}, []int{1, 2})...)
		f := newFit(points)
		near := func(name string, got, want float64) {
			if math.Abs(got-want) > 1e-6*math.Max(want, 1) {
				t.Errorf("%s: got %v, want %v", name, got, want)
			}
		}
		near("pod", f.Model.Pod, want.Pod)
		near("answer", f.Model.Answer, want.Answer)
		near("class", f.Model.Class, want.Class)
		near("row", f.Model.Row, want.Row)
		near("trip", f.Model.Trip, want.Trip)
		for _, p := range f.Measured {
			near("error", p.Error, 0)
		}
	}
}

func TestEachBoundOfTheModelCounts(t *testing.T) {
	m := Model{Pod: 100, Answer: 10, Class: 50, Row: 0.01, Trip: 1600}
	cases := []struct {
		bound string
		p     Point
		want  float64 // µs a pod
	}{
		{"coordinator", Point{Workers: 10, Nodes: 1000, Rows: 100, Share: 1, Batch: 32}, 200},
		{"workers", Point{Workers: 1, Nodes: 100_000, Rows: 100_000, Share: 0.5, Batch: 32}, 2100},
		{"round trip", Point{Workers: 1, Nodes: 6000, Rows: 6000, Share: 1, Batch: 8}, (200 + 110 + 110) / 2},
		{"cores", Point{Workers: 1, Nodes: 6000, Rows: 6000, Share: 1, Batch: 32, Cores: 1}, 220},
	}
	for _, c := range cases {
		if rate, bound := m.rate(&c.p); math.Abs(1e6/rate-c.want) > 1e-6 || bound != c.bound {
			t.Errorf("got %v µs a pod by the %s, want %v by the %s", 1e6/rate, bound, c.want, c.bound)
		}
	}
}

func TestALineNeverFallsAndStaysAboveZero(t *testing.T) {
	cases := []struct {
		what         string
		xs, ys       []float64
		wantA, wantB float64
	}{
		{"a line", []float64{1, 2, 4}, []float64{7, 9, 13}, 5, 2},
		{"one that falls", []float64{1, 2}, []float64{4, 2}, 2.4, 0},
		{"one that begins below 0", []float64{1, 2}, []float64{1, 4}, 0, 1.2},
		{"one place", []float64{3, 3}, []float64{5, 5}, 5, 0},
	}
	for _, c := range cases {
		if a, b := line(c.xs, c.ys); math.Abs(a-c.wantA) > 1e-9 || math.Abs(b-c.wantB) > 1e-9 {
			t.Errorf("%s: got %v + %v·x, want %v + %v·x", c.what, a, b, c.wantA, c.wantB)
		}
	}
}

func TestOnePointMakesNoModel(t *testing.T) {
	if f := newFit(make([]Point, 1)); f != nil {
		t.Errorf("got %+v, want none", f)
	}
}

func TestWhatOthersKeepBusyIsNoCoreOfOurs(t *testing.T) {
	runs := []Decide{{Nodes: 10, Workers: 1, Rows: 10, Share: 1, WorkerMicros: []float64{5}, CoordinatorMicros: 2, PerSecond: 9, Others: 0.5}}
	if got := points(runs, 2); len(got) != 1 || got[0].Cores != 1.5 || got[0].Worker != 5 || got[0].Coordinator != 2 {
		t.Errorf("got %+v, want 1.5 cores", got)
	}
	if got := points(runs, 0); got[0].Cores != 0 {
		t.Errorf("got %+v, want cores of their own", got)
	}
}
