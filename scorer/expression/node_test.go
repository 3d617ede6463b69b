package expression

import (
	"maps"
	"slices"

	"pgregory.net/rapid"
)

// fakeNode is a Node made of maps.
type fakeNode struct {
	name                   string
	unschedulable          bool
	labels, annotations    map[string]string
	taints                 [][3]string
	allocatable, requested map[string]int64
	pods                   int64
	images                 []string
}

func (n *fakeNode) Name() string                       { return n.name }
func (n *fakeNode) Unschedulable() bool                { return n.unschedulable }
func (n *fakeNode) Pods() int64                        { return n.pods }
func (n *fakeNode) Label(k string) (string, bool)      { v, ok := n.labels[k]; return v, ok }
func (n *fakeNode) Annotation(k string) (string, bool) { v, ok := n.annotations[k]; return v, ok }
func (n *fakeNode) Allocatable(k string) (int64, bool) { v, ok := n.allocatable[k]; return v, ok }
func (n *fakeNode) Requested(k string) (int64, bool) {
	_, ok := n.allocatable[k]
	return n.requested[k], ok
}
func (n *fakeNode) Resources(yield func(string) bool) {
	walk(n.allocatable, func(k string, _ int64) bool { return yield(k) })
}
func (n *fakeNode) Labels(yield func(k, v string) bool) { walk(n.labels, yield) }
func (n *fakeNode) Images(yield func(string) bool)      { slices.Values(n.images)(yield) }
func (n *fakeNode) Taints(yield func(k, v, e string) bool) {
	for _, t := range n.taints {
		if !yield(t[0], t[1], t[2]) {
			return
		}
	}
}

func walk[V any](m map[string]V, yield func(string, V) bool) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if !yield(k, m[k]) {
			return
		}
	}
}

var (
	someKeys   = []string{"zone", "disk", "tier", "zones"}
	someValues = []string{"a", "b", "ssd", "a,b", "", "7", "[x"}
)

func drawTexts(t *rapid.T, name string) map[string]string {
	return rapid.MapOfN(rapid.SampledFrom(someKeys), rapid.SampledFrom(someValues), 0, 4).Draw(t, name)
}

func drawNode(t *rapid.T) *fakeNode {
	n := &fakeNode{
		name: rapid.SampledFrom([]string{"n1", "n2", "gpu-1"}).Draw(t, "name"), unschedulable: rapid.Bool().Draw(t, "unschedulable"),
		labels: drawTexts(t, "node labels"), annotations: drawTexts(t, "node annotations"),
		allocatable: map[string]int64{"cpu": 4000, "memory": 8 << 30, "pods": 110}, requested: map[string]int64{},
		pods: rapid.Int64Range(0, 5).Draw(t, "pods"), images: []string{"img:1"},
	}
	if rapid.Bool().Draw(t, "gpus") {
		n.allocatable["nvidia.com/gpu"] = 8
	}
	for k, v := range n.allocatable {
		n.requested[k] = rapid.Int64Range(0, v).Draw(t, "requested "+k)
	}
	for range rapid.IntRange(0, 2).Draw(t, "taints") {
		n.taints = append(n.taints, [3]string{rapid.SampledFrom(someKeys).Draw(t, "taint"), rapid.SampledFrom(someValues).Draw(t, "taint value"), "NoSchedule"})
	}
	return n
}

func drawPod(t *rapid.T) *Pod {
	p := &Pod{
		Name: rapid.SampledFrom([]string{"p1", "web-0"}).Draw(t, "pod"), Namespace: "default",
		Labels: drawTexts(t, "pod labels"), Annotations: drawTexts(t, "pod annotations"), NodeSelector: drawTexts(t, "selector"),
		Priority: rapid.Int64Range(-2, 2).Draw(t, "priority"), HostNetwork: rapid.Bool().Draw(t, "host network"),
		Requests:   map[string]Quantity{"cpu": Thousandths(rapid.Int64Range(0, 5000).Draw(t, "cpu"))},
		Containers: []Container{{Name: "c", Image: "img:1", Requests: map[string]Quantity{"memory": Whole(1 << 30)}}},
	}
	for range rapid.IntRange(0, 2).Draw(t, "tolerations") {
		p.Tolerations = append(p.Tolerations, Toleration{Key: rapid.SampledFrom(someKeys).Draw(t, "tolerates"), Operator: "Exists"})
	}
	return p
}
