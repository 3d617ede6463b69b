package workload

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

func TestDistinctPodsAllDifferInWhatTheyRequest(t *testing.T) {
	seen := map[[2]int64]string{}
	for i := range 500 {
		for _, placed := range []bool{false, true} {
			p := Distinct(build.Pod("p"), i, placed).Obj()
			r := p.Spec.Containers[0].Resources.Requests
			size := [2]int64{r.Cpu().MilliValue(), r.Memory().Value()}
			if other, ok := seen[size]; ok {
				t.Fatalf("pod %d, placed %t, requests %v as %s does", i, placed, size, other)
			}
			seen[size] = "another"
		}
	}
}

func TestNodesAreOfThreeSizesInThreeZones(t *testing.T) {
	kinds := map[string]int{}
	for i := range 90 {
		n := Node(i)
		kinds[n.Labels[v1.LabelTopologyZone]+" "+n.Labels[v1.LabelInstanceTypeStable]]++
	}
	if len(kinds) != 9 {
		t.Errorf("got %d kinds, want 9: %v", len(kinds), kinds)
	}
	for kind, n := range kinds {
		if n != 10 {
			t.Errorf("%s: got %d nodes, want 10", kind, n)
		}
	}
}
