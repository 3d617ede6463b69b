package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/bench/judge/oracle"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// golden is a cluster with a pod group, whose first attempt kube-scheduler's own loop and ours make.
type golden struct {
	name     string
	topology bool
	whole    bool     // workload-aware preemption is on
	nodes    []string // "name slots" or "name slots rack"
	there    []string // nodes of pods that take a slot, of priority 0
	group    *schedulingv1alpha2.PodGroup
	members  int
	change   func(i int, p *build.PodBuilder)
	// bound is how many are placed, and racks where. leave is how many have to leave.
	bound int
	racks string
	leave int
	// condition is what the PodGroup is told; empty: that is not compared.
	condition string
}

// outcome is what becomes of a first attempt: nodes of those placed, messages of the others, who leaves, and what the PodGroup is told.
type outcome struct {
	nodes, messages []string
	leave           int
	condition       string
}

func (g *golden) round() (out Round) {
	for _, text := range g.nodes {
		f := strings.Fields(text)
		b := build.Node(f[0]).CPU(f[1]).Memory("64Gi").Label(v1.LabelHostname, f[0])
		if len(f) > 2 {
			b.Label(rack, f[2])
		}
		out = append(out, set(b.Obj()))
	}
	for i, node := range g.there {
		out = append(out, set(build.Pod(fmt.Sprintf("there-%d", i)).Node(node).CPU("1").Obj()))
	}
	out = append(out, set(g.group))
	for i := range g.members {
		b := build.Pod(fmt.Sprintf("member-%d", i)).Member(g.group.Name).CPU("1")
		if g.change != nil {
			g.change(i, b)
		}
		out = append(out, set(b.Obj()))
	}
	return out
}

// newUpstream is kube-scheduler's loop with gates of pod groups, which hold until restore is called.
func newUpstream(t *testing.T, gates oracle.Gates) (ctx context.Context, s *oracle.Scheduler, restore func()) {
	t.Helper()
	ctx = klog.NewContext(t.Context(), klog.Logger{})
	restore, err := oracle.PodGroups(gates)
	if err != nil {
		t.Fatal(err)
	}
	c, err := oracle.DefaultConfig()
	if err == nil {
		s, err = oracle.NewScheduler(ctx, c, 100)
	}
	if err != nil {
		restore()
		t.Fatal(err)
	}
	return ctx, s, restore
}

// upstream is what kube-scheduler's loop makes of the first attempt.
func (g *golden) upstream(t *testing.T) (out outcome) {
	t.Helper()
	ctx, s, restore := newUpstream(t, oracle.Gates{Topology: g.topology, Preemption: g.whole, Sync: true})
	defer restore()
	tried := g.members
	for _, e := range g.round() {
		if err := s.Set(e.Object); err != nil {
			t.Fatal(err)
		}
		if p, ok := e.Object.(*v1.Pod); ok && len(p.Spec.SchedulingGates) > 0 {
			tried--
		}
	}
	bound, failed, err := s.Next(ctx, tried)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range bound {
		out.nodes = append(out.nodes, node)
	}
	for _, f := range failed {
		out.messages = append(out.messages, f.Message)
	}
	out.leave = len(s.Evicted())
	_, out.condition = s.Condition()
	return out
}

// ours is the same of our scheduler.
func (g *golden) ours(t *testing.T) (out outcome) {
	t.Helper()
	s := &Scenario{PodGroups: &PodGroups{Topology: g.topology, Preemption: g.whole}, Rounds: []Round{g.round(), nil}}
	decisions := decideAll(t, s, Split{Shards: 2, Batch: 16}, func(own *ours, round int) {
		if round == 0 {
			return
		}
		all, err := own.scheduler.PodGroups(t.Context(), &pb.ListPodGroupsRequest{})
		if err != nil || len(all.PodGroups) != 1 {
			t.Fatalf("got pod groups %v, error %v", all, err)
		}
		out.condition = all.PodGroups[0].Verdict
	})
	for _, d := range attemptOf(decisions[0]) {
		if out.leave += len(d.Victims); g.whole && d.Nominated != "" {
			out.leave++ // each to a node of its own, with one pod
		}
		if d.Node != "" {
			out.nodes = append(out.nodes, d.Node)
		} else {
			out.messages = append(out.messages, d.Message)
		}
	}
	return out
}

// racksOf are the racks of nodes, sorted.
func (g *golden) racksOf(nodes []string) string {
	var out []string
	for _, text := range g.nodes {
		if f := strings.Fields(text); len(f) > 2 && slices.Contains(nodes, f[0]) {
			out = append(out, f[2])
		}
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " ")
}

func TestFirstAttemptsAreKubeSchedulers(t *testing.T) {
	gate := func(i int, p *build.PodBuilder) {
		if i == 0 {
			p.Gate("example.com/gate")
		}
	}
	large := func(i int, p *build.PodBuilder) {
		if i == 1 {
			p.CPU("3")
		}
	}
	high := func(_ int, p *build.PodBuilder) { p.Priority(1000) }
	unlike := func(i int, p *build.PodBuilder) { p.Priority(int32(i)).Label("i", fmt.Sprint(i)) }
	gang := func(least int32) *schedulingv1alpha2.PodGroup { return build.Gang("g", least).Obj() }
	inRack := func(least int32) *schedulingv1alpha2.PodGroup { return build.Gang("g", least).Within(rack).Obj() }
	for _, g := range []golden{
		{name: "three members, two slots", nodes: []string{"a 1", "b 1"}, group: gang(3), members: 3},
		{name: "two of three needed, two slots", nodes: []string{"a 1", "b 1"}, group: gang(2), members: 3, bound: 2},
		{name: "basic, one slot", nodes: []string{"a 1"}, group: build.PodGroup("g").Obj(), members: 3, bound: 1},
		{name: "basic, no slot", nodes: []string{"a 1"}, there: []string{"a"}, group: build.PodGroup("g").Obj(), members: 2},
		{name: "a mate with a gate", nodes: []string{"a 2"}, group: gang(2), members: 2, change: gate},
		{name: "a mate that fits nowhere, and is not needed", nodes: []string{"a 2", "b 1"}, group: gang(2), members: 3, change: large, bound: 2},
		{name: "a mate that fits nowhere, and is needed", nodes: []string{"a 2", "b 1"}, group: gang(3), members: 3, change: large},
		{name: "members of several priorities", nodes: []string{"a 2", "b 1"}, group: gang(2), members: 4, change: unlike, bound: 3},
		{name: "no constraint, with the gate", topology: true, nodes: []string{"a 1"}, group: gang(2), members: 2},
		{name: "no rack has room", topology: true, nodes: []string{"a 2 r1", "b 2 r2"}, group: inRack(3), members: 3},
		{name: "no node has a rack", topology: true, nodes: []string{"a 2"}, group: inRack(2), members: 2},
		{name: "the fuller rack", topology: true, nodes: []string{"a 4 r1", "b 4 r2"}, there: []string{"a"}, group: inRack(3), members: 3,
			bound: 3, racks: "r1"},
		{name: "the rack for all", topology: true, nodes: []string{"a 4 r1", "b 4 r2"}, there: []string{"a"}, group: inRack(3), members: 4,
			bound: 4, racks: "r2"},
		{name: "a member beyond the quorum that preempts", nodes: []string{"a 2", "b 1"}, there: []string{"b"}, group: gang(2), members: 3,
			change: high, leave: 1},
		{name: "no member of the PodGroup's priority", whole: true, nodes: []string{"a 1", "b 1"}, there: []string{"a", "b"}, group: gang(2),
			members: 2, change: high, condition: "pod group is unschedulable, No preemption victims found for incoming preemptor"},
		{name: "too few could leave", whole: true, nodes: []string{"a 1", "b 1"}, there: []string{"a"},
			group: build.Gang("g", 3).Priority(1000).Obj(), members: 3, change: high, condition: "pod group is unschedulable, pod group is unschedulable"},
		{name: "too few could leave, with the gate", topology: true, whole: true, nodes: []string{"a 1", "b 1"}, there: []string{"a"},
			group: build.Gang("g", 3).Priority(1000).Obj(), members: 3, change: high, condition: "0/1 placements are available, first placement " +
				"status: pod group is unschedulable, 0/1 placements are available, first placement status: pod group is unschedulable"},
		{name: "as many leave as the quorum needs", whole: true, nodes: []string{"a 1", "b 1", "c 1", "d 1"}, there: []string{"a", "b", "c", "d"},
			group: build.Gang("g", 2).Priority(1000).Obj(), members: 4, change: high, leave: 2},
		{name: "basic in a rack", topology: true, nodes: []string{"a 1 r1", "b 2 r2"}, group: build.PodGroup("g").Within(rack).Obj(),
			members: 3, bound: 2, racks: "r2"},
	} {
		t.Run(g.name, func(t *testing.T) {
			upstream, own := g.upstream(t), g.ours(t)
			for who, o := range map[string]outcome{"upstream": upstream, "ours": own} {
				if len(o.nodes) != g.bound || g.racks != "" && g.racksOf(o.nodes) != g.racks || o.leave != g.leave ||
					!strings.HasPrefix(o.condition, g.condition) {
					t.Fatalf("%s: got %+v, want %d placed in %q, %d to leave, and condition %q", who, o, g.bound, g.racks, g.leave, g.condition)
				}
			}
			slices.Sort(upstream.messages)
			slices.Sort(own.messages)
			for i, want := range upstream.messages {
				if i >= len(own.messages) || !strings.HasPrefix(own.messages[i], want) {
					t.Errorf("got messages\n%s\nwant such that begin so\n%s", strings.Join(own.messages, "\n"), strings.Join(upstream.messages, "\n"))
					return
				}
			}
		})
	}
}

// Golden case 6: a gang that lacks a member is not tried; the one that completes it has all tried at once.
func TestAGangWaitsForItsLastMember(t *testing.T) {
	g := golden{nodes: []string{"a 2"}, group: build.Gang("g", 2).Obj(), members: 2}
	all := g.round()
	first, last := all[:len(all)-1], all[len(all)-1:]

	ctx, s, restore := newUpstream(t, oracle.Gates{})
	defer restore()
	for i, round := range []Round{first, last} {
		for _, e := range round {
			if err := s.Set(e.Object); err != nil {
				t.Fatal(err)
			}
		}
		active := s.SchedulingQueue.PodsInActiveQ()
		if got, want := len(active), 2*i; got != want {
			t.Errorf("upstream, round %d: %d pods may be tried, want %d", i, got, want)
		}
	}
	if bound, failed, err := s.Next(ctx, 2); err != nil || len(bound) != 2 || len(failed) != 0 {
		t.Errorf("upstream binds %v, fails %v, error %v, want both bound at once", bound, failed, err)
	}
	rounds := decideAll(t, &Scenario{PodGroups: &PodGroups{}, Rounds: []Round{first, last}}, Split{Shards: 2, Batch: 16})
	if len(rounds[0]) != 0 || len(placed(rounds[1:])) != 2 {
		t.Errorf("got %v, want nobody tried, and then both placed", rounds)
	}
}

// Golden case 5, to its end: the member without a gate is tried, and held back; both are placed once the gate is taken away.
func TestAGangWaitsForAGate(t *testing.T) {
	g := golden{nodes: []string{"a 2"}, group: build.Gang("g", 2).Obj(), members: 2}
	g.change = func(i int, p *build.PodBuilder) {
		if i == 1 {
			p.Gate("example.com/gate")
		}
	}
	first := g.round()
	gated := first[len(first)-1].Object.(*v1.Pod)
	free := gated.DeepCopy()
	free.Spec.SchedulingGates = nil

	ctx, s, restore := newUpstream(t, oracle.Gates{})
	defer restore()
	for _, e := range first {
		if err := s.Set(e.Object); err != nil {
			t.Fatal(err)
		}
	}
	bound, failed, err := s.Next(ctx, 1)
	if err != nil || len(bound) != 0 || len(failed) != 1 || failed[0].Message != held {
		t.Fatalf("upstream binds %v, fails %v, error %v, want one held back", bound, failed, err)
	}
	s.Cache.UpdatePodGroupMember(klog.Logger{}, gated, free)
	s.SchedulingQueue.Update(ctx, gated, free)
	waits := map[string]*v1.Pod{} // out of its backoff
	for _, p := range s.SchedulingQueue.PodsInBackoffQ() {
		waits[p.Namespace+"/"+p.Name] = p
	}
	s.SchedulingQueue.Activate(klog.Logger{}, waits)
	if bound, failed, err = s.Next(ctx, 2); err != nil || len(bound) != 2 || len(failed) != 0 || len(waits) != 1 {
		t.Errorf("upstream binds %v, fails %v, error %v, with %d in backoff, want both bound, and one", bound, failed, err, len(waits))
	}

	rounds := decideAll(t, &Scenario{PodGroups: &PodGroups{}, Rounds: []Round{first, {set(free)}}}, Split{Shards: 2, Batch: 16})
	if tried := rounds[0]; len(tried) != 1 || !strings.HasPrefix(tried[0].Message, held) || len(placed(rounds[1:])) != 2 {
		t.Errorf("got %v, want one held back, and then both placed", rounds)
	}
}
