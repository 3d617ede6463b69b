package shadow

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// What is stranded is what top resources tells: from a tenth of a node's on, not where another resource is what is used up, and not on
// cordoned nodes.
func TestStrandedIsOfNodesThatTakePodsAndHaveMuchLeft(t *testing.T) {
	l, r := newLayout(time.Time{}), newResources()
	for name, x := range map[string]struct {
		cpu, memory int64 // requested, of 10 CPUs and 100 bytes
		cordoned    bool
	}{
		"half of cpu is stranded":   {5000, 96, false},
		"cordoned":                  {0, 96, true},
		"less than a tenth is left": {9400, 96, false},
		"both are used up":          {9600, 96, false},
		"nothing is used up":        {5000, 90, false},
	} {
		node := build.Node(name).Obj()
		node.Spec.Unschedulable = x.cordoned
		l.setNode(node, amounts{atCPU: 10000, atMemory: 100, atPods: 10})
		l.put(&pod{needs: amounts{atCPU: x.cpu, atMemory: x.memory, atPods: 1}}, name)
	}
	got := map[string]ResourceShare{}
	for _, x := range l.world(r, time.Time{}).Resources {
		got[x.Resource] = x
	}
	if cpu := got[string(v1.ResourceCPU)]; cpu.Stranded != 0.1 || cpu.LargestFree != 5000 {
		t.Errorf("cpu: got %+v, want a tenth of all stranded, and 5000 as the most that one node has left", cpu)
	}
	if memory := got[string(v1.ResourceMemory)]; memory.Stranded != 0 || memory.LargestFree != 10 {
		t.Errorf("memory: got %+v, want nothing stranded, and 10 as the most that one node has left", memory)
	}
}
