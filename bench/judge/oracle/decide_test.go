package oracle

import (
	"errors"
	"fmt"
	"testing"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

func TestDecideTakesABestNodeAndSeesItTakenNext(t *testing.T) {
	c, err := DefaultConfig()
	if err != nil {
		t.Fatal(err)
	}
	parallel, err := NewParallel(t.Context(), c, DefaultParallelism)
	if err != nil {
		t.Fatal(err)
	}
	judging := newTest(t, "")
	for i := range 40 {
		node := build.Node(fmt.Sprintf("n%d", i)).CPU(fmt.Sprint(2 + i%3)).Memory("8Gi").Pods("10").Obj()
		for _, o := range []*Oracle{parallel, judging} {
			if err := o.Set(node); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 60 {
		pod := build.Pod(fmt.Sprintf("p%d", i)).CPU("900m").Memory("1Gi").Obj()
		d, err := parallel.Decide(t.Context(), pod)
		if err != nil {
			t.Fatal(err)
		}
		v := judge(t, judging, pod)
		best, _ := v.Best()
		if got, want := fmt.Sprint(d.Feasible, d.Total), fmt.Sprint(len(v.Feasible), best); got != want || v.Feasible[d.Node].Total != best {
			t.Fatalf("pod %d on %s: got %s, want %s there and %s at the most", i, d.Node, got, fmt.Sprint(len(v.Feasible), v.Feasible[d.Node].Total), want)
		}
		placed := pod.DeepCopy()
		placed.Spec.NodeName = d.Node
		if err := judging.Set(placed); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := parallel.Decide(t.Context(), build.Pod("large").CPU("100").Obj()); !errors.Is(err, ErrNoFit) {
		t.Errorf("a pod that fits nowhere: got %v, want %v", err, ErrNoFit)
	}
}

func TestSampleLooksAtAsManyNodesAsUpstreamAndGoesOnWhereItWas(t *testing.T) {
	c, err := DefaultConfig()
	if err != nil {
		t.Fatal(err)
	}
	o, err := NewParallel(t.Context(), c, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 450 {
		if err := o.Set(build.Node(fmt.Sprintf("n%d", i)).CPU("4").Memory("8Gi").Obj()); err != nil {
			t.Fatal(err)
		}
	}
	o.Sample()
	if got, want := fmt.Sprint(o.sampled(99), o.sampled(450), o.sampled(1000), o.sampled(5000), o.sampled(50000)), "99 211 420 500 2500"; got != want {
		t.Errorf("nodes looked at of 99, 450, 1000, 5000, 50000: got %s, want %s", got, want)
	}
	taken := map[string]bool{}
	for i := range 3 {
		d, err := o.Decide(t.Context(), build.Pod(fmt.Sprintf("p%d", i)).CPU("100m").Obj())
		if err != nil {
			t.Fatal(err)
		}
		if taken[d.Node] = true; d.Feasible != 211 {
			t.Errorf("pod %d: got %d feasible nodes, want 211", i, d.Feasible)
		}
	}
	if want := 3 * 211 % 450; o.start != want {
		t.Errorf("where the next pod begins: got %d, want %d", o.start, want)
	}
	if len(taken) != 3 {
		t.Errorf("nodes: got %v, want three", taken)
	}
}
