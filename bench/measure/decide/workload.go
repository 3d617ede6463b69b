package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/shardsched/shardsched/bench/judge/oracle"
	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/internal/testkit/build"
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

// Workload is a cluster with pods on its nodes, and pods that wait, all of one kind. Nodes and pods are
// as our source of a cluster keeps them: without what nobody reads, and with their equal parts in common.
type Workload struct {
	Kind    Kind
	Nodes   []*v1.Node
	Objects []oracle.Object // all but nodes and pods
	Placed  []*v1.Pod
	Pods    []*v1.Pod
	// Waiting came before, and fit nowhere.
	Waiting []*v1.Pod
	// NodeBytes is what the objects of the nodes take on the heap, by the node, PodBytes what those of the
	// pods that wait take, by the pod.
	NodeBytes, PodBytes float64
	// refill makes the pods that wait once more, for a side that has taken them.
	refill func() error
}

// maker makes a workload; equal seeds make equal ones.
type maker struct {
	*rand.Rand
	source   *rand.PCG // Rand's
	keep     cache.TransformFunc
	size     Size
	workload *Workload
	apps     int
	order    []int // the nodes in an order that has nothing to do with zones or sizes
	trace    []tracePod
}

const defaultApps = 10

// NewWorkload makes the cluster and the pods of a kind.
func NewWorkload(kind Kind, size Size) (*Workload, error) {
	source := rand.NewPCG(size.Seed, uint64(size.Nodes))
	m := &maker{
		Rand: rand.New(source), source: source, keep: kube.Transform(kube.Whole{}), size: size, workload: &Workload{Kind: kind},
	}
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
			pod, objects, err := m.pod(fmt.Sprintf("placed-%d", i), i, m.workload.Nodes[m.order[i%size.Nodes]])
			if err != nil {
				return nil, err
			}
			m.workload.Placed, m.workload.Objects = append(m.workload.Placed, pod), append(m.workload.Objects, objects...)
		}
	}
	if err := m.wait(); err != nil {
		return nil, err
	}
	before = heapBytes()
	state := *m.source
	objects, err := m.pods()
	if err != nil {
		return nil, err
	}
	m.workload.Objects = append(m.workload.Objects, objects...)
	m.workload.PodBytes = float64(heapBytes()-before) / float64(max(size.Pods, 1))
	m.workload.refill = func() error {
		if !slices.Contains(m.workload.Pods, nil) {
			return nil
		}
		*m.source = state
		_, err := m.pods()
		return err
	}
	return m.workload, nil
}

// pods makes the pods that wait, and returns what belongs to them.
func (m *maker) pods() (objects []oracle.Object, err error) {
	m.workload.Pods = make([]*v1.Pod, m.size.Pods)
	for i := range m.workload.Pods {
		pod, more, err := m.pod(fmt.Sprintf("pod-%d", i), i, nil)
		if err != nil {
			return nil, err
		}
		m.workload.Pods[i], objects = pod, append(objects, more...)
	}
	return objects, nil
}

// nodes makes the nodes, and of kinds with clusters of their own the pods that are there.
func (m *maker) nodes() (err error) {
	if m.workload.Kind.cluster != nil {
		err = m.workload.Kind.cluster(m)
	} else {
		err = m.inventory()
	}
	for _, p := range m.workload.Placed {
		err = errors.Join(err, m.kept(p))
	}
	return err
}

// kept makes an object what our source keeps of it.
func (m *maker) kept(obj any) error {
	_, err := m.keep(obj)
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
			w.Objects = append(w.Objects, w.Kind.node(n)...)
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

// pod is the ith on nodes or the ith that waits, and what belongs to it.
func (m *maker) pod(name string, i int, on *v1.Node) (*v1.Pod, []oracle.Object, error) {
	b := build.Pod(name).Namespace(namespace)
	if on != nil {
		b.Node(on.Name)
	}
	objects := m.workload.Kind.pod(m, b, i, on)
	pod := b.Obj()
	return pod, objects, m.kept(pod)
}

// fullCluster has one pod on every node: it leaves room for several of the kind's pods on three nodes in
// ten, for a twentieth more than there are to decide, and for none on the others.
func fullCluster(m *maker) (err error) {
	w := m.workload
	if err := m.inventory(); err != nil {
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
