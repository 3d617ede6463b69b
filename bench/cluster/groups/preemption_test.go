package groups

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// push is a cluster, and pods that come for whom others have to leave, or may not.
type push struct {
	name    string
	nodes   []runtime.Object
	groups  []*build.PodGroupBuilder
	there   []*build.PodBuilder // have nodes
	come    []*build.PodBuilder // one after the other
	leave   string              // all of those that are there and leave, with blanks between
	starts  bool                // those that come, in the end; else they wait
	told    string              // what the PodGroup of those that wait is told, from its beginning
	evictor string              // who they leave for, as they are told
}

// pushes are what upstream's test of this has, TestPodGroupPreemption, in its order.
func pushes() []push {
	return []push{
		{
			name: "a gang takes a node from all that are on it", evictor: "podgroup", leave: "a1 a2 a3", starts: true,
			nodes: nodes(slots("a", 3)), there: holding("a", "1", 10, 10, 10),
			groups: list(build.Gang("full", 3).Priority(100)), come: coming("full", "1", 100, 3),
		},
		{
			name: "pods of the basic policy take a node one by one", evictor: "podgroup", leave: "a1 a2 a3", starts: true,
			nodes: nodes(slots("a", 3)), there: holding("a", "1", 10, 10, 10),
			groups: list(build.PodGroup("full-basic").Priority(100)), come: coming("full-basic", "1", 100, 3),
		},
		{
			name: "as few leave as the gang lacks room for", evictor: "podgroup", leave: "a1", starts: true,
			nodes: nodes(slots("a", 2), slots("b", 2)), there: slices.Concat(holding("a", "2", 10), holding("b", "1", 10)),
			groups: list(build.Gang("part", 3).Priority(100)), come: coming("part", "1", 100, 3),
		},
		{
			name: "pods of the basic policy take what is free, and push the least important", evictor: "podgroup", leave: "b1", starts: true,
			nodes: nodes(slots("a", 2), slots("b", 2)), there: slices.Concat(holding("a", "1", 10), holding("b", "2", 5)),
			groups: list(build.PodGroup("part-basic").Priority(100)), come: coming("part-basic", "1", 100, 3),
		},
		{
			name: "pods stay that a budget keeps", evictor: "podgroup", leave: "a3", starts: true,
			nodes: nodes(slots("a", 3)), there: kept(holding("a", "1", 10, 10, 10), 2),
			groups: list(build.Gang("budget", 2).Priority(100)), come: coming("budget", "500m", 100, 2),
		},
		{
			name: "a gang takes several nodes", evictor: "podgroup", leave: "a1 a2 b1 b2", starts: true,
			nodes: nodes(slots("a", 2), slots("b", 2)), there: slices.Concat(holding("a", "1", 10, 10), holding("b", "1", 10, 10)),
			groups: list(build.Gang("several", 4).Priority(100)), come: coming("several", "1", 100, 4),
		},
		{
			name: "nobody leaves for a gang that does not fit without them", told: unschedulable,
			nodes: nodes(slots("a", 3)), there: holding("a", "1", 500, 10, 10),
			groups: list(build.Gang("short", 3).Priority(100)), come: coming("short", "1", 100, 3),
		},
		{
			name: "the least important leave", evictor: "podgroup", leave: "a2 a3", starts: true,
			nodes: nodes(slots("a", 3)), there: holding("a", "1", 50, 10, 10),
			groups: list(build.Gang("least", 2).Priority(100)), come: coming("least", "1", 100, 2),
		},
		{
			name: "a gang that leaves as one does so though one pod were enough", evictor: "podgroup", leave: "a1 a2 a3", starts: true,
			nodes: nodes(slots("a", 3)), there: mates("whole-victim", holding("a", "1", 10, 10, 10)),
			groups: list(build.Gang("whole-victim", 3).Priority(10).Whole(), build.Gang("only", 1).Priority(100)), come: coming("only", "1", 100, 1),
		},
		{
			name: "so does a pod group of the basic policy", evictor: "podgroup", leave: "a1 a2 a3", starts: true,
			nodes: nodes(slots("a", 3)), there: mates("basic-victim", holding("a", "1", 10, 10, 10)),
			groups: list(build.PodGroup("basic-victim").Priority(10).Whole(), build.Gang("one-more", 1).Priority(100)), come: coming("one-more", "1", 100, 1),
		},
		{
			name: "a pod group's own priority counts, not its pods'", evictor: "podgroup", leave: "a1 a2 a3", starts: true,
			nodes: nodes(slots("a", 3)), there: mates("proud", holding("a", "1", 100, 100, 100)),
			groups: list(build.Gang("proud", 3).Priority(10).Whole(), build.Gang("humble", 1).Priority(100)), come: coming("humble", "1", 10, 1),
		},
		{
			name: "nobody leaves for a pod group of a lower priority, whatever its pods'", told: unschedulable + ", No preemption victims found",
			nodes: nodes(slots("a", 3)), there: mates("strong", holding("a", "1", 10, 10, 10)),
			groups: list(build.Gang("strong", 3).Priority(100).Whole(), build.Gang("weak", 1).Priority(10)), come: coming("weak", "1", 100, 1),
		},
		{
			name: "for a pod without a pod group one pod leaves, whatever its pod group wants", evictor: "pod", leave: "a3", starts: true,
			nodes: nodes(slots("a", 3)), there: mates("picked", holding("a", "1", 30, 20, 10)),
			groups: list(build.Gang("picked", 1).Priority(10).Whole()), come: []*build.PodBuilder{build.Pod("alone").CPU("1").Priority(100)},
		},
	}
}

func nodes(all ...*build.NodeBuilder) (out []runtime.Object) {
	for _, n := range all {
		out = append(out, n.Obj())
	}
	return out
}

func list(groups ...*build.PodGroupBuilder) []*build.PodGroupBuilder { return groups }

// holding are pods of a node, a1 and so on, one for each priority.
func holding(node, cpu string, priorities ...int32) (out []*build.PodBuilder) {
	for i, p := range priorities {
		out = append(out, build.Pod(fmt.Sprintf("%s%d", node, i+1)).Node(node).CPU(cpu).Priority(p))
	}
	return out
}

// coming are the members of a pod group.
func coming(group, cpu string, priority int32, n int) (out []*build.PodBuilder) {
	for i := range n {
		out = append(out, build.Pod(fmt.Sprintf("%s-%d", group, i)).Member(group).CPU(cpu).Priority(priority))
	}
	return out
}

// mates makes pods members of a pod group.
func mates(group string, pods []*build.PodBuilder) []*build.PodBuilder {
	for _, p := range pods {
		p.Member(group)
	}
	return pods
}

// kept are pods of which a budget keeps the first.
func kept(pods []*build.PodBuilder, n int) []*build.PodBuilder {
	for _, p := range pods[:n] {
		p.Label("app", "kept")
	}
	return pods
}

// budget lets no pod go that has the label.
func budget() *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kept"}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "kept"}}
	return b
}

// preemption are stories of pod groups that preempt as one.
func preemption() map[string]func(*rig.Rig) {
	all := map[string]func(*rig.Rig){}
	for _, x := range pushes() {
		all[x.name] = x.run
	}
	return all
}

func (x *push) run(r *rig.Rig) {
	on(r, x.nodes...)
	for _, g := range x.groups {
		r.Create(g.Obj())
	}
	at := map[string]*v1.Pod{}
	for _, b := range x.there {
		p := prompt(b)
		r.Create(p)
		at[p.Name] = r.Until("are there", testbed.IsBound, "default/"+p.Name)[0]
	}
	r.Settle(x.nodes[len(x.nodes)-1].(*v1.Node).Name)
	var keys []string
	for _, b := range x.come {
		p := prompt(b)
		r.Create(p)
		keys = append(keys, "default/"+p.Name)
	}
	if x.starts {
		r.Until("are bound", testbed.IsBound, keys...)
	} else {
		condition(r, *x.come[0].Obj().Spec.SchedulingGroup.PodGroupName, metav1.ConditionFalse, "Unschedulable", x.told)
		r.Must(r.Pods.Never(r.Context(), time.Second, "is bound", testbed.IsBound, keys...))
	}
	leave := strings.Fields(x.leave)
	for name := range at {
		if got, want := r.Pods.Get("default/"+name) == nil, slices.Contains(leave, name); got != want {
			r.T.Errorf("%s has left: %t, want %t", name, got, want)
		}
	}
	for _, name := range leave {
		evicted(r, at[name], "Preempted by "+x.evictor+" ")
	}
}

// prompt is a pod that is gone as soon as it is told to leave.
func prompt(b *build.PodBuilder) *v1.Pod {
	p := b.Obj()
	p.Spec.TerminationGracePeriodSeconds = new(int64)
	return p
}

func isLeaving(p *v1.Pod) bool { return p == nil || p.DeletionTimestamp != nil }

// evicted waits until a pod that has left was told so in an event that begins so.
func evicted(r *rig.Rig, p *v1.Pod, note string) {
	r.T.Helper()
	r.Await(p.Name+" is told that it was "+note, func(ctx context.Context) (got string, yes bool) {
		all, err := r.Admin.EventsV1().Events("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error(), false
		}
		for i := range all.Items {
			if e := &all.Items[i]; e.Regarding.UID == p.UID && e.Reason == "Preempted" {
				got = e.Note
			}
		}
		return got, strings.HasPrefix(got, note)
	})
}
