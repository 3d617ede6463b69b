package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/bench/internal/machine"
)

const data = "../../../../shared/data"

// small is a plan that measures in no time.
func small(t *testing.T, args ...string) *plan {
	t.Helper()
	p, err := parse(append([]string{
		"-nodes", "61", "-pods", "60", "-placed", "60", "-upstream-pods", "5", "-limit", "1m", "-sample", "60", "-batch", "16", "-data", data,
	}, args...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func kind(t *testing.T, name string) Kind {
	t.Helper()
	kinds, err := kindsOf(name)
	if err != nil {
		t.Fatal(err)
	}
	return kinds[0]
}

// present skips what needs traces that are not there.
func present(t *testing.T, folder string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(data, folder)); err != nil {
		t.Skipf("the trace is absent: %v", err)
	}
}

func TestEveryDecisionIsOneThatUpstreamCouldHaveMade(t *testing.T) {
	for _, k := range Kinds() {
		t.Run(k.Name, func(t *testing.T) {
			if k.Name == "openb" {
				present(t, "openb-gpu-2023")
			}
			p := small(t)
			out, err := Measure(t.Context(), k, p.size(p.clusters[0], k), p.Options)
			if err != nil {
				t.Fatal(err)
			}
			if out.Judged != 60 {
				t.Errorf("judged: got %d decisions, want 60", out.Judged)
			}
			first, batches := 5, uint64(4)
			if k.gang > 0 && k.waiting == 0 {
				first = min(k.gang, 60) // no gang is torn, and one has one batch
				batches = min(batches, uint64(60/first))
			}
			for _, name := range Sides() {
				if got := len(out.Sides[name]); got != 1 {
					t.Errorf("%s: got %d runs, want 1", name, got)
				}
				for _, r := range out.Sides[name] {
					theirs := name == Upstream || name == Sampled
					if want := map[bool]int{true: first, false: 60}[theirs]; r.Pods != want || r.WallMicros <= 0 || r.PerSecond <= 0 {
						t.Errorf("%s: got %+v, want %d pods and a time", name, r, want)
					}
					asks := k.Name != "daemon" // nobody is asked about pods for a node by name
					if !theirs && (r.Batches < batches || asks != (r.Rounds > 0)) {
						t.Errorf("%s: got %d batches and %d rounds, want %d or more and, but for daemons, some", name, r.Batches, r.Rounds, batches)
					}
					remote := name == Workers || name == Single
					if sent := remote && asks; sent != (r.ToWorkers > 0) || sent != (r.FromWorkers > 0) || remote != (r.WorkerBytes > 0) {
						t.Errorf("%s: got %v and %v bytes on the wire and %v in workers, want some with workers alone", name, r.ToWorkers, r.FromWorkers, r.WorkerBytes)
					}
					if alone := name == Single; alone != (r.P50Micros > 0) || r.P99Micros < r.P50Micros {
						t.Errorf("%s: got %v and %v µs for a pod, want some where each comes alone", name, r.P50Micros, r.P99Micros)
					}
					if got := r.Common.Pods; got != first && k.Name != "backlog" && k.Name != "openb" {
						t.Errorf("%s: got %d placed of the first %d", name, got, first)
					}
				}
			}
		})
	}
}

// ownSide is a small workload, and our side of it without workers.
func ownSide(t *testing.T, name string) (*Workload, *ours) {
	p := small(t)
	k := kind(t, name)
	w, err := NewWorkload(k, p.size(p.clusters[0], k))
	if err != nil {
		t.Fatal(err)
	}
	own, err := newOurs(t.Context(), w, &p.Options, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := own.end(); err != nil {
			t.Error(err)
		}
	})
	return w, own
}

func TestJudgeFindsDecisionsThatAreNone(t *testing.T) {
	w, own := ownSide(t, "hard-spread")
	if _, err := own.decide(t.Context(), w.Pods, time.Hour); err != nil {
		t.Fatal(err)
	}
	right, err := own.decisions()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := judge(t.Context(), w, nil, right, len(right)); err != nil || n != 60 {
		t.Fatalf("the right ones: got %d and %v, want 60", n, err)
	}
	last := right[len(right)-1]
	cases := []struct {
		name, want string
		change     func(d *decision)
	}{
		{"another score", "for upstream, whose best has", func(d *decision) { d.Score-- }},
		{"another count", "nodes are feasible for us", func(d *decision) { d.Feasible++ }},
		{"a node that has one", "is not feasible", func(d *decision) { d.Node = right[len(right)-1-defaultApps].Node }},
		{"none, though there is one", "nodes, we none", func(d *decision) { d.Node = "" }},
		{"a pod that does not exist", "there is no pod", func(d *decision) { d.UID = "nobody" }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			wrong := last
			c.change(&wrong)
			decisions := append(append([]decision(nil), right[:len(right)-1]...), wrong)
			if _, err := judge(t.Context(), w, nil, decisions, len(decisions)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestJudgeFindsDevicesThatUpstreamDoesNotGive(t *testing.T) {
	w, own := ownSide(t, "claims")
	if _, err := own.decide(t.Context(), w.Pods[:1], time.Hour); err != nil {
		t.Fatal(err)
	}
	decisions, err := own.decisions()
	if err != nil {
		t.Fatal(err)
	}
	decisions[0].Claims = told(strings.Replace(string(decisions[0].Claims), "instance-5", "instance-6", 1))
	if _, err := judge(t.Context(), w, nil, decisions, 1); err == nil || !strings.Contains(err.Error(), "instance-5") {
		t.Errorf("got %v, want an error that names upstream's device, instance-5", err)
	}
}

func TestQuantilesAreOfWhatWasMeasured(t *testing.T) {
	var took []time.Duration
	for i := range 101 {
		took = append(took, time.Duration(100-i)*time.Millisecond)
	}
	if got := quantile(took, 0.5); got != 50000 {
		t.Errorf("median: got %v µs, want 50000", got)
	}
	if got := quantile(took, 0.99); got != 99000 {
		t.Errorf("p99: got %v µs, want 99000", got)
	}
	if got := quantile(nil, 0.99); got != 0 {
		t.Errorf("of none: got %v, want 0", got)
	}
}

func TestRunsThatDecideOtherwiseAreRefused(t *testing.T) {
	m := &measurement{}
	a, b := decision{UID: "1", Node: "a"}, decision{UID: "2", Node: "b"}
	for _, decisions := range [][]decision{{a}, {a, b}, {a}} {
		if err := m.check(decisions); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.decisions) != 2 {
		t.Errorf("kept: got %d decisions, want the longest run's 2", len(m.decisions))
	}
	if err := m.check([]decision{{UID: "1", Node: "b"}}); err == nil {
		t.Error("another node for the first pod: got no error")
	}
}

func TestEqualSeedsMakeEqualWorkloads(t *testing.T) {
	for _, k := range Kinds() {
		if k.Name == "openb" {
			if _, err := os.Stat(data); err != nil {
				continue
			}
		}
		var made [3]*Workload
		for i, seed := range []string{"1", "1", "2"} {
			p := small(t, "-seed", seed)
			var err error
			if made[i], err = NewWorkload(k, p.size(p.clusters[0], k)); err != nil {
				t.Fatal(err)
			}
			made[i].Kind, made[i].NodeBytes, made[i].PodBytes, made[i].refill = Kind{}, 0, 0, nil
		}
		if !reflect.DeepEqual(made[0], made[1]) {
			t.Errorf("%s: two of one seed differ", k.Name)
		}
		if reflect.DeepEqual(made[0], made[2]) {
			t.Errorf("%s: two seeds make the same", k.Name)
		}
	}
}

func TestPodsThatASideHasTakenAreMadeAgainAsTheyWere(t *testing.T) {
	p := small(t)
	for _, name := range []string{"backlog", "volumes", "daemon"} {
		k := kind(t, name)
		w, err := NewWorkload(k, p.size(p.clusters[0], k))
		if err != nil {
			t.Fatal(err)
		}
		objects, want := len(w.Objects), make([]*v1.Pod, len(w.Pods))
		for i, pod := range w.Pods {
			want[i] = pod.DeepCopy()
		}
		own, err := newOurs(t.Context(), w, &p.Options, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer own.end()
		own.takes = true
		if _, err := own.decide(t.Context(), w.Pods, time.Hour); err != nil {
			t.Fatal(err)
		}
		if w.Pods[0] != nil || w.Pods[len(w.Pods)-1] != nil {
			t.Errorf("%s: got pods that stay with the workload, want them taken", name)
		}
		if err := w.refill(); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(w.Pods, want) || len(w.Objects) != objects {
			t.Errorf("%s: got %d other pods and %d objects, want the same %d and %d", name, len(w.Pods), len(w.Objects), len(want), objects)
		}
	}
}

func TestDistinctPodsAreOfAsManySizes(t *testing.T) {
	for _, c := range []struct {
		name       string
		apps, want int
	}{{"basic", 0, 1}, {"basic", 7, 1}, {"classes-100", 0, 100}, {"classes-100", 7, 7}, {"distinct", 0, 300}} {
		k := kind(t, c.name)
		w, err := NewWorkload(k, Size{Nodes: 3, Pods: 300, Apps: c.apps, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		sizes := map[amounts]bool{}
		for _, p := range w.Pods {
			sizes[requests(p)] = true
		}
		if len(sizes) != c.want {
			t.Errorf("%s, %d workloads: got %d sizes of 300 pods, want %d", c.name, c.apps, len(sizes), c.want)
		}
	}
}

func TestNearlyFullHasRoomForThePodsAndFewMore(t *testing.T) {
	k := kind(t, "nearly-full")
	w, err := NewWorkload(k, Size{Cluster: "100", Nodes: 100, Pods: 200, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	var slots, open int64
	for i, n := range w.Nodes {
		free := n.Status.Allocatable.Cpu().MilliValue() - w.Placed[i].Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		if slots += free / 1000; free >= 1000 {
			open++
		}
	}
	if slots != 211 || open != 30 {
		t.Errorf("got room for %d pods on %d nodes, want 211 on 30", slots, open)
	}
}

func TestBorgHasTheTracesMachines(t *testing.T) {
	present(t, "borg-2019")
	w, err := NewWorkload(kind(t, "basic"), Size{Cluster: borg, Nodes: borgMachines, Data: data, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	nodes := w.Nodes
	if len(nodes) != borgMachines {
		t.Errorf("got %d machines, want %d", len(nodes), borgMachines)
	}
	for _, n := range nodes {
		if n.Status.Allocatable.Cpu().MilliValue() > borgMilliCPU || n.Status.Allocatable.Memory().Value() > borgMemoryMiB<<20 {
			t.Fatalf("%s: got %v, want no more than the largest machine has", n.Name, n.Status.Allocatable)
		}
	}
}

func TestFlagsThatMakeNoSenseAreNamed(t *testing.T) {
	cases := []struct{ args, want string }{
		{"-nodes 0", "-nodes"}, {"-nodes many", "-nodes"}, {"-workloads basic,nothing", `no "nothing"`}, {"-sides ours", "-sides"},
		{"-pods -1", "-pods"}, {"-limit 0s", "-limit"}, {"-workers 0", "-workers"}, {"basic", `argument "basic"`}, {"-placed -2", "-placed"},
	}
	for _, c := range cases {
		if _, err := parse(strings.Fields(c.args), io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %s", c.args, err, c.want)
		}
	}
}

func TestUsageIsToldByThePod(t *testing.T) {
	at := time.Unix(100, 0)
	before := usage{at, time.Second, 1000, 10}
	after := usage{at.Add(2 * time.Second), 4 * time.Second, 5000, 50}
	want := Run{Pods: 4, PerSecond: 2, CPUMicros: 750000, WallMicros: 500000, AllocatedBytes: 1000, Allocations: 10}
	if got := after.perPod(before, 4); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestQualityTellsHowEvenlyNodesAreUsed(t *testing.T) {
	q := &quality{
		nodes: map[string]int{"a": 0, "b": 1}, allocated: []amounts{{10, 100}, {20, 100}}, used: []amounts{{1, 0}, {0, 0}},
		asked: map[string]amounts{"1": {2, 50}, "2": {2, 50}},
	}
	got := q.of([]decision{{UID: "1", Node: "a"}, {UID: "3"}, {UID: "2", Node: "a"}})
	want := Quality{Pods: 2, NodesUsed: 1, CPU: Spread{0.25, 0.25, 0.5}, Memory: Spread{0.5, 0.5, 1}}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if again := q.of(nil); again.CPU.Max != 0.1 || again.Pods != 0 {
		t.Errorf("of no decisions: got %+v, want what was there before", again)
	}
}

func TestMediansAndRatios(t *testing.T) {
	o := &Outcome{Sides: map[string][]Run{
		Upstream: {{PerSecond: 100, CPUMicros: 9000}, {PerSecond: 300, CPUMicros: 8000}, {PerSecond: 200, CPUMicros: 1000}},
		Workers:  {{PerSecond: 5000, CPUMicros: 80}, {PerSecond: 9000, CPUMicros: 100}},
	}}
	if got := o.TimesFaster(); got != 25 {
		t.Errorf("times as many a second: got %v, want 25", got)
	}
	if got := o.TimesLess(); got != 100 {
		t.Errorf("times less CPU: got %v, want 100", got)
	}
	if got := (&Outcome{}).TimesFaster(); got != 0 {
		t.Errorf("of nothing: got %v, want 0", got)
	}
}

func TestReportHasTablesAndCharts(t *testing.T) {
	run := func(rate float64) []Run { return []Run{{Pods: 60, PerSecond: rate, CPUMicros: 1e6 / rate}} }
	r := &Report{
		Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Commit: "abc", Machine: machine.Machine{Cores: 2}, Seed: 7,
		Options: Options{Repetitions: 1, Workers: 2, Shards: 2, Limit: time.Second, Sides: Sides()},
		Workloads: []*Outcome{
			{Kind: "basic", About: "nothing else", Size: Size{Cluster: "61", Nodes: 61}, Judged: 16, Sides: map[string][]Run{Upstream: run(100), Workers: run(20000)}},
			{Kind: "basic", About: "nothing else", Size: Size{Cluster: borg, Nodes: borgMachines}, Sides: map[string][]Run{Workers: run(1000)}},
		},
	}
	prefix := filepath.Join(t.TempDir(), "results", "decide")
	if err := r.Write(prefix); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(prefix + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"commit abc, 2026-01-02T03:04:05Z, seed 7\n", "61: 61 nodes.", "borg: 96591 nodes.",
		"basic  60.0        -         100  10000          -   -         -   -      20000  50.0      200       200      16", "basic: nothing else\n",
	} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the table has no %q:\n%s", want, text)
		}
	}
	for _, name := range []string{"-61.svg", "-borg.svg", "-nodes.svg"} {
		svg, err := os.ReadFile(prefix + name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(svg, []byte("<svg")) || bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("Inf")) {
			t.Errorf("%s is no chart:\n%s", name, svg)
		}
	}
}

func TestCommandWritesWhatItPrints(t *testing.T) {
	var out bytes.Buffer
	prefix := filepath.Join(t.TempDir(), "decide")
	args := []string{"-workloads", "basic", "-nodes", "20", "-pods", "20", "-sides", "upstream,workers", "-upstream-pods", "2", "-out", prefix, "-profiles", filepath.Join(t.TempDir(), "p")}
	if err := command(context.WithoutCancel(t.Context()), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(prefix + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(text) {
		t.Errorf("printed:\n%s\nwritten:\n%s", &out, text)
	}
}

func TestSampleReachesFromTheFirstToTheLast(t *testing.T) {
	cases := []struct {
		n, sample int
		want      []int
	}{{0, 3, nil}, {1, 3, []int{0}}, {10, 0, nil}, {10, 1, []int{0}}, {10, 2, []int{0, 9}}, {10, 4, []int{0, 3, 6, 9}}, {3, 9, []int{0, 1, 2}}}
	for _, c := range cases {
		if got := picked(c.n, c.sample); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%d of %d: got %v, want %v", c.sample, c.n, got, c.want)
		}
	}
}
