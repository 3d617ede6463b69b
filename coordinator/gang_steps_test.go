package coordinator

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// clocked is a trial that looks at a clock, which each look moves by step.
type clocked struct {
	*trial
	now  time.Time
	step time.Duration
}

func newClocked(t *testing.T, cfg SchedulerConfig, step time.Duration, podGroups []*v1alpha2.PodGroup, all *objects.Snapshot) *clocked {
	t.Helper()
	x := &clocked{trial: newTrial(t, cfg, 0), now: epoch, step: step}
	t.Cleanup(x.fanout.Close)
	x.cfg.Now = func() time.Time {
		x.now = x.now.Add(x.step)
		return x.now
	}
	x.budget.free = false
	for _, g := range podGroups {
		x.groups.Set(g)
	}
	x.Load(all, nil)
	return x
}

// once is one turn of the loop.
func (x *clocked) once() { x.Scheduler.turn(quiet(), x.cfg.Now()) }

func (x *clocked) standing(namespace string) *groups.Verdict {
	return x.groups.Get(types.NamespacedName{Namespace: namespace, Name: "g"}).Verdict()
}

func (x *clocked) placed(uid types.UID) bool {
	_, node, _ := x.state.Pod(uid)
	return node != ""
}

// mixed is a gang of three that ask for different things in one domain each, in a namespace, of which two fit on most of the hosts.
func mixed(namespace string) (*v1alpha2.PodGroup, []*v1.Pod) {
	var pods []*v1.Pod
	for i, cpu := range []string{"900m", "1", "1100m"} {
		name := fmt.Sprint(namespace, i)
		pods = append(pods, build.Pod(name).Namespace(namespace).UID(name).CPU(cpu).Member("g").Obj())
	}
	return build.Gang("g", 3).Namespace(namespace).Within("host").Obj(), pods
}

const mixedHosts = 24

// mixedScene has so many mixed gangs, and a plain pod behind them. The last host has room for one of the gangs.
func mixedScene(gangs int, room string) (podGroups []*v1alpha2.PodGroup, all *objects.Snapshot) {
	all = &objects.Snapshot{}
	for i := range mixedHosts {
		cpu, name := "2", fmt.Sprintf("h%02d", i)
		if i == mixedHosts-1 {
			cpu = room
		}
		all.Nodes = append(all.Nodes, build.Node(name).CPU(cpu).Memory("64Gi").Pods("110").Label("host", name).Obj())
	}
	for i := range gangs {
		g, pods := mixed(string(rune('a' + i)))
		podGroups, all.Pods = append(podGroups, g), append(all.Pods, pods...)
	}
	all.Pods = append(all.Pods, build.Pod("plain").UID("plain").CPU("100m").Obj())
	for i, p := range all.Pods {
		p.ResourceVersion = fmt.Sprint(i + 1)
	}
	return podGroups, all
}

// Gangs whose members differ are tried in a few domains at a time, and others go first. In the end each is tried wherever it may fit.
func TestGangsThatTakeLongAreTriedInSteps(t *testing.T) {
	const gangs = 6
	podGroups, all := mixedScene(gangs, "4")
	x := newClocked(t, topologyConfig(2, false), time.Millisecond, podGroups, all)
	tried := func() (n int) {
		for _, sim := range x.simulations {
			n += len(sim.tried)
		}
		return n
	}
	for x.once(); !x.placed("plain"); x.once() {
	}
	if n := tried(); n > mixedHosts/2 {
		t.Errorf("a pod waits for tries of gangs in %d domains", n)
	}
	if n := x.queue.Aside(queue.ForGangs); n != 3*gangs {
		t.Errorf("%d pods of gangs are set aside, want all", n)
	}
	if note := x.explainedIn(t, "a", "a0", 0).GetNote(); note == "" {
		t.Error("nothing is said of why a pod of a gang waits")
	}
	for turns := 0; x.queue.Aside(queue.ForGangs) > 0; turns++ {
		if turns == 100_000 {
			t.Fatalf("%d pods are still set aside", x.queue.Aside(queue.ForGangs))
		}
		x.once()
		x.now = x.now.Add(x.aside.GangsRest())
	}
	starts := 0
	for i := range gangs {
		v := x.standing(string(rune('a' + i)))
		switch {
		case v == nil:
			t.Fatalf("gang %d has no verdict", i)
		case v.State == groups.Scheduled:
			starts++
		case v.DomainFits != 2:
			t.Errorf("gang %d: %s", i, v.Line())
		}
	}
	if starts != 1 || len(x.simulations) != 0 {
		t.Errorf("%d gangs have started, and %d are remembered, want the one that fits and none", starts, len(x.simulations))
	}
}

// What happens in a domain that a gang was tried in before counts: the gang is tried again.
func TestRoomThatComesBetweenStepsIsSeen(t *testing.T) {
	podGroups, all := mixedScene(1, "2")
	cfg := topologyConfig(2, false)
	cfg.MaxBackoff = -1
	x := newClocked(t, cfg, time.Millisecond, podGroups, all)
	name := types.NamespacedName{Namespace: "a", Name: "g"}
	for x.simulations[name] == nil || len(x.simulations[name].tried) == 0 {
		x.once()
	}
	var seen string
	for d := range x.simulations[name].tried {
		seen = x.simulations[name].tree.Value(d)
	}
	x.event(&objects.Event{Type: objects.Modified, Kind: objects.KindNode,
		Node: build.Node(seen).CPU("4").Memory("64Gi").Pods("110").Label("host", seen).Obj()})
	for turns := 0; !x.placed("a0"); turns++ {
		if turns == 100_000 {
			t.Fatalf("the gang has no room on %s: %s", seen, x.standing("a").Line())
		}
		x.once()
		x.now = x.now.Add(x.aside.GangsRest())
	}
}

// After victims were looked for that make room for a gang no other gang has them looked for, for three times as long: others go first.
func TestSearchesForVictimsOfGangsRest(t *testing.T) {
	const took = 100 * time.Millisecond
	nodes, pods := lowPods(2)
	var podGroups []*v1alpha2.PodGroup
	namespaces := []string{"a", "a", "a", "b"}
	for i, ns := range namespaces {
		group := fmt.Sprint("g", i)
		podGroups = append(podGroups, build.Gang(group, 3).Namespace(ns).Priority(1000).Obj()) // more than there are nodes
		for k := range 3 {
			name := fmt.Sprint(group, "-", k)
			pods = append(pods, build.Pod(name).Namespace(ns).UID(name).CPU("1").Priority(10).Member(group).Obj())
		}
	}
	pods = append(pods, build.Pod("plain").UID("plain").CPU("0").Obj())
	for i, p := range pods {
		p.ResourceVersion = fmt.Sprint(i + 1)
	}
	cfg := wholeGangs()
	cfg.MaxBackoff = 0
	x := newClocked(t, cfg, 0, podGroups, &objects.Snapshot{Nodes: nodes, Pods: pods})
	searches := 0
	x.preempt.Now = func() time.Time { // each search asks once
		searches++
		x.now = x.now.Add(took)
		return epoch
	}
	for x.once(); !x.placed("plain"); x.once() {
	}
	if searches != 1 {
		t.Errorf("a pod waits for %d searches for victims, want one", searches)
	}
	stands := func(i int) groups.State {
		return x.groups.Get(types.NamespacedName{Namespace: namespaces[i], Name: fmt.Sprint("g", i)}).Standing().State
	}
	for i, next := range []int{0, 1, 3, 2} { // namespaces take turns
		if stands(next) != groups.Unschedulable || searches != i+1 {
			t.Errorf("after %d searches gang %d is %v", searches, next, stands(next))
		}
		if i == len(namespaces)-1 {
			break
		}
		for range 4 {
			x.once()
		}
		if searches != i+1 {
			t.Error("victims are looked for while others have their time")
		}
		if d := x.untilWake(); d <= 0 || d > 3*took {
			t.Errorf("the loop may sleep for %v, want until gangs have rested", d)
		}
		x.now = x.now.Add(3 * took)
		for range 4 {
			x.once()
		}
	}
}
