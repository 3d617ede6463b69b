package census

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

func TestNodesAreCountedByWhatPodsAsk(t *testing.T) {
	c := New()
	c.WatchLabel("disk", "ssd")
	asked := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("4Gi")}
	c.WatchDemand("asked", 2, asked, func(n *v1.Node) (o Obstacles) {
		if n.Spec.Unschedulable {
			o |= Cordoned
		}
		if len(n.Spec.Taints) > 0 {
			o |= Tainted
		}
		return o
	})
	c.Add(build.Node("a").CPU("8").Memory("8Gi").Label("disk", "hdd").Obj())
	c.Add(build.Node("b").CPU("2").Memory("16Gi").Label("disk", "hdd").Taint("x=y:NoSchedule").Obj())
	c.Add(build.Node("c").CPU("9").Memory("1Gi").Unschedulable().Obj())
	values, having, all := c.Label("disk")
	if !slices.Equal(values, []ValueCount{{"hdd", 2}}) || having != 2 || !all {
		t.Errorf("disk: got %v, %d, %v; want hdd on 2", values, having, all)
	}
	d := c.Demand("asked")
	if short := d.Short(); d.Large() != 1 || d.Nodes(0) != 1 || d.Nodes(Small) != 0 || d.Nodes(Small|Cordoned) != 1 || short[v1.ResourceCPU] != 1 ||
		short[v1.ResourceMemory] != 1 {
		t.Errorf("demand: got %+v; want a large, b and c too small and tainted or cordoned", d)
	}
	if most, known := d.Largest(v1.ResourceCPU); !known || most.String() != "8" {
		t.Errorf("largest cpu of nodes that only their size keeps a pod off: got %s, %v; want 8", most.String(), known)
	}
	for o, want := range map[Obstacles]Obstacles{0: 0, Small: Small | Cordoned, Tainted: Small | Tainted, Cordoned: Small | Cordoned} {
		if got, found := d.Fewest(o); got != want || !found {
			t.Errorf("fewest obstacles beside %b: got %b, %v; want %b", o, got, found, want)
		}
	}
	if got, found := d.Fewest(Unmatched); found {
		t.Errorf("got obstacles %b of nodes that no selector keeps off", got)
	}
	if c.Demand("other") != nil {
		t.Error("a demand that nobody watches is known")
	}
	if got := c.Largest(v1.ResourceMemory); got.String() != "16Gi" {
		t.Errorf("largest memory: got %s, want 16Gi", got.String())
	}
	if got := c.Taints(); len(got) != 1 || got[0].Nodes != 1 || got[0].Taint.ToString() != "x=y:NoSchedule" {
		t.Errorf("taints: got %v", got)
	}
	if c.Nodes() != 3 || c.Cordoned() != 1 {
		t.Errorf("got %d nodes, %d cordoned; want 3, 1", c.Nodes(), c.Cordoned())
	}
}

// Whatever nodes and pods bring, so much is kept of it; a value that a pod names is counted all the same.
func TestACensusIsBounded(t *testing.T) {
	c := New()
	for i := range 2 * maxKeys {
		c.WatchLabel(fmt.Sprint("key-", i))
		c.WatchDemand(fmt.Sprint(i), 1, v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(i), resource.DecimalSI)},
			func(*v1.Node) Obstacles { return 0 })
	}
	c.WatchLabel("key-0", "named")
	for i := range 2 * maxTaints {
		c.Add(build.Node("n").Label("key-0", fmt.Sprint(i)).Taint(fmt.Sprintf("t%d:NoSchedule", i)).Obj())
	}
	c.Add(build.Node("n").Label("key-0", "named").Obj())
	values, having, all := c.Label("key-0")
	if len(values) > maxValues || all || having != 2*maxTaints+1 || !slices.Contains(values, ValueCount{"named", 1}) {
		t.Errorf("got %d values of %d nodes, all %v; want %d at the most, with the one that is named", len(values), having, all, maxValues)
	}
	if len(c.labels) != maxKeys || len(c.demands) != maxDemands || len(c.Taints()) != maxTaints {
		t.Errorf("got %d keys, %d demands, %d taints; want %d, %d, %d", len(c.labels), len(c.demands), len(c.Taints()), maxKeys, maxDemands, maxTaints)
	}
}

// A demand of many parts is not held against the nodes, and demands are not that have too many together.
func TestTheDemandsOfACensusAreBounded(t *testing.T) {
	c := New()
	watch := func(key string, parts int) { c.WatchDemand(key, parts, nil, func(*v1.Node) Obstacles { return 0 }) }
	watch("large", MaxDemandParts+1)
	const fit = maxParts / MaxDemandParts
	for i := range fit + 1 {
		watch(fmt.Sprint(i), MaxDemandParts)
	}
	if c.Demand("large") != nil || c.Demand(fmt.Sprint(fit-1)) == nil || c.Demand(fmt.Sprint(fit)) != nil {
		t.Errorf("got %d demands, want the %d that have %d parts together", len(c.demands), fit, maxParts)
	}
}
