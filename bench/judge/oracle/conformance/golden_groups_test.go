package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/bench/judge/oracle"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// golden is a cluster with a pod group, whose first attempt kube-scheduler's own loop and ours make.
type golden struct {
	name     string
	topology bool
	nodes    []string // "name slots" or "name slots rack"
	there    []string // nodes of pods that take a slot
	group    *schedulingv1alpha2.PodGroup
	members  int
	change   func(i int, p *build.PodBuilder)
	// bound is how many are placed, and racks where.
	bound int
	racks string
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

// upstream is what kube-scheduler's loop makes of the first attempt: nodes of those placed, messages of the others.
func (g *golden) upstream(t *testing.T) (nodes, messages []string) {
	t.Helper()
	ctx := klog.NewContext(t.Context(), klog.Logger{})
	restore, err := oracle.PodGroups(oracle.Gates{Topology: g.topology})
	if err != nil {
		t.Fatal(err)
	}
	defer restore()
	c, err := oracle.DefaultConfig()
	if err != nil {
		t.Fatal(err)
	}
	s, err := oracle.NewScheduler(ctx, c, 100)
	if err != nil {
		t.Fatal(err)
	}
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
		nodes = append(nodes, node)
	}
	for _, f := range failed {
		messages = append(messages, f.Message)
	}
	return nodes, messages
}

// ours is the same of our scheduler.
func (g *golden) ours(t *testing.T) (nodes, messages []string) {
	t.Helper()
	s := &Scenario{PodGroups: &PodGroups{Topology: g.topology}, Rounds: []Round{g.round()}}
	first := attemptOf(decideAll(t, s, Split{Shards: 2, Batch: 16})[0])
	for _, d := range first {
		if d.Node != "" {
			nodes = append(nodes, d.Node)
		} else {
			messages = append(messages, d.Message)
		}
	}
	return nodes, messages
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
		{name: "basic in a rack", topology: true, nodes: []string{"a 1 r1", "b 2 r2"}, group: build.PodGroup("g").Within(rack).Obj(),
			members: 3, bound: 2, racks: "r2"},
	} {
		t.Run(g.name, func(t *testing.T) {
			nodes, messages := g.upstream(t)
			if len(nodes) != g.bound || g.racks != "" && g.racksOf(nodes) != g.racks {
				t.Fatalf("upstream places %v, want %d in %q", nodes, g.bound, g.racks)
			}
			own, said := g.ours(t)
			if len(own) != g.bound || g.racks != "" && g.racksOf(own) != g.racks {
				t.Fatalf("got %v placed, want %d in %q; said %q", own, g.bound, g.racks, said)
			}
			slices.Sort(messages)
			slices.Sort(said)
			for i, want := range messages {
				if i >= len(said) || !strings.HasPrefix(said[i], want) {
					t.Errorf("got messages\n%s\nwant such that begin so\n%s", strings.Join(said, "\n"), strings.Join(messages, "\n"))
					return
				}
			}
		})
	}
}
