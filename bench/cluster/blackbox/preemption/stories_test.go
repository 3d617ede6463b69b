package preemption

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// stories are about what happens between a preemption and its end.
func stories() map[string]func(*rig.Rig) {
	return map[string]func(*rig.Rig){
		"victims take the time that they have":              testGrace,
		"a victim ends by itself":                           testEndsByItself,
		"the nominated node is deleted":                     testNodeDeleted,
		"a nomination keeps the room":                       testNominationHolds,
		"a preemptor that is deleted leaves the room":       testPreemptorDeleted,
		"nominations that yield are cleared":                testLowerNominations,
		"a victim that leaves already is not told again":    testLeavingAlready,
		"two preemptors share the nodes":                    testTwoPreemptors,
		"a pod that does not preempt comes before its time": testPatientAmongPreemptors,
		"more preemptors than nodes":                        testMorePreemptors,
	}
}

// full has a node a whose 4 CPUs a pod a1 of priority 1 has.
func full(r *rig.Rig) {
	r.Create(node("a").Obj(), low("a1", "a", "4", 1).Obj())
	r.Settle("a")
}

func testGrace(r *rig.Rig) {
	r.Controllers("kubelet")
	a1 := low("a1", "a", "4", 1).Obj()
	a1.Annotations = map[string]string{testbed.StopsAfter: "2s"}
	r.Create(node("a").Obj(), a1)
	r.Until("are running", func(p *v1.Pod) bool { return p != nil && p.Status.Phase == v1.PodRunning }, "default/a1")
	r.Settle("a")
	r.Create(preemptor("4").Obj())
	p := nominated(r, "default/preemptor", "a")
	leaves(r, "a1", p, "a")
	r.Await("the victim has left", func(context.Context) (string, bool) {
		bound := testbed.IsBound(r.Pods.Get("default/preemptor"))
		victim := r.Pods.Get("default/a1")
		if bound && victim != nil {
			r.T.Fatal("the preemptor is bound before its victim has left")
		}
		return testbed.Describe(victim), victim == nil
	})
	r.Goes("default/preemptor", "a")
}

func testEndsByItself(r *rig.Rig) {
	full(r)
	r.Create(preemptor("4").Obj())
	nominated(r, "default/preemptor", "a")
	r.Until("are leaving", isLeaving, "default/a1")
	r.PatchPod("default/a1", `{"status": {"phase": "Succeeded"}}`, "status")
	r.Goes("default/preemptor", "a")
}

func testNodeDeleted(r *rig.Rig) {
	r.Create(node("a").Obj(), node("b").Obj(), low("a1", "a", "4", 1).Obj(), low("b1", "b", "4", 5).Obj())
	r.Settle("b")
	r.Create(preemptor("4").Obj())
	nominated(r, "default/preemptor", "a")
	r.Until("are leaving", isLeaving, "default/a1")
	r.Must(r.Admin.CoreV1().Nodes().Delete(r.Context(), "a", metav1.DeleteOptions{}))
	// Something that may help has it tried again.
	r.PatchNode("b", `{"status": {"allocatable": {"cpu": "5"}, "capacity": {"cpu": "5"}}}`, "status")
	p := nominated(r, "default/preemptor", "b")
	leaves(r, "b1", p, "b")
	r.Delete("default/b1")
	r.Goes("default/preemptor", "b")
}

// otherNominated has another pod nominated to the node a. It is not bound yet, though 1 CPU is free there.
func otherNominated(r *rig.Rig) {
	r.Create(node("a").Obj(), low("a1", "a", "3", 1).Obj())
	r.Settle("a")
	r.Create(preemptor("4").Obj())
	nominated(r, "default/preemptor", "a")
	r.Until("are leaving", isLeaving, "default/a1")
}

func testNominationHolds(r *rig.Rig) {
	otherNominated(r)
	r.Create(build.Pod("later").CPU("1").Priority(50).Obj())
	const message = "0/1 nodes are available: 1 " + noCPU + tail + "0/1 nodes are available: 1 Insufficient cpu."
	if got := r.Unschedulable("default/later"); got != message {
		r.T.Errorf("later:\n got %s\nwant %s", got, message)
	}
	r.Create(build.Pod("important").CPU("1").Priority(150).Obj())
	r.Goes("default/important", "a")
	r.Delete("default/important")
	r.Delete("default/a1")
	r.Goes("default/preemptor", "a")
	if p := r.Pods.Get("default/later"); testbed.IsBound(p) {
		r.T.Errorf("later: got node %s, want none", p.Spec.NodeName)
	}
}

func testPreemptorDeleted(r *rig.Rig) {
	otherNominated(r)
	r.Create(build.Pod("later").CPU("1").Priority(50).Obj())
	r.Unschedulable("default/later")
	r.Delete("default/preemptor")
	r.Goes("default/later", "a")
}

func testLowerNominations(r *rig.Rig) {
	r.Create(node("a").Obj(), low("a1", "a", "2", 1).Obj(), low("a2", "a", "2", 2).Obj())
	r.Settle("a")
	r.Create(build.Pod("middle").CPU("2").Priority(50).Obj())
	middle := nominated(r, "default/middle", "a")
	leaves(r, "a1", middle, "a")
	r.Create(preemptor("4").Obj())
	p := nominated(r, "default/preemptor", "a")
	leaves(r, "a2", p, "a")
	r.Until("are not nominated any more", func(p *v1.Pod) bool { return p != nil && p.Status.NominatedNodeName == "" }, "default/middle")
	r.Delete("default/a1", "default/a2")
	r.Goes("default/preemptor", "a")
	if p := r.Pods.Get("default/middle"); testbed.IsBound(p) {
		r.T.Errorf("middle: got node %s, want none", p.Spec.NodeName)
	}
}

func testLeavingAlready(r *rig.Rig) {
	full(r)
	r.Must(r.Admin.CoreV1().Pods("default").Delete(r.Context(), "a1", metav1.DeleteOptions{}))
	r.Until("are leaving", isLeaving, "default/a1")
	r.Settle("a")
	r.Create(preemptor("4").Obj())
	nominated(r, "default/preemptor", "a")
	p := r.Pods.Get("default/a1")
	for _, c := range p.Status.Conditions {
		if c.Type == v1.DisruptionTarget {
			r.T.Errorf("a1: got %+v, want no such condition: it was leaving already", c)
		}
	}
	r.Delete("default/a1")
	r.Goes("default/preemptor", "a")
}

func testTwoPreemptors(r *rig.Rig) {
	r.Create(node("a").Obj(), node("b").Obj(), low("a1", "a", "4", 1).Obj(), low("b1", "b", "4", 2).Obj())
	r.Settle("b")
	r.Create(build.Pod("p1").CPU("4").Priority(100).Obj(), build.Pod("p2").CPU("4").Priority(100).Obj())
	nominated(r, "default/p1", "a")
	nominated(r, "default/p2", "b")
	r.Until("are leaving", isLeaving, "default/a1", "default/b1")
	r.Delete("default/a1", "default/b1")
	r.Goes("default/p1", "a")
	r.Goes("default/p2", "b")
}

func testPatientAmongPreemptors(r *rig.Rig) {
	full(r)
	r.Create(classed(build.Pod("patient").CPU("4"), patient).Obj())
	const never = "0/1 nodes are available: 1 " + noCPU + tail + "not eligible due to preemptionPolicy=Never."
	if got := r.Unschedulable("default/patient"); got != never {
		r.T.Errorf("patient:\n got %s\nwant %s", got, never)
	}
	r.Create(preemptor("4").Obj())
	nominated(r, "default/preemptor", "a")
	r.Until("are leaving", isLeaving, "default/a1")
	// It is more important than the preemptor, so it comes first, and the nomination is void.
	r.Delete("default/a1")
	r.Goes("default/patient", "a")
	const message = "0/1 nodes are available: 1 " + noCPU + tail + "0/1 nodes are available: 1 No preemption victims found for incoming pod."
	r.Until("are not nominated any more", func(p *v1.Pod) bool {
		return p != nil && p.Status.NominatedNodeName == "" && strings.HasPrefix(testbed.ScheduledCondition(p).Message, message)
	}, "default/preemptor")
}

// testMorePreemptors has more preemptors than there are nodes for.
func testMorePreemptors(r *rig.Rig) {
	var victims, preemptors []string
	names := []string{"a", "b", "c", "d", "e", "f"}
	for _, name := range names {
		r.Create(node(name).Obj())
	}
	for _, name := range names {
		r.Create(low(name+"1", name, "4", 1).Obj())
		victims = append(victims, "default/"+name+"1")
	}
	r.Settle("f")
	for _, name := range names {
		r.Create(build.Pod("p-" + name).CPU("4").Priority(100).Obj())
		preemptors = append(preemptors, "default/p-"+name)
	}
	r.Create(build.Pod("one-too-many").CPU("4").Priority(100).Obj())
	r.Until("are leaving", isLeaving, victims...)
	r.Until("are nominated", func(p *v1.Pod) bool { return p != nil && p.Status.NominatedNodeName != "" }, preemptors...)
	if p := r.Until("are decided", rig.IsDecided, "default/one-too-many")[0]; p.Status.NominatedNodeName != "" {
		r.T.Errorf("one-too-many: got nominated node %s, want none", p.Status.NominatedNodeName)
	}
	r.Delete(victims...)
	got := map[string]bool{}
	for _, key := range preemptors {
		got[r.Bound(key)] = true
	}
	if len(got) != len(names) {
		r.T.Errorf("got %d nodes for %d preemptors, want one each: %v", len(got), len(preemptors), got)
	}
}
