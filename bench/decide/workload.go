package main

import (
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/bench/oracle"
	"github.com/shardsched/shardsched/coordinator/build"
)

// Size is how large a workload is.
type Size struct {
	// Cluster is the inventory's name, or its number of nodes.
	Cluster string `json:"cluster"`
	Nodes   int    `json:"nodes"`
	// Placed pods are on nodes already.
	Placed int `json:"placed"`
	// Pods are decided.
	Pods int `json:"pods"`
	// Apps are the workloads that pods are of, in turn, of kinds with more than one; 0: as many as the
	// kind has.
	Apps int    `json:"apps,omitempty"`
	Seed uint64 `json:"seed"`
	// Data is the folder of the traces.
	Data string `json:"-"`
}

// Workload is a cluster with pods on its nodes, and pods that wait, all of one kind.
type Workload struct {
	Kind    Kind
	Nodes   []*v1.Node
	Objects []oracle.Object // all but nodes and pods
	Placed  []*v1.Pod
	Pods    []*v1.Pod
	// NodeBytes is what the objects of the nodes take on the heap, by the node, PodBytes what those of the
	// pods that wait take, by the pod.
	NodeBytes, PodBytes float64
}

// maker makes a workload; equal seeds make equal ones.
type maker struct {
	*rand.Rand
	size     Size
	workload *Workload
	apps     int
	order    []int // the nodes in an order that has nothing to do with zones or sizes
	trace    []tracePod
}

const defaultApps = 10

// NewWorkload makes the cluster and the pods of a kind.
func NewWorkload(kind Kind, size Size) (*Workload, error) {
	m := &maker{Rand: rand.New(rand.NewPCG(size.Seed, uint64(size.Nodes))), size: size, workload: &Workload{Kind: kind}}
	if m.apps = kind.apps; m.apps == 0 {
		m.apps = defaultApps
	}
	if size.Apps > 0 && m.apps > 1 {
		m.apps = size.Apps
	}
	if kind.alone {
		m.apps = max(m.apps, 2*(size.Placed+size.Pods)/max(size.Nodes, 1)+1)
	}
	m.order = m.Perm(size.Nodes)
	before := heapBytes()
	if err := m.nodes(); err != nil {
		return nil, err
	}
	m.workload.NodeBytes = float64(heapBytes()-before) / float64(max(size.Nodes, 1))
	m.surround()
	if kind.cluster == nil {
		for i := range size.Placed {
			m.workload.Placed = append(m.workload.Placed, m.pod(fmt.Sprintf("placed-%d", i), i, m.workload.Nodes[m.order[i%size.Nodes]]))
		}
	}
	before = heapBytes()
	for i := range size.Pods {
		m.workload.Pods = append(m.workload.Pods, m.pod(fmt.Sprintf("pod-%d", i), i, nil))
	}
	m.workload.PodBytes = float64(heapBytes()-before) / float64(max(size.Pods, 1))
	return m.workload, nil
}

// nodes makes the nodes, and of kinds with clusters of their own the pods that are there.
func (m *maker) nodes() (err error) {
	if m.workload.Kind.cluster != nil {
		return m.workload.Kind.cluster(m)
	}
	m.workload.Nodes, err = inventory(m.size)
	return err
}

// surround makes the objects that are no pod's own.
func (m *maker) surround() {
	w := m.workload
	if w.Kind.shared != nil {
		w.Objects = append(w.Objects, w.Kind.shared()...)
	}
	if w.Kind.node != nil {
		for _, n := range w.Nodes {
			w.Objects = append(w.Objects, w.Kind.node(n.Name)...)
		}
	}
	if w.Kind.app != nil {
		for i := range m.apps {
			w.Objects = append(w.Objects, w.Kind.app(m.app(i))...)
		}
	}
}

// app is the workload that the ith pod is of.
func (m *maker) app(i int) string { return fmt.Sprintf("app-%d", i%m.apps) }

// pod is the ith on nodes or the ith that waits.
func (m *maker) pod(name string, i int, on *v1.Node) *v1.Pod {
	b := build.Pod(name).Namespace(namespace)
	if on != nil {
		b.Node(on.Name)
	}
	m.workload.Objects = append(m.workload.Objects, m.workload.Kind.pod(m, b, i, on)...)
	return b.Obj()
}

// fullCluster has one pod on every node: it leaves room for several of the kind's pods on three nodes in
// ten, for a twentieth more than there are to decide, and for none on the others.
func fullCluster(m *maker) (err error) {
	w := m.workload
	if w.Nodes, err = inventory(m.size); err != nil {
		return err
	}
	open := m.order[:max(len(m.order)*3/10, 1)]
	room := make([]int64, len(w.Nodes))
	for i := range m.size.Pods + m.size.Pods/20 + 1 {
		room[open[i%len(open)]]++
	}
	for i, n := range w.Nodes {
		cpu := n.Status.Allocatable.Cpu().MilliValue() - 1000*room[i] - m.Int64N(400)
		memory := n.Status.Allocatable.Memory().Value() >> 20 / 2
		if cpu <= 0 {
			return fmt.Errorf("%d pods are too many for %d nodes that are nearly full", m.size.Pods, m.size.Nodes)
		}
		name := fmt.Sprintf("placed-%d", i)
		w.Placed = append(w.Placed, build.Pod(name).Namespace(namespace).Label("app", "filler").Node(n.Name).
			CPU(fmt.Sprintf("%dm", cpu)).Memory(fmt.Sprintf("%dMi", memory-m.Int64N(1024))).Obj())
	}
	return nil
}
