package decide

import (
	"strings"
	"testing"
	"time"
)

var small = Options{
	Size: Size{Nodes: 61, Placed: 60, Pods: 60, Apps: 3}, UpstreamPods: 5, Limit: time.Minute,
	Repetitions: 2, Sample: 60, Batch: 16, Workers: 2,
}

func TestEveryDecisionIsOneThatUpstreamCouldHaveMade(t *testing.T) {
	for _, shape := range Shapes() {
		t.Run(shape.Name, func(t *testing.T) {
			out, err := Measure(t.Context(), shape, small)
			if err != nil {
				t.Fatal(err)
			}
			if out.Judged != 60 {
				t.Errorf("judged: got %d decisions, want 60", out.Judged)
			}
			for _, side := range []string{Upstream, Tables, Workers} {
				if got := len(out.Sides[side]); got != 2 {
					t.Errorf("%s: got %d runs, want 2", side, got)
				}
				for _, r := range out.Sides[side] {
					if want := map[bool]int{true: 5, false: 60}[side == Upstream]; r.Pods != want || r.WallMicros <= 0 {
						t.Errorf("%s: got %+v, want %d pods and a time", side, r, want)
					}
				}
			}
		})
	}
}

func TestJudgeFindsDecisionsThatAreNone(t *testing.T) {
	w := NewWorkload(shape(t, "anti-affinity"), small.Size)
	own, err := newOurs(t.Context(), w, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer own.end()
	if _, err := own.decide(t.Context(), w.Pods); err != nil {
		t.Fatal(err)
	}
	right, err := own.decisions()
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name, want string
		change     func(d *decision)
	}{
		{"another score", "for upstream, whose best has", func(d *decision) { d.Score-- }},
		{"another count", "nodes are feasible for us", func(d *decision) { d.Feasible++ }},
		{"a node that has one", "is not feasible", func(d *decision) { d.Node = right[len(right)-4].Node }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			decisions := append([]decision(nil), right...)
			c.change(&decisions[len(decisions)-1])
			if _, err := judge(t.Context(), w, decisions, len(decisions)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
	if _, err := judge(t.Context(), w, right[1:], 1); err == nil {
		t.Error("a pod without a decision: got no error")
	}
}

func shape(t *testing.T, name string) Shape {
	t.Helper()
	for _, s := range Shapes() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("there is no shape %q", name)
	return Shape{}
}

func TestTableGivesMediansAndHowManyTimesLess(t *testing.T) {
	r := Report{
		Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Commit: "abc", Go: "go1", CPUs: 2, Load: "0.5", Options: small,
		Shapes: []*Outcome{{
			Shape: "plain", About: "nothing else", Rounds: 4, Again: 1, Judged: 16,
			Sides: map[string][]Run{
				Upstream: {{Pods: 5, CPUMicros: 9000, WallMicros: 5000, Bytes: 1e6}, {Pods: 5, CPUMicros: 8000, WallMicros: 4000, Bytes: 1e6}, {Pods: 5, CPUMicros: 10000, WallMicros: 6000, Bytes: 1e6}},
				Tables:   {{Pods: 60, CPUMicros: 90, WallMicros: 50, Bytes: 1000}},
			},
		}},
	}
	var b strings.Builder
	if err := r.Table(&b); err != nil {
		t.Fatal(err)
	}
	want := `commit abc, 2026-01-02T03:04:05Z, go1, 2 CPUs, load 0.5
61 nodes, 60 pods on them, 60 pods of 3 workloads to decide; 2 repetitions, 2 workers

  µs per pod      side  pods   CPU  from     to  times less  wall  times less    bytes  rounds  again  judged
       plain  upstream     5  9000  8000  10000              5000              1000000                       
       plain    tables    60  90.0  90.0   90.0         100  50.0         100     1000       4      1      16

plain: nothing else
`
	if got := b.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestSampleReachesFromTheFirstToTheLast(t *testing.T) {
	cases := []struct {
		n, sample int
		want      []int
	}{{0, 3, nil}, {1, 3, []int{0}}, {10, 0, nil}, {10, 1, []int{0}}, {10, 2, []int{0, 9}}, {10, 4, []int{0, 3, 6, 9}}, {3, 9, []int{0, 1, 2}}}
	for _, c := range cases {
		got := picked(c.n, c.sample)
		if len(got) != len(c.want) {
			t.Errorf("%d of %d: got %v, want %v", c.sample, c.n, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%d of %d: got %v, want %v", c.sample, c.n, got, c.want)
			}
		}
	}
}
