package oracle

import (
	"fmt"
	"testing"

	"github.com/shardsched/shardsched/coordinator/build"
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
	if _, err := parallel.Decide(t.Context(), build.Pod("large").CPU("100").Obj()); err == nil {
		t.Error("a pod that fits nowhere: got no error")
	}
}
