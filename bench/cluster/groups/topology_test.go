package groups

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

func topology() map[string]func(*rig.Rig) {
	return map[string]func(*rig.Rig){
		"a gang that fits in no rack waits, and nobody leaves for it": fitsNoRack,
		"of racks that hold all members the fuller is taken":          fullerRack,
		"a rack that holds more members goes before a fuller one":     moreMembers,
		"a late member is held to the rack of its mates":              pinned,
		"nodes without the label are in no domain":                    unlabelled,
		"two gangs each get a rack":                                   rackEach,
		"a pod group without a constraint goes anywhere":              unconstrained,
		"pods of the basic policy share a rack":                       basicInRack,
		"room in one rack starts a gang, room in two does not":        roomInOneRack,
		"members of a gang in a rack push nobody":                     pushesNobody,
	}
}

// in are the racks of the members that have nodes.
func in(r *rig.Rig, pods []*v1.Pod) map[string]int {
	out := map[string]int{}
	for _, p := range pods {
		n, err := r.Admin.CoreV1().Nodes().Get(r.Context(), p.Spec.NodeName, metav1.GetOptions{})
		r.Must(err)
		out[n.Labels[rack]]++
	}
	return out
}

// all fails where not all members are in one rack.
func all(r *rig.Rig, pods []*v1.Pod, want string) {
	r.T.Helper()
	if got := in(r, pods); got[want] != len(pods) {
		r.T.Errorf("got racks %v, want all %d members in %s", got, len(pods), want)
	}
}

const noRack = "0/2 placements are available, first placement status: " + unschedulable

func fitsNoRack(r *rig.Rig) {
	on(r, inRack("a1", "r1", 2), inRack("b1", "r2", 2))
	r.Create(build.Gang("norack", 3).Within(rack).Obj())
	r.Create(members("norack", 3)...)
	condition(r, "norack", metav1.ConditionFalse, "Unschedulable", noRack)
	nobody(r, "norack", 3)
	r.Create(inRack("b2", "r2", 1))
	all(r, started(r, "norack", 3), "r2")
}

func fullerRack(r *rig.Rig) {
	on(r, inRack("a1", "r1", 4), inRack("b1", "r2", 4))
	r.Create(build.Pod("there").Node("a1").CPU("1").Obj(), build.Gang("fuller", 3).Within(rack).Obj())
	r.Settle("b1")
	r.Create(members("fuller", 3)...)
	all(r, started(r, "fuller", 3), "r1")
}

func moreMembers(r *rig.Rig) {
	on(r, inRack("a1", "r1", 4), inRack("b1", "r2", 4))
	r.Create(build.Pod("in-the-way").Node("a1").CPU("1").Obj())
	r.Settle("b1")
	// All four are there when they are tried first.
	r.Create(members("more", 4)...)
	nobody(r, "more", 4)
	r.Create(build.Gang("more", 3).Within(rack).Obj())
	all(r, started(r, "more", 4), "r2")
}

func pinned(r *rig.Rig) {
	on(r, inRack("a1", "r1", 2), inRack("b1", "r2", 4))
	r.Create(build.Gang("pinned", 2).Within(rack).Obj(), member("pinned", 0).Node("a1").Obj(), member("pinned", 1).Obj())
	r.Goes("default/pinned-1", "a1")
	r.Create(member("pinned", 2).Obj())
	told(r, "default/pinned-2", "0/1 nodes are available: 1 "+noCPU)
	r.Create(inRack("a2", "r1", 1))
	r.Goes("default/pinned-2", "a2")
}

func unlabelled(r *rig.Rig) {
	on(r, slots("a", 4).Obj())
	r.Create(build.Gang("nowhere", 2).Within(rack).Obj())
	r.Create(members("nowhere", 2)...)
	condition(r, "nowhere", metav1.ConditionFalse, "Unschedulable", "no feasible placements found")
	for _, key := range keysOf("nowhere", 2) {
		told(r, key, "no feasible placements found")
	}
	r.Label("a", rack, "r1")
	started(r, "nowhere", 2)
}

func rackEach(r *rig.Rig) {
	on(r, inRack("a1", "r1", 2), inRack("b1", "r2", 2))
	for _, group := range []string{"left", "right"} {
		r.Create(build.Gang(group, 2).Within(rack).Obj())
		r.Create(members(group, 2)...)
	}
	left, right := in(r, started(r, "left", 2)), in(r, started(r, "right", 2))
	if len(left) != 1 || len(right) != 1 || left["r1"] == right["r1"] {
		r.T.Errorf("got racks %v and %v, want one for each", left, right)
	}
}

func unconstrained(r *rig.Rig) {
	on(r, inRack("a1", "r1", 1), inRack("b1", "r2", 1))
	r.Create(build.Gang("anywhere", 2).Obj())
	r.Create(members("anywhere", 2)...)
	if got := in(r, started(r, "anywhere", 2)); len(got) != 2 {
		r.T.Errorf("got racks %v, want both", got)
	}
}

func basicInRack(r *rig.Rig) {
	on(r, inRack("a1", "r1", 1), inRack("b1", "r2", 1))
	r.Create(build.PodGroup("together").Within(rack).Obj())
	r.Create(members("together", 2)...)
	condition(r, "together", metav1.ConditionTrue, "Scheduled", "")
	bound, waits := 0, ""
	for _, p := range r.Until("are decided", rig.IsDecided, keysOf("together", 2)...) {
		if p.Spec.NodeName != "" {
			bound++
		} else {
			waits = p.Name
		}
	}
	if bound != 1 {
		r.T.Fatalf("got %d members on nodes, want 1: the other is held to the rack", bound)
	}
	told(r, "default/"+waits, "0/1 nodes are available: 1 "+noCPU)
}

func roomInOneRack(r *rig.Rig) {
	on(r, inRack("a1", "r1", 2), inRack("b1", "r2", 2))
	r.Create(build.Pod("on-a").Node("a1").CPU("1").Obj(), build.Pod("on-b").Node("b1").CPU("1").Obj())
	r.Settle("b1")
	r.Create(build.Gang("oneroom", 2).Within(rack).Obj())
	r.Create(members("oneroom", 2)...)
	condition(r, "oneroom", metav1.ConditionFalse, "Unschedulable", noRack)
	nobody(r, "oneroom", 2)
	r.Delete("default/on-b")
	all(r, started(r, "oneroom", 2), "r2")
}

// pushesNobody has a gang that would fit if one pod left, which no member of it asks for.
func pushesNobody(r *rig.Rig) {
	on(r, inRack("a1", "r1", 2), inRack("b1", "r2", 2))
	r.Create(build.Pod("weak-a").Node("a1").CPU("1").Priority(1).Obj(), build.Pod("weak-b").Node("b1").CPU("1").Priority(1).Obj())
	r.Settle("b1")
	r.Create(build.Gang("patient", 2).Within(rack).Priority(100).Obj())
	for _, p := range coming("patient", "1", 100, 2) {
		r.Create(p.Obj())
	}
	condition(r, "patient", metav1.ConditionFalse, "Unschedulable", noRack)
	r.Must(r.Pods.Never(r.Context(), time.Second, "leaves", isLeaving, "default/weak-a", "default/weak-b"))
}

// A scheduler that is told of pod groups where the API server does not serve them says so, and what to do about it.
func TestAPINotServed(t *testing.T) {
	if rig.Upstream() {
		t.Skip("kube-scheduler waits for ever") // which is why ours does not
	}
	r := rig.New(t, testbed.Config{})
	if _, err := r.Bed.Coordinator(t.Context(), testbed.Scheduler{Args: []string{"--feature-gates=GenericWorkload=true"}}); err == nil {
		t.Fatal("the coordinator starts, want an error")
	}
	said := r.Logs(40)
	for _, want := range []string{"scheduling.k8s.io/v1alpha2", "--runtime-config"} {
		if !strings.Contains(said, want) {
			t.Errorf("got\n%s\nwithout %q", said, want)
		}
	}
}
