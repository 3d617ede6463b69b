package main

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

// plain are costs that are easy to reckon with.
func plain() Costs {
	return Costs{
		Pod: 100, Request: 40, Answer: 5, Byte: 0.01, Serve: 60, Shard: 3, Row: 0.02, Candidate: 0.1,
		RequestBytes: 100, ClassBytes: 50, AnswerBytes: 80, ResultBytes: 20, CandidateBytes: 10,
	}
}

func constant(t *testing.T, text string) Latency {
	t.Helper()
	l, err := newLatency(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// modelOf is a model without replicas and stalls.
func modelOf(t *testing.T, workers, nodes int) Model {
	return Model{
		Costs: plain(), Latency: constant(t, "0s"), Workers: workers, Nodes: nodes, Shards: 4 * workers, Replicas: 1, Pods: 32, Batches: 20, Seed: 1,
	}
}

func run(t *testing.T, m Model) Outcome {
	t.Helper()
	o, err := m.simulate()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func near(got, want, tolerance float64) bool { return math.Abs(got-want) <= tolerance*math.Abs(want) }

func TestOneWorkerTakesWhatItsCostsAddUpTo(t *testing.T) {
	m := modelOf(t, 1, 10000)
	m.Latency, m.Bandwidth, m.Trip = constant(t, "250us"), 100, 30
	const pods, shards, rows, candidates = 32, 4, 10000, 33
	sent, answer := 100.0+pods*50, 80.0+pods*(20+candidates*10)
	worker := 60 + pods*(3*shards+0.02*rows+0.1*candidates)
	coordinator := 40 + pods*5 + 0.01*answer + pods*100
	want := coordinator + worker + 2*250 + 30 + (sent+answer)/100
	o := run(t, m)
	if !near(o.P50Micros, want, 1e-9) || !near(o.P99Micros, want, 1e-9) {
		t.Errorf("batch: got p50 %v and p99 %v µs, want %v", o.P50Micros, o.P99Micros, want)
	}
	if !near(o.PodsPerSecond, 1e6*pods/want, 1e-9) {
		t.Errorf("got %v pods/s, want %v", o.PodsPerSecond, 1e6*pods/want)
	}
	if !near(o.Coordinator, coordinator/want, 1e-9) || !near(o.Worker, worker/want, 1e-9) {
		t.Errorf("busy: got %v and %v, want %v and %v", o.Coordinator, o.Worker, coordinator/want, worker/want)
	}
	if o.Rows != rows {
		t.Errorf("got %v rows, want %d", o.Rows, rows)
	}
}

func TestUtilisationIsWorkOverTime(t *testing.T) {
	for _, workers := range []int{1, 3, 16} {
		m := modelOf(t, workers, 50000)
		m.Latency = constant(t, "exp:500us")
		o := run(t, m)
		batches := o.PodsPerSecond / 32 / 1e6 // by the µs
		answer := 80 + 32*(20+33*10.0)
		if want := batches * (float64(workers)*(40+32*5+0.01*answer) + 32*100); !near(o.Coordinator, want, 1e-9) {
			t.Errorf("%d workers: the coordinator is busy for %v of the time, want %v", workers, o.Coordinator, want)
		}
		if want := batches * (60 + 32*(3*4+0.02*o.Rows+0.1*33)); !near(o.Worker, want, 0.02) {
			t.Errorf("%d workers: the largest is busy for %v of the time, want %v", workers, o.Worker, want)
		}
		if o.Coordinator > 1 || o.Worker > 1 {
			t.Errorf("%d workers: got %+v, want nobody busy for more than all of the time", workers, o)
		}
	}
}

func TestMoreWorkersAreNeverSlowerWhereAskingIsFree(t *testing.T) {
	before := 0.0
	for _, workers := range []int{1, 2, 4, 8, 16, 32, 64, 128} {
		m := modelOf(t, workers, 100000)
		m.Request, m.Answer, m.Byte, m.Serve, m.Shard, m.Candidate = 0, 0, 0, 0, 0, 0
		m.Shards = 512
		o := run(t, m)
		if o.PodsPerSecond < before {
			t.Errorf("%d workers: got %v pods/s, %v with fewer", workers, o.PodsPerSecond, before)
		}
		before = o.PodsPerSecond
	}
	if limit := 1e6 / plain().Pod; before > limit {
		t.Errorf("got %v pods/s, more than the %v that the coordinator can decide", before, limit)
	}
}

func TestManyWorkersCostTheCoordinatorMoreThanTheySave(t *testing.T) {
	few, many := run(t, modelOf(t, 8, 10000)), run(t, modelOf(t, 512, 10000))
	if many.PodsPerSecond >= few.PodsPerSecond {
		t.Errorf("got %v pods/s with 512 workers and %v with 8 of 10,000 nodes, want fewer", many.PodsPerSecond, few.PodsPerSecond)
	}
}

func TestEqualSeedsSimulateTheSame(t *testing.T) {
	m := modelOf(t, 9, 30000)
	m.Latency, m.Replicas, m.StallEvery, m.StallFor = constant(t, "lognormal:200us,1"), 2, 100000, 20000
	one, same := run(t, m), run(t, m)
	if !reflect.DeepEqual(one, same) {
		t.Errorf("got %+v and %+v of one seed", one, same)
	}
	m.Seed = 2
	if other := run(t, m); reflect.DeepEqual(one, other) {
		t.Errorf("got %+v of two seeds", one)
	}
}

func TestAStallIsWaitedForUnlessThereIsAnotherOwner(t *testing.T) {
	m := modelOf(t, 2, 50000)
	m.Batches = 200
	calm := run(t, m)
	m.StallEvery, m.StallFor = 1e6, 50000
	alone := run(t, m)
	m.Replicas = 2
	hedged := run(t, m)
	if calm.Hedges > 0 || alone.Hedges > 0 || hedged.Hedges == 0 {
		t.Errorf("hedges: got %d calm, %d without and %d with another owner, want some with one alone", calm.Hedges, alone.Hedges, hedged.Hedges)
	}
	if got := alone.P99Micros - calm.P99Micros; got < 40000 || got > 60000 {
		t.Errorf("a stall of 50 ms made p99 %v µs longer", got)
	}
	// The other one does the stalled one's share after its own, and it has taken a while to be asked.
	if limit := (1+hedgeFactor)*calm.P99Micros + hedgeSpare; hedged.P99Micros > limit {
		t.Errorf("hedged: got p99 %v µs, want %v at the most", hedged.P99Micros, limit)
	}
}

func TestModelsThatMakeNoSenseAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Model){
		"no worker": func(m *Model) { m.Workers = 0 }, "no node": func(m *Model) { m.Nodes = 0 }, "no shard": func(m *Model) { m.Shards = 0 },
		"no pod": func(m *Model) { m.Pods = 0 }, "no batch": func(m *Model) { m.Batches = 0 }, "too many replicas": func(m *Model) { m.Replicas = 3 },
	} {
		m := modelOf(t, 2, 10)
		change(&m)
		if o, err := m.simulate(); err == nil {
			t.Errorf("%s: got %+v, want an error", name, o)
		}
	}
}

func TestCostsAreFoundInWhatTheyAddUpTo(t *testing.T) {
	want := plain()
	want.Pod, want.Trip = 0, 25
	var fans []Fan
	for _, p := range probes(&Options{Nodes: 50000, Shards: 16, Batch: 32}) {
		classes, rows, named := float64(p.classes), float64(p.nodes), float64(p.classes)*min(float64(p.candidates), float64(p.nodes))
		f := Fan{Workers: 1, Nodes: p.nodes, Shards: p.shards, Classes: p.classes, Candidates: p.candidates, Rows: p.nodes}
		f.FromWorkers = want.AnswerBytes + classes*want.ResultBytes + named*want.CandidateBytes
		f.ToWorkers = want.RequestBytes + classes*want.ClassBytes
		f.WorkerMicros = []float64{want.Serve + classes*(want.Shard*float64(p.shards)+want.Row*rows) + want.Candidate*named}
		f.CoordinatorMicros = want.Request + classes*want.Answer + want.Byte*f.FromWorkers
		f.P50Micros = f.WorkerMicros[0] + f.CoordinatorMicros + 25
		fans = append(fans, f)
	}
	got, err := learn(fans)
	if err != nil {
		t.Fatal(err)
	}
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		if name := g.Type().Field(i).Name; !near(g.Field(i).Float(), w.Field(i).Float(), 1e-3) {
			t.Errorf("%s: got %v, want %v", name, g.Field(i), w.Field(i))
		}
	}
	fans[0].Workers = 2
	if got, err := learn(fans); err == nil {
		t.Errorf("of two workers: got %+v, want an error", got)
	}
}

func TestNoCostIsNegative(t *testing.T) {
	got, err := solve([]equation{{[]float64{1, 1}, 10}, {[]float64{1, 2}, 9}, {[]float64{1, 3}, 8}})
	if err != nil || got[1] != 0 || !near(got[0], 9, 0.05) {
		t.Errorf("got %v, %v; want about 9 and 0", got, err)
	}
	if got, err := solve([]equation{{[]float64{1, 2}, 3}, {[]float64{2, 4}, 6}}); err == nil {
		t.Errorf("two that can't be told apart: got %v, want an error", got)
	}
}

func TestLatenciesHaveTheirShape(t *testing.T) {
	draws := func(text string) (mean, middle float64) {
		l, err := newLatency(text)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 1))
		below, n := 0, 20000
		for range n {
			x := l.draw(r)
			mean += x / float64(n)
			if x < 200 {
				below++
			}
		}
		return mean, float64(below) / float64(n)
	}
	if mean, below := draws("200us"); !near(mean, 200, 1e-9) || below != 0 {
		t.Errorf("constant: got a mean of %v µs and %v below 200, want 200 always", mean, below)
	}
	if mean, below := draws("exp:200us"); !near(mean, 200, 0.05) || !near(below, 1-1/math.E, 0.05) {
		t.Errorf("exponential: got a mean of %v µs and %v below 200, want 200 and %v", mean, below, 1-1/math.E)
	}
	if mean, below := draws("lognormal:200us,0.5"); !near(mean, 200*math.Exp(0.125), 0.05) || !near(below, 0.5, 0.05) {
		t.Errorf("lognormal: got a mean of %v µs and %v below 200, want %v and half", mean, below, 200*math.Exp(0.125))
	}
	for _, text := range []string{"", "fast", "-1us", "exp:", "exp:1us,2", "lognormal:1us", "lognormal:1us,-1", "lognormal:1us,NaN", "uniform:1us", "1us,2"} {
		if l, err := newLatency(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, l)
		}
	}
	l, again := constant(t, "exp:1ms"), Latency{}
	if text, err := l.MarshalText(); err != nil || again.UnmarshalText(text) != nil || again.String() != "exp:1ms" {
		t.Errorf("written and read: got %v, %v", again, err)
	}
}
