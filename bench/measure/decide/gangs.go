package main

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/shardsched/shardsched/bench/judge/oracle"
	podgroups "github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// Racks of nodes, and blocks of racks.
const (
	rackLabel, blockLabel = "example.com/rack", "example.com/block"
	rackNodes, blockRacks = 32, 16
	gangSize              = 8
	waitingGangs          = 5000
)

// gangKinds are the kinds of pods that are decided together.
func gangKinds() []Kind {
	gangs := Kind{
		Name: "gangs", Named: true, About: "10,000 gangs of eight pods, all of which must fit", apps: 1, pods: 10000 * gangSize, gang: gangSize,
		pod: ofGang("", modest),
	}
	one := gangs
	one.Name, one.About = "gang-1000", "a gang of 1,000 pods, all of which must fit"
	one.pods, one.gang, one.pod = 1000, 1000, ofGang("", modest)
	topology := gangs
	topology.Name, topology.About = "gangs-topology", "gangs of eight pods with a CPU each, in one rack: of 32 nodes, in blocks of 16 racks"
	topology.pods, topology.perNode, topology.domain, topology.cluster = 1000*gangSize, 8, rackLabel, racks
	topology.pod = ofGang(rackLabel, whole)
	churn := Kind{
		Name: "churn", Named: true, About: "a hundred pods at a time come, and leave before others come, where nothing else fits",
		apps: 1, leave: 100, cluster: crowded, pod: modest,
	}
	waiting := churn
	waiting.Name, waiting.About = "gangs-waiting", "the same, while 5,000 gangs of eight pods wait that don't fit"
	waiting.waiting, waiting.gang = waitingGangs*gangSize, gangSize
	return []Kind{gangs, one, topology, churn, waiting}
}

// gates are those of pod groups that a kind needs.
func (k *Kind) gates() podgroups.Gates {
	return podgroups.Gates{Workload: k.gang > 0, Gang: k.gang > 0, Topology: k.domain != ""}
}

// ofGang makes pods members of gangs, each as large as the kind says but for what is left over for the last, in a domain of a key
// where there is one.
func ofGang(key string, pod func(*maker, *build.PodBuilder, int, *v1.Node) []oracle.Object) func(*maker, *build.PodBuilder, int,
	*v1.Node) []oracle.Object {
	return func(m *maker, b *build.PodBuilder, i int, on *v1.Node) []oracle.Object {
		pod(m, b, i, on)
		if on != nil {
			return nil
		}
		size := m.workload.Kind.gang
		name := fmt.Sprintf("gang-%d", i/size)
		b.Member(name)
		if i%size > 0 {
			return nil
		}
		return []oracle.Object{gang(name, min(size, m.size.Pods-i), key)}
	}
}

// gang is a pod group all of whose members must fit, in a domain of a key where there is one.
func gang(name string, size int, key string) oracle.Object {
	b := build.Gang(name, int32(size)).Namespace(namespace)
	if key != "" {
		b.Within(key)
	}
	return b.Obj()
}

// withMates is how many of the first pods are n and the mates of the last of them.
func withMates(pods []*v1.Pod, n int) int {
	n = min(n, len(pods))
	if n == 0 || pods[n-1].Spec.SchedulingGroup == nil {
		return n
	}
	for n < len(pods) && reflect.DeepEqual(pods[n].Spec.SchedulingGroup, pods[n-1].Spec.SchedulingGroup) {
		n++
	}
	return n
}

// racks are the inventory's nodes, in racks and blocks; the first rack may lack some.
func racks(m *maker) error {
	if err := m.inventory(); err != nil {
		return err
	}
	lacks := m.IntN(rackNodes)
	for i, n := range m.workload.Nodes {
		rack := (i + lacks) / rackNodes
		n.Labels[rackLabel] = fmt.Sprintf("rack-%d", rack)
		n.Labels[blockLabel] = fmt.Sprintf("block-%d", rack/blockRacks)
	}
	return nil
}

// crowded has one pod on every node, which leaves no room for a pod with a whole CPU, and some for modest ones.
func crowded(m *maker) error {
	if err := m.inventory(); err != nil {
		return err
	}
	for i, n := range m.workload.Nodes {
		cpu := n.Status.Allocatable.Cpu().MilliValue() - 900 + m.Int64N(100)
		m.workload.Placed = append(m.workload.Placed, build.Pod(fmt.Sprintf("placed-%d", i)).Namespace(namespace).Label("app", "filler").
			Node(n.Name).CPU(fmt.Sprintf("%dm", cpu)).Memory("1Gi").Obj())
	}
	return nil
}

// wait makes the members of gangs that find no room.
func (m *maker) wait() error {
	w := m.workload
	for i := range w.Kind.waiting {
		name := fmt.Sprintf("waits-%d", i/w.Kind.gang)
		if i%w.Kind.gang == 0 {
			w.Objects = append(w.Objects, gang(name, w.Kind.gang, ""))
		}
		pod := build.Pod(fmt.Sprintf("%s-%d", name, i%w.Kind.gang)).Namespace(namespace).Member(name).CPU("2").Memory("1Gi").Obj()
		w.Waiting = append(w.Waiting, pod)
		if err := m.kept(pod); err != nil {
			return err
		}
	}
	return nil
}

// cycles is kube-scheduler's own loop, with its cycle of pod groups.
type cycles struct {
	scheduler *oracle.Scheduler
	leave     int // the kind's
	made      []decision
	stop      func()
}

// upstreamWaiting is how many of the gangs that wait upstream has, which takes seconds for ten.
const upstreamWaiting = 20

func newCycles(ctx context.Context, w *Workload, percent int32) (*cycles, error) {
	restore, err := oracle.PodGroups(oracle.Gates{Topology: w.Kind.domain != ""})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &cycles{leave: w.Kind.leave, stop: func() { cancel(); restore() }}
	if err := c.fill(ctx, w, percent); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

// fill puts all in but the pods that are measured.
func (c *cycles) fill(ctx context.Context, w *Workload, percent int32) error {
	config, err := oracle.DefaultConfig()
	if err != nil {
		return err
	}
	if c.scheduler, err = oracle.NewScheduler(ctx, config, percent); err != nil {
		return err
	}
	var all []oracle.Object
	for _, n := range w.Nodes {
		all = append(all, n)
	}
	all = append(all, w.Objects...)
	for _, p := range w.Placed {
		all = append(all, p)
	}
	for _, obj := range all {
		if err := c.scheduler.Set(obj); err != nil {
			return err
		}
	}
	_, err = c.decide(ctx, w.Waiting[:min(len(w.Waiting), upstreamWaiting*w.Kind.gang)], time.Hour)
	return err
}

// decide decides gangs one after the other, and pods without one. Those of turns leave before others come.
func (c *cycles) decide(ctx context.Context, pods []*v1.Pod, limit time.Duration) (int, error) {
	began, n := time.Now(), 0
	var there []*v1.Pod
	for len(pods) > n {
		if time.Since(began) > limit {
			return n, nil
		}
		if c.leave > 0 && len(there) == c.leave {
			for _, p := range there {
				if err := c.scheduler.Remove(p); err != nil {
					return n, err
				}
			}
			there = nil
		}
		together := withMates(pods[n:], 1)
		placed, err := c.attempt(ctx, pods[n:n+together])
		if err != nil {
			return n, err
		}
		there, n = append(there, placed...), n+together
	}
	return n, nil
}

// attempt has pods come, which are a gang or one pod, and decides them.
func (c *cycles) attempt(ctx context.Context, pods []*v1.Pod) (placed []*v1.Pod, err error) {
	for _, p := range pods {
		if err := c.scheduler.Set(p); err != nil {
			return nil, err
		}
	}
	bound, _, err := c.scheduler.Next(ctx, len(pods))
	if err != nil {
		return nil, err
	}
	for _, p := range pods {
		node := bound[p.UID]
		c.made = append(c.made, decision{UID: string(p.UID), Node: node})
		if node != "" {
			p = ptr.To(*p)
			p.Spec.NodeName = node
			placed = append(placed, p)
		}
	}
	return placed, nil
}

// decisions are those since the last call.
func (c *cycles) decisions() ([]decision, error) { return slices.Clone(c.made), nil }

func (c *cycles) end() error {
	c.stop()
	return nil
}
