package decide

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/bench/oracle"
	"github.com/shardsched/shardsched/coordinator/build"
)

// Size is how large a workload is.
type Size struct {
	Nodes  int `json:"nodes"`
	Placed int `json:"placed"`
	// Pods are decided, of Apps workloads in turn.
	Pods int `json:"pods"`
	Apps int `json:"apps"`
}

// Workload is a cluster with pods on its nodes, and pods that wait, all of one shape.
type Workload struct {
	Shape   Shape
	Nodes   []*v1.Node
	Objects []oracle.Object // all but nodes and pods
	Placed  []*v1.Pod
	Pods    []*v1.Pod
}

const (
	zones     = 3
	namespace = "default"
)

// stride leads through all nodes in an order that has nothing to do with zones or sizes:
// a prime that does not divide their number.
const stride = 7919

// NewWorkload makes the cluster and the pods of a shape.
func NewWorkload(shape Shape, size Size) *Workload {
	w := &Workload{Shape: shape}
	for i := range size.Nodes {
		w.Nodes = append(w.Nodes, node(i))
	}
	w.surround(size)
	for i := range size.Placed {
		p, objects := w.pod(fmt.Sprintf("placed-%d", i), i%size.Apps, w.Nodes[i*stride%size.Nodes])
		w.Placed, w.Objects = append(w.Placed, p), append(w.Objects, objects...)
	}
	for i := range size.Pods {
		p, objects := w.pod(fmt.Sprintf("pod-%d", i), i%size.Apps, nil)
		w.Pods, w.Objects = append(w.Pods, p), append(w.Objects, objects...)
	}
	return w
}

// surround makes the objects that are no pod's own.
func (w *Workload) surround(size Size) {
	if w.Shape.shared != nil {
		w.Objects = append(w.Objects, w.Shape.shared()...)
	}
	if w.Shape.node != nil {
		for _, n := range w.Nodes {
			w.Objects = append(w.Objects, w.Shape.node(n.Name)...)
		}
	}
	if w.Shape.app != nil {
		for i := range size.Apps {
			w.Objects = append(w.Objects, w.Shape.app(app(i))...)
		}
	}
}

func app(i int) string { return fmt.Sprintf("app-%d", i) }

func zone(i int) string { return fmt.Sprintf("zone-%d", i%zones) }

// node is one of three sizes; a few nodes would rather not have pods.
func node(i int) *v1.Node {
	name, sizes := fmt.Sprintf("node-%d", i), []struct{ cpu, memory string }{{"16", "64Gi"}, {"32", "128Gi"}, {"64", "256Gi"}}
	size := sizes[i/zones%len(sizes)]
	b := build.Node(name).CPU(size.cpu).Memory(size.memory).EphemeralStorage("200Gi").Zone(zone(i)).
		Label(v1.LabelHostname, name).Label(v1.LabelTopologyRegion, "region").
		Label(v1.LabelInstanceTypeStable, "type-"+size.cpu).Label(v1.LabelOSStable, "linux").Label(v1.LabelArchStable, "amd64").
		Image(300<<20, "base:1")
	if i%16 == 0 {
		b.Taint("spot:PreferNoSchedule")
	}
	return b.Obj()
}

// pod is one of an app's pods, on a node or waiting, with the objects that it brings.
func (w *Workload) pod(name string, i int, on *v1.Node) (*v1.Pod, []oracle.Object) {
	a := app(i)
	b := build.Pod(name).Namespace(namespace).Label("app", a).Label("pod-template-hash", a).Owner("batch/v1", "Job", a).
		CPU(fmt.Sprintf("%dm", 100+10*i)).Memory("200Mi").Image("base:1")
	if on != nil {
		b.Node(on.Name)
	}
	p := b.Obj()
	return p, w.Shape.pod(p, a, on)
}
