package groups

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// What members and pod groups are told.
const (
	unschedulable = "pod group is unschedulable"
	quorumMissed  = unschedulable + ", waiting for minCount pods from a gang to be scheduled, one or more plugins asked to wait and no " +
		"plugin rejected pod"
	noCPU = "Insufficient cpu."
	rack  = "example.com/rack"
)

// served has the API server serve pod groups with all that they may ask for.
var served = testbed.Config{APIServerArgs: []string{
	"--runtime-config=scheduling.k8s.io/v1alpha2=true",
	"--feature-gates=GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true,WorkloadAwarePreemption=true",
}}

// TestPodGroups tells stories on one API server, with schedulers whose gates beside GenericWorkload and GangScheduling are these.
func TestPodGroups(t *testing.T) {
	r := rig.New(t, served)
	r.Create(budget())
	for _, x := range []struct {
		name, gates string
		flags       []string // ours
		stories     map[string]func(*rig.Rig)
	}{
		{"gangs", "", nil, gangs()}, {"topology", ",TopologyAwareWorkloadScheduling=true", nil, topology()},
		{"preemption", ",WorkloadAwarePreemption=true", nil, preemption()},
		{"reservation", "", []string{"--gang-reservation"}, reservation()},
	} {
		if len(x.flags) > 0 && rig.Upstream() {
			continue // it has no such flag
		}
		r.Args = append([]string{"--feature-gates=GenericWorkload=true,GangScheduling=true" + x.gates}, x.flags...)
		r.Start("")
		t.Run(x.name, func(t *testing.T) { stories(r, t, x.stories) })
	}
}

// stories runs each on an empty cluster. Names of pod groups are theirs alone: one stays as long as it is protected.
func stories(r *rig.Rig, t *testing.T, all map[string]func(*rig.Rig)) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) { all[name](r.With(t)) })
	}
}

// slots is a node with room for so many members, more one in a rack.
func slots(name string, n int) *build.NodeBuilder {
	return build.Node(name).CPU(fmt.Sprint(n)).Memory("64Gi").Label(v1.LabelHostname, name)
}

func inRack(name, in string, n int) runtime.Object { return slots(name, n).Label(rack, in).Obj() }

// member takes a slot.
func member(group string, i int) *build.PodBuilder {
	return build.Pod(fmt.Sprintf("%s-%d", group, i)).Member(group).CPU("1")
}

// members are so many.
func members(group string, n int) (out []runtime.Object) {
	for i := range n {
		out = append(out, member(group, i).Obj())
	}
	return out
}

// keysOf are those of the first members.
func keysOf(group string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("default/%s-%d", group, i))
	}
	return out
}

// on creates nodes that the scheduler knows when it returns.
func on(r *rig.Rig, nodes ...runtime.Object) {
	r.T.Helper()
	r.Create(nodes...)
	r.Settle(nodes[len(nodes)-1].(*v1.Node).Name)
}

// condition waits until a pod group has one that begins so.
func condition(r *rig.Rig, group string, status metav1.ConditionStatus, reason, message string) {
	r.T.Helper()
	r.Await("the condition of pod group "+group+" is "+string(status), func(ctx context.Context) (string, bool) {
		g, err := r.Admin.SchedulingV1alpha2().PodGroups("default").Get(ctx, group, metav1.GetOptions{})
		if err != nil {
			return err.Error(), false
		}
		c := meta.FindStatusCondition(g.Status.Conditions, schedulingv1alpha2.PodGroupScheduled)
		if c == nil {
			return "none", false
		}
		got := fmt.Sprintf("%s/%s: %s, of generation %d", c.Status, c.Reason, c.Message, c.ObservedGeneration)
		return got, c.Status == status && c.Reason == reason && strings.HasPrefix(c.Message, message) && c.ObservedGeneration == g.Generation
	})
}

// started waits until all have a node, and the pod group says so.
func started(r *rig.Rig, group string, n int) []*v1.Pod {
	r.T.Helper()
	pods := r.Until("are bound", testbed.IsBound, keysOf(group, n)...)
	condition(r, group, metav1.ConditionTrue, "Scheduled", "")
	return pods
}

// told waits until a member is told something that begins so.
func told(r *rig.Rig, key, message string) {
	r.T.Helper()
	r.Until(fmt.Sprintf("are told %q", message), func(p *v1.Pod) bool {
		return testbed.IsUnschedulable(p) && strings.HasPrefix(testbed.ScheduledCondition(p).Message, message)
	}, key)
}

// nobody fails where one of the members gets a node within a second.
func nobody(r *rig.Rig, group string, n int) {
	r.T.Helper()
	r.Must(r.Pods.Never(r.Context(), time.Second, "is bound", testbed.IsBound, keysOf(group, n)...))
}

func gangs() map[string]func(*rig.Rig) {
	return map[string]func(*rig.Rig){
		"a gang that does not fit waits as a whole":                waitsWhole,
		"a gang starts with as many as it needs":                   startsWithQuorum,
		"a member beyond the quorum waits for its victim with all": waitsForVictim,
		"pods of the basic policy are placed as far as they fit":   basic,
		"a mate with a gate is missed, and not counted":            gatedMate,
		"too few members are not tried":                            tooFew,
		"a late member joins its gang":                             lateMember,
		"members come before their pod group":                      groupComesLate,
		"two gangs for the room of one: the first starts, whole":   twoGangs,
		"of two gangs the more important goes first":               moreImportant,
		"a pod that leaves makes room for a whole gang":            roomForAll,
		"members of two schedulers are refused":                    twoSchedulers,
		"a member that is replaced starts beside its mates":        replaced,
		"members that have to be apart are apart from mates, too":  apart,
		"members spread over zones":                                spread,
		"Kueue's pods: gates, then nodes for each of its topology": kueueShaped,
		"a pod without a pod group does not wait behind a gang":    singleGoesOn,
		"a gang of two classes starts whole or not at all":         twoClasses,
		"members on nodes count, whoever put them there":           placedByOthers,
		"a gang whose member is deleted starts with the others":    deletedMember,
		"members of a gang push others one by one":                 pushesOneByOne(build.Gang("pushers", 3), "pushers"),
		"pods of the basic policy push others one by one":          pushesOneByOne(build.PodGroup("basic-pushers"), "basic-pushers"),
	}
}

func waitsWhole(r *rig.Rig) {
	on(r, slots("a", 1).Obj(), slots("b", 1).Obj())
	r.Create(build.Gang("whole", 3).Obj())
	r.Create(members("whole", 3)...)
	for _, key := range keysOf("whole", 3) {
		r.Until("are told why", testbed.IsUnschedulable, key)
	}
	held, unfit := 0, 0
	for _, key := range keysOf("whole", 3) {
		switch m := testbed.ScheduledCondition(r.Pods.Get(key)).Message; {
		case strings.HasPrefix(m, quorumMissed):
			held++
		case strings.HasPrefix(m, "0/2 nodes are available: 2 "+noCPU):
			unfit++
		default:
			r.T.Errorf("%s is told %q", key, m)
		}
	}
	if held != 2 || unfit != 1 {
		r.T.Errorf("got %d members held back and %d that don't fit, want 2 and 1", held, unfit)
	}
	condition(r, "whole", metav1.ConditionFalse, "Unschedulable", unschedulable)
	nobody(r, "whole", 3)
	r.Create(slots("c", 1).Obj())
	started(r, "whole", 3)
}

func startsWithQuorum(r *rig.Rig) {
	on(r, slots("a", 2).Obj())
	r.Create(build.Gang("quorum", 2).Obj())
	r.Create(members("quorum", 2)...)
	started(r, "quorum", 2)
	r.Create(member("quorum", 2).Obj())
	told(r, "default/quorum-2", "0/1 nodes are available: 1 "+noCPU)
	condition(r, "quorum", metav1.ConditionTrue, "Scheduled", "")
	r.Create(slots("b", 1).Obj())
	r.Goes("default/quorum-2", "b")
}

func waitsForVictim(r *rig.Rig) {
	on(r, slots("a", 3).Obj())
	victim := build.Pod("victim").Node("a").CPU("1").Priority(1).Obj()
	r.Create(victim, build.Gang("pushes", 2).Obj())
	for i := range 3 {
		r.Create(member("pushes", i).Priority(10).Gate("example.com/together").Obj())
	}
	for _, key := range keysOf("pushes", 3) {
		r.PatchPod(key, `{"spec": {"schedulingGates": null}}`)
	}
	if rig.Upstream() {
		return // its members come one by one, as gates open
	}
	r.Until("are leaving or are bound", func(p *v1.Pod) bool { return p == nil || p.DeletionTimestamp != nil }, "default/victim")
	r.Delete("default/victim")
	started(r, "pushes", 3)
}

// pushesOneByOne has members take the room of a pod that one of them has leave, as a pod without a pod group would.
func pushesOneByOne(group *build.PodGroupBuilder, name string) func(*rig.Rig) {
	x := push{
		nodes: nodes(slots("a", 3)), there: holding("a", "3", 10), groups: list(group), come: coming(name, "1", 100, 3),
		evictor: "pod", leave: "a1", starts: true,
	}
	return x.run
}

func basic(r *rig.Rig) {
	on(r, slots("a", 1).Obj())
	r.Create(build.PodGroup("basic").Obj())
	r.Create(members("basic", 3)...)
	condition(r, "basic", metav1.ConditionTrue, "Scheduled", "")
	bound := 0
	for _, p := range r.Until("are decided", rig.IsDecided, keysOf("basic", 3)...) {
		if p.Spec.NodeName != "" {
			bound++
		}
	}
	if bound != 1 {
		r.T.Errorf("got %d members on the slot, want 1", bound)
	}
}

func gatedMate(r *rig.Rig) {
	on(r, slots("a", 2).Obj())
	r.Create(build.Gang("gated", 2).Obj(), member("gated", 0).Gate("example.com/gate").Obj(), member("gated", 1).Obj())
	told(r, "default/gated-1", quorumMissed)
	condition(r, "gated", metav1.ConditionFalse, "Unschedulable", unschedulable)
	r.PatchPod("default/gated-0", `{"spec": {"schedulingGates": null}}`)
	started(r, "gated", 2)
}

func tooFew(r *rig.Rig) {
	on(r, slots("a", 2).Obj())
	r.Create(build.Gang("few", 2).Obj(), member("few", 0).Obj())
	r.Must(r.Pods.Never(r.Context(), time.Second, "is told something", func(p *v1.Pod) bool {
		return p != nil && testbed.ScheduledCondition(p) != nil
	}, "default/few-0"))
	r.Create(member("few", 1).Obj())
	started(r, "few", 2)
}

func lateMember(r *rig.Rig) {
	on(r, slots("a", 3).Obj())
	r.Create(build.Gang("late", 2).Obj())
	r.Create(members("late", 2)...)
	started(r, "late", 2)
	r.Create(member("late", 2).Obj())
	r.Goes("default/late-2", "a")
}

func groupComesLate(r *rig.Rig) {
	on(r, slots("a", 2).Obj())
	r.Create(members("orphans", 2)...)
	nobody(r, "orphans", 2)
	r.Create(build.Gang("orphans", 2).Obj())
	started(r, "orphans", 2)
}

func twoGangs(r *rig.Rig) {
	on(r, slots("a", 3).Obj())
	r.Create(build.Gang("one", 3).Obj(), build.Gang("two", 3).Obj())
	for i := range 3 {
		r.Create(member("one", i).Obj(), member("two", i).Obj())
	}
	all := append(keysOf("one", 3), keysOf("two", 3)...)
	r.Until("are decided", rig.IsDecided, all...)
	first, other := "one", "two"
	if r.Pods.Get("default/two-0").Spec.NodeName != "" {
		first, other = other, first
	}
	started(r, first, 3)
	nobody(r, other, 3)
	r.Delete(keysOf(first, 3)...)
	started(r, other, 3)
}

func moreImportant(r *rig.Rig) {
	on(r, slots("a", 2).Obj())
	blocker := build.Pod("blocker").Node("a").CPU("1").Priority(1000).Obj()
	r.Create(blocker, build.Gang("lesser", 2).Obj(), build.Gang("greater", 2).Obj())
	r.Create(members("lesser", 2)...)
	for i := range 2 {
		r.Create(member("greater", i).Priority(5).Obj())
	}
	r.Until("are decided", rig.IsDecided, append(keysOf("lesser", 2), keysOf("greater", 2)...)...)
	// Until neither backs off, for a second and to the end of the second after: the first to be over goes first.
	nobody(r, "lesser", 2)
	nobody(r, "greater", 2)
	r.Delete("default/blocker")
	started(r, "greater", 2)
	nobody(r, "lesser", 2)
}

func roomForAll(r *rig.Rig) {
	on(r, slots("a", 2).Obj(), slots("b", 2).Obj())
	r.Create(build.Pod("first").Node("a").CPU("1").Obj(), build.Pod("second").Node("b").CPU("1").Obj(), build.Gang("room", 4).Obj())
	r.Create(members("room", 4)...)
	condition(r, "room", metav1.ConditionFalse, "Unschedulable", unschedulable)
	r.Delete("default/first")
	nobody(r, "room", 4)
	r.Delete("default/second")
	started(r, "room", 4)
}

func twoSchedulers(r *rig.Rig) {
	on(r, slots("a", 2).Obj())
	other := member("mixed", 1).Obj()
	other.Spec.SchedulerName = "settler"
	r.Create(build.Gang("mixed", 2).Obj(), member("mixed", 0).Obj(), other)
	r.Until("are refused", func(p *v1.Pod) bool {
		if p == nil {
			return false
		}
		c := testbed.ScheduledCondition(p)
		return c != nil && c.Reason == v1.PodReasonSchedulerError &&
			strings.HasPrefix(c.Message, "all pods in a single pod group should have the same .spec.schedulerName set, got: ")
	}, keysOf("mixed", 2)...)
}

func replaced(r *rig.Rig) {
	on(r, slots("a", 2).Obj())
	r.Create(build.Gang("worn", 2).Obj())
	r.Create(members("worn", 2)...)
	started(r, "worn", 2)
	r.Delete("default/worn-1")
	r.Create(member("worn", 2).Obj())
	r.Goes("default/worn-2", "a")
}

func apart(r *rig.Rig) {
	on(r, slots("a", 4).Obj(), slots("b", 4).Obj())
	r.Create(build.Gang("apart", 3).Obj())
	for i := range 3 {
		r.Create(member("apart", i).Label("app", "apart").Apart(build.Around(v1.LabelHostname, "app=apart")).Obj())
	}
	condition(r, "apart", metav1.ConditionFalse, "Unschedulable", unschedulable)
	nobody(r, "apart", 3)
	r.Create(slots("c", 1).Obj())
	seen := map[string]bool{}
	for _, p := range started(r, "apart", 3) {
		seen[p.Spec.NodeName] = true
	}
	if len(seen) != 3 {
		r.T.Errorf("got members on %v, want three nodes", seen)
	}
}

func spread(r *rig.Rig) {
	on(r, slots("a", 8).Zone("z1").Obj(), slots("b", 2).Zone("z2").Obj())
	r.Create(build.Gang("spread", 4).Obj())
	for i := range 4 {
		r.Create(member("spread", i).Label("app", "spread").Spread(build.Hard(v1.LabelTopologyZone, 1, "app=spread")).Obj())
	}
	in := map[string]int{}
	for _, p := range started(r, "spread", 4) {
		in[p.Spec.NodeName]++
	}
	if in["a"] != 2 || in["b"] != 2 {
		r.T.Errorf("got %v, want two members in each zone", in)
	}
}

// kueueShaped is what Kueue does with topology: pods come with gates, and get the node that it has counted on with the gate's end.
func kueueShaped(r *rig.Rig) {
	const gate = "kueue.x-k8s.io/topology"
	on(r, inRack("a1", "r1", 1), inRack("a2", "r1", 1), inRack("b1", "r2", 1), inRack("b2", "r2", 1))
	r.Create(build.Gang("kueue", 2).Obj())
	for i := range 2 {
		p := member("kueue", i).Gate(gate).Label("kueue.x-k8s.io/podset", "main").Obj()
		p.Annotations = map[string]string{"kueue.x-k8s.io/podset-required-topology": rack}
		r.Create(p)
	}
	nobody(r, "kueue", 2)
	for i, node := range []string{"b1", "b2"} {
		r.PatchPod(fmt.Sprintf("default/kueue-%d", i), fmt.Sprintf(
			`{"spec": {"schedulingGates": null, "nodeSelector": {%q: "r2", %q: %q}}}`, rack, v1.LabelHostname, node))
	}
	started(r, "kueue", 2)
	r.Goes("default/kueue-0", "b1")
	r.Goes("default/kueue-1", "b2")
}

func singleGoesOn(r *rig.Rig) {
	on(r, slots("a", 2).Obj())
	r.Create(build.Gang("large", 3).Obj())
	r.Create(members("large", 3)...)
	condition(r, "large", metav1.ConditionFalse, "Unschedulable", unschedulable)
	r.Create(build.Pod("single").CPU("1").Obj())
	r.Goes("default/single", "a")
}

func twoClasses(r *rig.Rig) {
	on(r, slots("a", 4).Label("kind", "driver").Obj(), slots("b", 1).Obj())
	r.Create(build.Gang("classes", 3).Obj())
	r.Create(member("classes", 0).NodeSelector("kind", "driver").Obj(), member("classes", 1).NodeSelector("kind", "worker").Obj(),
		member("classes", 2).NodeSelector("kind", "worker").Obj())
	condition(r, "classes", metav1.ConditionFalse, "Unschedulable", unschedulable)
	nobody(r, "classes", 3)
	r.Create(slots("c", 2).Label("kind", "worker").Obj())
	started(r, "classes", 3)
}

func placedByOthers(r *rig.Rig) {
	on(r, slots("a", 1).Obj(), slots("b", 1).Obj())
	r.Create(build.Gang("shared", 2).Obj(), member("shared", 0).Node("a").Obj(), member("shared", 1).Obj())
	r.Goes("default/shared-1", "b")
}

func deletedMember(r *rig.Rig) {
	on(r, slots("a", 2).Obj())
	r.Create(build.Gang("shrinks", 2).Obj())
	large := build.Pod("shrinks-2").Member("shrinks").CPU("1").Priority(10).Obj()
	r.Create(build.Pod("blocker-of-two").Node("a").CPU("1").Priority(1000).Obj(), large)
	r.Create(members("shrinks", 2)...)
	condition(r, "shrinks", metav1.ConditionFalse, "Unschedulable", unschedulable)
	r.Delete("default/shrinks-2", "default/blocker-of-two")
	started(r, "shrinks", 2)
}
