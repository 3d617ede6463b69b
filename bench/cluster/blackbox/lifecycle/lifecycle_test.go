package lifecycle

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

const (
	noCPU   = "Insufficient cpu."
	tainted = "node(s) had untolerated taint(s)."
)

func TestLifecycle(t *testing.T) {
	r := rig.New(t, testbed.Config{})
	// The scheduler finds these when it starts.
	leaving := pod("leaving").Obj()
	leaving.Finalizers = []string{"blackbox/kept"}
	r.Create(
		build.Node("a").CPU("1").Obj(), pod("low").CPU("1").Obj(), pod("high").CPU("1").Priority(10).Obj(),
		pod("middle").CPU("1").Priority(5).Obj(), leaving,
	)
	r.Must(r.Admin.CoreV1().Pods("default").Delete(t.Context(), "leaving", metav1.DeleteOptions{}))
	r.Start(`
- schedulerName: second
`)
	run := func(name string, test func(*rig.Rig)) {
		t.Run(name, func(t *testing.T) { test(r.With(t)) })
	}
	run("what is there when it starts", testStart)
	run("allocatable grows and shrinks", testAllocatable)
	run("nodes come and go", testNodes)
	run("nodes are cordoned", testCordon)
	run("labels and taints change", testLabelsAndTaints)
	run("pods that end make room", testRoom)
	run("pods that are replaced", testReplaced)
	run("gates", testGates)
	run("conditions", testConditions)
	run("events", testEvents)
	run("other schedulers", testOthers)
	run("writes", testWrites)
}

// pod starts a pod.
func pod(name string) *build.PodBuilder { return build.Pod(name) }

func node(name string) *build.NodeBuilder { return build.Node(name).CPU("4").Memory("8Gi") }

func testStart(r *rig.Rig) {
	r.Goes("default/high", "a")
	r.Waits("default/middle", "0/1 nodes are available: 1 "+noCPU)
	r.Waits("default/low", "0/1 nodes are available: 1 "+noCPU)
	checkEvent(r, "leaving", "FailedScheduling", event{
		typ: v1.EventTypeWarning, action: "Scheduling", controller: "default-scheduler", note: "skip schedule deleting pod: default/leaving",
	})
	if c := testbed.ScheduledCondition(r.Pods.Get("default/leaving")); c != nil {
		r.T.Errorf("a pod that is being deleted: got condition %v, want none", c)
	}
	r.PatchPod("default/leaving", `{"metadata": {"finalizers": null}}`)
}

func testAllocatable(r *rig.Rig) {
	allocatable := func(cpu string) {
		r.PatchNode("a", `{"status": {"allocatable": {"cpu": "`+cpu+`"}, "capacity": {"cpu": "`+cpu+`"}}}`, "status")
	}
	r.Create(node("a").Obj(), pod("p1").CPU("3").Obj(), pod("p2").CPU("3").Obj())
	r.Until("are decided", rig.IsDecided, "default/p1", "default/p2")
	allocatable("8")
	r.Goes("default/p1", "a")
	r.Goes("default/p2", "a")
	allocatable("7")
	r.Settle("a")
	r.Create(pod("p3").CPU("2").Obj())
	r.Waits("default/p3", "0/1 nodes are available: 1 "+noCPU)
}

func testNodes(r *rig.Rig) {
	r.Create(pod("p1").Obj())
	r.Waits("default/p1", "no nodes available to schedule pods")
	r.Create(node("a").Obj())
	r.Goes("default/p1", "a")
	// The node goes away with its pod on it, and another comes.
	r.Must(r.Admin.CoreV1().Nodes().Delete(r.T.Context(), "a", metav1.DeleteOptions{}))
	r.Create(node("b").Obj())
	r.Settle("b")
	r.Create(pod("p2").Obj(), pod("p3").NodeSelector("disk", "ssd").Obj())
	r.Goes("default/p2", "b")
	r.Waits("default/p3", "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.")
	r.Create(node("c").Label("disk", "ssd").Obj())
	r.Goes("default/p3", "c")
	// A node that comes again under its name has what was bound to it.
	r.Create(build.Node("a").CPU("4").Pods("1").Label("again", "").Obj())
	r.Settle("a")
	r.Create(pod("p4").NodeSelector("again", "").Obj())
	r.Waits("default/p4", "0/3 nodes are available: 1 Too many pods, 2 node(s) didn't match Pod's node affinity/selector.")
}

func testCordon(r *rig.Rig) {
	r.Create(node("a").Obj())
	r.PatchNode("a", `{"spec": {"unschedulable": true}}`)
	r.Settle("a")
	r.Create(pod("p1").Obj())
	r.Waits("default/p1", "0/1 nodes are available: 1 node(s) were unschedulable.")
	r.PatchNode("a", `{"spec": {"unschedulable": null}}`)
	r.Goes("default/p1", "a")
}

func testLabelsAndTaints(r *rig.Rig) {
	r.Create(node("a").Obj())
	r.PatchNode("a", `{"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}}`)
	r.Settle("a")
	r.Create(pod("p1").Obj(), pod("p2").NodeSelector("disk", "ssd").Toleration("k").Obj())
	r.Waits("default/p1", "0/1 nodes are available: 1 "+tainted)
	r.Waits("default/p2", "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.")
	r.Label("a", "disk", "hdd")
	r.Label("a", "disk", "ssd")
	r.Goes("default/p2", "a")
	r.PatchNode("a", `{"spec": {"taints": [{"key": "k", "value": "v", "effect": "PreferNoSchedule"}]}}`)
	r.Goes("default/p1", "a")
	// The label goes, and what it brought stays.
	r.PatchNode("a", `{"metadata": {"labels": {"disk": null}}}`)
	r.Settle("a")
	r.Create(pod("p3").NodeSelector("disk", "ssd").Obj())
	r.Waits("default/p3", "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.")
}

func testRoom(r *rig.Rig) {
	theirs := pod("theirs").CPU("4").Node("a").Obj()
	theirs.Spec.SchedulerName = "another"
	r.Create(node("a").Obj(), theirs)
	r.Settle("a")
	for _, end := range []struct {
		name, was string
		end       func(was string)
	}{
		{"p1", "theirs", func(was string) { r.PatchPod("default/"+was, `{"status": {"phase": "Succeeded"}}`, "status") }},
		{"p2", "p1", func(was string) { r.PatchPod("default/"+was, `{"status": {"phase": "Failed"}}`, "status") }},
		{"p3", "p2", func(was string) { r.Delete("default/" + was) }},
	} {
		r.Create(pod(end.name).CPU("3").Obj())
		r.Waits("default/"+end.name, "0/1 nodes are available: 1 "+noCPU)
		end.end(end.was)
		r.Goes("default/"+end.name, "a")
	}
}

func testReplaced(r *rig.Rig) {
	r.Create(node("a").Obj(), pod("p").CPU("5").Obj())
	first := r.Until("are decided", rig.IsDecided, "default/p")[0]
	r.Delete("default/p")
	r.Create(pod("p").CPU("4").Obj())
	r.Goes("default/p", "a")
	if now := r.Pods.Get("default/p"); now.UID == first.UID {
		r.T.Errorf("got the pod %s again", now.UID)
	}
	r.Delete("default/p")
	r.Create(pod("p").CPU("4").Obj())
	r.Goes("default/p", "a")
}

func testGates(r *rig.Rig) {
	gated := func(p *v1.Pod) bool {
		if p == nil {
			return false
		}
		c := testbed.ScheduledCondition(p)
		return c != nil && c.Reason == v1.PodReasonSchedulingGated
	}
	r.Create(node("a").Obj(), pod("gated").Gate("one/gate").Gate("other/gate").Obj(), pod("first").Obj())
	r.Goes("default/first", "a")
	before := r.Until("are gated", gated, "default/gated")[0]
	r.PatchPod("default/gated", `{"spec": {"schedulingGates": [{"name": "other/gate"}]}}`)
	r.Create(pod("second").Obj())
	r.Goes("default/second", "a")
	if now := r.Pods.Get("default/gated"); now.Spec.NodeName != "" || !gated(now) || now.Status.Conditions[0].Message != before.Status.Conditions[0].Message {
		r.T.Errorf("one of two gates: got %s, want it gated as before", testbed.Describe(now))
	}
	r.PatchPod("default/gated", `{"spec": {"schedulingGates": null}}`)
	r.Goes("default/gated", "a")
	// A gate leaves and the pod does not fit.
	r.Create(pod("big").CPU("5").Gate("one/gate").Obj())
	r.Until("are gated", gated, "default/big")
	r.PatchPod("default/big", `{"spec": {"schedulingGates": null}}`)
	r.Waits("default/big", "0/1 nodes are available: 1 "+noCPU)
}
