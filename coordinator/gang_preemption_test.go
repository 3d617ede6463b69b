package coordinator

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

const byWholeGang = " no new claims to deallocate, preemption: not eligible due to workload aware preemption enabled"

// wholeGangs has workload-aware preemption on.
func wholeGangs() SchedulerConfig {
	return SchedulerConfig{Profiles: withPreemption(), Groups: groups.Gates{Workload: true, Gang: true, Preemption: true}, MaxBackoff: -1}
}

// lowPods are pods of priority 0 that take a CPU each, one on each node n0, n1 and so on.
func lowPods(n int) (nodes []*v1.Node, pods []*v1.Pod) {
	for i := range n {
		nodes = append(nodes, nodesOf("1", fmt.Sprint("n", i))...)
		pods = append(pods, build.Pod(fmt.Sprint("low", i)).UID(fmt.Sprint("low", i)).CPU("1").Node(fmt.Sprint("n", i)).Obj())
	}
	return nodes, pods
}

// leavers are the victims of evictions so far.
func (a *fakeEvictor) leavers() (names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.told {
		for _, v := range e.Victims {
			names = append(names, v.Name)
		}
	}
	slices.Sort(names)
	return names
}

func short(nodes int) string {
	return fmt.Sprintf("0/%d nodes are available: %d Insufficient cpu.", nodes, nodes) + byWholeGang
}

// Golden case 12: as many leave as a quorum needs, once; their rooms are held for the members until they are placed.
func TestAGangPreemptsForItsQuorum(t *testing.T) {
	evictor, cfg := &fakeEvictor{}, wholeGangs()
	cfg.Evictor = evictor
	nodes, pods := lowPods(4)
	x := playGang(t, cfg, build.Gang("g", 2).Priority(1000).Obj(), nodes, append(pods, members("a", "b", "c", "d")...)...)
	x.want(t, "a: "+short(4)+" -> n2", "b: "+short(4)+" -> n3", "c: "+short(4), "d: "+short(4))
	x.wantVerdict(t, groups.Preempting, 0, "pod group is unschedulable")
	if got, want := evictor.leavers(), []string{"low2", "low3"}; !slices.Equal(got, want) || len(evictor.told) != 1 {
		t.Fatalf("got victims %v in %d evictions, want %v in one", got, len(evictor.told), want)
	}
	e := evictor.told[0]
	if got, want := e.Message(), "default-scheduler: preempting to accommodate a higher priority podgroup"; got != want {
		t.Errorf("got condition %q, want %q", got, want)
	}
	if got, want := e.Note(false), "Preempted by podgroup g on node cluster"; got != want {
		t.Errorf("got event %q, want %q", got, want)
	}
	const gated = "waiting for the preemption for this pod group to be finished"
	if got := x.queue.Get("a"); got == nil || x.preemptions.gated == nil {
		t.Errorf("got %v, want the member to be gated: %s", got, gated)
	} else if _, held := x.preemptions.gated["a"]; !held {
		t.Error("a member is not gated while its victims are told to leave")
	}
	evictor.done[0](nil)
	for _, v := range e.Victims {
		x.event(&objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: v})
	}
	x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: build.Pod("thief").UID("thief").CPU("1").Obj()})
	x.turn(t)
	placed := map[string]string{}
	for _, d := range x.decided(t) {
		placed[d.Pod] = d.Node
	}
	if placed["default/thief"] != "" || placed["default/a"] != "n2" || placed["default/b"] != "n3" {
		t.Errorf("got placements %v, want a on n2, b on n3, and the thief on none", placed)
	}
}

// Golden case 11: the PodGroup's priority counts, not its pods'.
func TestAGangPreemptsByThePriorityOfItsPodGroup(t *testing.T) {
	nodes, pods := lowPods(2)
	for _, name := range []string{"a", "b"} {
		pods = append(pods, member1(name).Priority(1000).Obj())
	}
	x := playGang(t, wholeGangs(), build.Gang("g", 2).Obj(), nodes, pods...)
	x.want(t, "a: "+short(2), "b: "+short(2))
	x.wantVerdict(t, groups.Unschedulable, 0, "pod group is unschedulable, No preemption victims found for incoming preemptor")
}

// A pod group of the basic policy pushes one pod an attempt, for the next member when one is placed: no event tells who is beyond it that
// somebody may have to leave.
func TestAPodGroupThatFitsInPartPreemptsForTheOthers(t *testing.T) {
	evictor, cfg := &fakeEvictor{}, wholeGangs()
	cfg.Evictor = evictor
	nodes, pods := lowPods(3)
	x := playGang(t, cfg, build.PodGroup("g").Priority(1000).Obj(), nodes, append(pods, members("a", "b", "c")...)...)
	for i, want := range []string{"low2", "low1", "low0"} {
		if len(evictor.told) != i+1 || len(evictor.told[i].Victims) != 1 || evictor.told[i].Victims[0].Name != want {
			t.Fatalf("eviction %d: got %v, want %s last", i, evictor.leavers(), want)
		}
		evictor.done[i](nil)
		x.event(&objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: evictor.told[i].Victims[0]})
		x.turn(t)
	}
	if got := x.groups.Get(x.group).Scheduled(); got != 3 {
		t.Errorf("got %d members placed, want all", got)
	}
}

// Golden case 3 with workload-aware preemption: a quorum that fits is placed, and nobody leaves for who is beyond it before that.
func TestAGangWithAQuorumPreemptsNobody(t *testing.T) {
	low := build.Pod("low").UID("low").CPU("1").Node("m").Obj()
	x := playGang(t, wholeGangs(), build.Gang("g", 2).Priority(10).Obj(), append(nodesOf("2", "n"), nodesOf("1", "m")...),
		append(members("a", "b", "c"), low)...)
	if got := x.groups.Get(x.group).Scheduled(); got < 2 {
		t.Errorf("got %d members placed, want the quorum", got)
	}
	if first := x.decided(t); first[0].Node != "n" || first[1].Node != "n" || first[2].Node != "" || first[2].Nominated != "" {
		t.Errorf("got decisions %v, want the quorum placed at once, and c refused", first[:3])
	}
}

// Who may not preempt says why.
func TestAGangSaysWhyItDoesNotPreempt(t *testing.T) {
	never := member1("a").Obj()
	policy := v1.PreemptNever
	never.Spec.PreemptionPolicy = &policy
	for name, c := range map[string]struct {
		cfg   func(*SchedulerConfig)
		group *build.PodGroupBuilder
		pods  []*v1.Pod
		want  string
	}{
		"preemptionPolicy": {group: build.Gang("g", 1).Priority(9), pods: []*v1.Pod{never}, want: "not eligible due to preemptionPolicy=Never."},
		"constraints": {
			cfg:   func(c *SchedulerConfig) { c.Groups.Topology = false },
			group: build.Gang("g", 1).Priority(9).Within("rack"), pods: members("a"),
			want: "workload aware preemption is not supported for pod groups with scheduling constraints",
		},
		"no plugin": {
			cfg:   func(c *SchedulerConfig) { c.Profiles = withoutPreemption() },
			group: build.Gang("g", 1).Priority(9), pods: members("a"),
			want: "default preemption plugin is not registered, workload aware preemption is disabled",
		},
		"too large": {
			group: build.Gang("g", 3).Priority(9), pods: members("a", "b", "c"), want: "pod group is unschedulable",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := wholeGangs()
			if c.cfg != nil {
				c.cfg(&cfg)
			}
			nodes, pods := lowPods(2)
			x := playGang(t, cfg, c.group.Obj(), nodes, append(pods, c.pods...)...)
			x.wantVerdict(t, groups.Unschedulable, 0, "pod group is unschedulable, "+c.want)
		})
	}
}

// A PodGroup with disruptionMode PodGroup leaves as one, or not at all.
func TestAPodGroupLeavesWhole(t *testing.T) {
	evictor, cfg := &fakeEvictor{}, wholeGangs()
	cfg.Evictor = evictor
	var nodes []*v1.Node
	pods := members("a")
	for i, name := range []string{"u", "v"} {
		nodes = append(nodes, nodesOf("1", fmt.Sprint("n", i))...)
		pods = append(pods, build.Pod(name).UID(name).CPU("1").Node(fmt.Sprint("n", i)).Member("victims").Priority(50).Obj())
	}
	x := &gangScene{trial: newTrial(t, cfg, 0), group: types.NamespacedName{Namespace: "default", Name: "g"}}
	t.Cleanup(x.fanout.Close)
	x.groups.Set(build.Gang("g", 1).Priority(10).Obj())
	x.groups.Set(build.Gang("victims", 2).Whole().Priority(5).Obj())
	x.Load(&objects.Snapshot{Nodes: nodes, Pods: pods}, nil)
	x.turn(t)
	if got, want := evictor.leavers(), []string{"u", "v"}; !slices.Equal(got, want) {
		t.Errorf("got victims %v, want %v: the whole PodGroup, by its own priority", got, want)
	}
}

// Members that are not alike are placed once, and only those leave that are in their way.
func TestAGangOfSeveralClassesPreempts(t *testing.T) {
	evictor, cfg := &fakeEvictor{}, wholeGangs()
	cfg.Evictor = evictor
	nodes, pods := lowPods(2)
	nodes = append(nodes, nodesOf("3", "large")...)
	for _, name := range []string{"p", "q", "r"} {
		pods = append(pods, build.Pod(name).UID(name).CPU("1").Node("large").Obj())
	}
	pods = append(pods, member1("leader").CPU("2").Priority(1).Obj(), member1("w").Obj())
	x := playGang(t, cfg, build.Gang("g", 2).Priority(10).Obj(), nodes, pods...)
	got := evictor.leavers()
	if len(got) != 3 {
		t.Errorf("got victims %v, want three: two of the large node for the leader, and one for the worker", got)
	}
	for _, uid := range []types.UID{"leader", "w"} {
		if p := x.queue.Get(uid); p == nil || p.NominatedNode == "" {
			t.Errorf("member %s is nominated to no node", uid)
		}
	}
	if p := x.queue.Get("leader"); p.NominatedNode != "large" {
		t.Errorf("the leader is nominated to %q, want the large node", p.NominatedNode)
	}
}

// Members that need more than their requests tell find victims one by one, by the PodGroup's priority.
func TestAGangWithPortsPreempts(t *testing.T) {
	evictor, cfg := &fakeEvictor{}, wholeGangs()
	cfg.Evictor = evictor
	var nodes []*v1.Node
	var pods []*v1.Pod
	for i := range 2 {
		name := fmt.Sprint("n", i)
		nodes = append(nodes, nodesOf("4", name)...)
		pods = append(pods, build.Pod("low-"+name).UID("low-"+name).CPU("1").HostPort("", v1.ProtocolTCP, 80).Node(name).Obj())
	}
	for _, name := range []string{"a", "b"} {
		pods = append(pods, member1(name).HostPort("", v1.ProtocolTCP, 80).Obj())
	}
	x := playGang(t, cfg, build.Gang("g", 2).Priority(10).Obj(), nodes, pods...)
	if got, want := evictor.leavers(), []string{"low-n0", "low-n1"}; !slices.Equal(got, want) {
		t.Errorf("got victims %v, want %v", got, want)
	}
	if v := x.groups.Get(x.group).Verdict(); v.State != groups.Preempting {
		t.Errorf("got verdict %+v, want that room is being made", v)
	}
}

// With topology, those leave that are worth the least, and all of one domain.
func TestAGangPreemptsInTheCheapestDomain(t *testing.T) {
	evictor, cfg := &fakeEvictor{}, wholeGangs()
	cfg.Evictor, cfg.TopologyPreemption, cfg.Groups.Topology = evictor, true, true
	var nodes []*v1.Node
	var pods []*v1.Pod
	for i, priority := range []int32{5, 5, 0, 3, 1, 2} {
		name := fmt.Sprint("n", i)
		n := nodesOf("1", name)[0]
		n.Labels = map[string]string{"rack": fmt.Sprint("r", i/2)}
		nodes = append(nodes, n)
		pods = append(pods, build.Pod("low-"+name).UID("low-"+name).CPU("1").Priority(priority).Node(name).Obj())
	}
	x := playGang(t, cfg, build.Gang("g", 2).Priority(10).Within("rack").Obj(), nodes, append(pods, members("a", "b")...)...)
	if got, want := evictor.leavers(), []string{"low-n4", "low-n5"}; !slices.Equal(got, want) {
		t.Errorf("got victims %v, want %v", got, want)
	}
	if a, b := x.queue.Get("a"), x.queue.Get("b"); a.NominatedNode == "" || b.NominatedNode == "" {
		t.Errorf("members are nominated to %q and %q, want a node of the rack each", a.NominatedNode, b.NominatedNode)
	}
}

// Where no domain would have room though pods left, the PodGroup's sentence says so.
func TestADomainWithTooFewVictims(t *testing.T) {
	cfg := wholeGangs()
	cfg.TopologyPreemption, cfg.Groups.Topology = true, true
	nodes, pods := lowPods(4)
	for i, n := range nodes {
		n.Labels = map[string]string{"rack": fmt.Sprint("r", i/2)}
	}
	x := playGang(t, cfg, build.Gang("g", 3).Priority(10).Within("rack").Obj(), nodes, append(pods, members("a", "b", "c")...)...)
	x.wantVerdict(t, groups.Unschedulable, 0, "0/2 placements are available, first placement status: pod group is unschedulable, "+
		"preemption would not make enough room in any domain")
}

// A member that has pods leave a node takes no nomination from a mate of lower priority that is nominated there with it.
func TestMatesAreNominatedToOneNode(t *testing.T) {
	evictor, cfg := &fakeEvictor{}, SchedulerConfig{Profiles: withPreemption(), MaxBackoff: -1}
	cfg.Evictor = evictor
	low := build.Pod("low").UID("low").CPU("1").Node("n").Obj()
	light := build.Pod("light").UID("light").Member("g").Priority(5).Obj()
	x := playGang(t, cfg, build.Gang("g", 2).Obj(), nodesOf("2", "n"), low, member1("large").CPU("2").Priority(10).Obj(), light)
	x.want(t, "large: 0/1 nodes are available: 1 Insufficient cpu. -> n", "light: "+preemptingGroup+" -> n")
	for _, uid := range []types.UID{"large", "light"} {
		if got := x.queue.Get(uid).Nomination(); got != "n" {
			t.Errorf("%s is nominated to %q, want n", uid, got)
		}
	}
	if got := evictor.leavers(); !slices.Equal(got, []string{"low"}) || len(evictor.told[0].Lower) != 0 {
		t.Errorf("%v leave, and %d lose their nominations, want low, and none", got, len(evictor.told[0].Lower))
	}
}

// Of the domains that may take a gang victims are looked for in 16: the 17th would be cheaper, and is not looked at.
func TestVictimsOfAGangAreLookedForInSixteenDomains(t *testing.T) {
	evictor, cfg := &fakeEvictor{}, wholeGangs()
	cfg.Evictor, cfg.TopologyPreemption, cfg.Groups.Topology = evictor, true, true
	nodes, pods := lowPods(17)
	for i, n := range nodes {
		n.Labels = map[string]string{"rack": fmt.Sprintf("r%02d", i)}
		pods[i].Spec.Priority = new(int32(20 - i))
	}
	x := playGang(t, cfg, build.Gang("g", 1).Priority(100).Within("rack").Obj(), nodes, append(pods, members("a")...)...)
	if got, want := evictor.leavers(), []string{"low15"}; !slices.Equal(got, want) {
		t.Errorf("got victims %v, want %v, the cheapest of the first 16 domains", got, want)
	}
	if a := x.queue.Get("a"); a.NominatedNode != "n15" {
		t.Errorf("the member is nominated to %q, want n15", a.NominatedNode)
	}
}

// Members of 16 kinds are looked at together; those of more find victims one by one. As many pods leave.
func TestAGangOfManyClassesPreempts(t *testing.T) {
	for _, kinds := range []int{16, 17} {
		t.Run(fmt.Sprint(kinds), func(t *testing.T) {
			evictor, cfg := &fakeEvictor{}, wholeGangs()
			cfg.Evictor = evictor
			nodes, pods := lowPods(kinds)
			for i := range kinds {
				name := fmt.Sprintf("m%02d", i)
				pods = append(pods, build.Pod(name).UID(name).CPU(fmt.Sprint(900+i, "m")).Member("g").Obj())
			}
			x := playGang(t, cfg, build.Gang("g", int32(kinds)).Priority(10).Obj(), nodes, pods...)
			if got := evictor.leavers(); len(got) != kinds {
				t.Errorf("got %d victims, want %d: %v", len(got), kinds, got)
			}
			if v := x.groups.Get(x.group).Verdict(); v.State != groups.Preempting {
				t.Errorf("got verdict %+v, want that room is being made", v)
			}
		})
	}
}
