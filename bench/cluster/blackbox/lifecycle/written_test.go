package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
)

func testConditions(r *rig.Rig) {
	const taken = "1 node(s) didn't have free ports for the requested pod ports"
	r.Create(
		node("a").Obj(), pod("one").HostPort("10.0.0.1", "", 8080).Node("a").Obj(), pod("two").HostPort("10.0.0.2", "", 8080).Node("a").Obj(),
	)
	r.Settle("a")
	r.Create(pod("told").HostPort("", "", 8080).Obj())
	p := r.Waits("default/told", "0/1 nodes are available: "+taken+".")
	c := testbed.ScheduledCondition(p)
	want := v1.PodCondition{
		Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: c.Message,
		ObservedGeneration: testbed.ObservedGeneration(p.Generation), LastTransitionTime: c.LastTransitionTime,
	}
	if *c != want || c.LastTransitionTime.IsZero() || p.Generation == 0 {
		r.T.Errorf("the first condition:\n got %+v\nwant %+v", *c, want)
	}
	// One of two that are in its way leaves: it is tried again, and nothing is new.
	tries := func() float64 {
		return r.Metric("scheduler_schedule_attempts_total", `result="unschedulable"`, `profile="default-scheduler"`)
	}
	before := tries()
	r.Delete("default/one")
	r.Await("it is tried again", func(context.Context) (string, bool) {
		now := tries()
		return fmt.Sprint(now), now > before
	})
	// Another node makes the message another.
	r.Create(node("b").Taint("k:NoSchedule").Obj())
	later := r.Waits("default/told", "0/2 nodes are available: "+taken+", 1 "+tainted)
	if at := testbed.ScheduledCondition(later).LastTransitionTime; !at.Equal(&c.LastTransitionTime) {
		r.T.Errorf("a new message: got a transition at %v, want it at %v as before", at, c.LastTransitionTime)
	}
	patches := 0
	for _, line := range testbed.Writes(r.Audited()) {
		if strings.HasPrefix(line, "patch pods/status default/told: 200") {
			patches++
		}
	}
	if patches != 2 {
		r.T.Errorf("patches of its status: got %d, want 2, one for each message", patches)
	}
	r.Delete("default/two")
	r.Goes("default/told", "a")
	if c := testbed.ScheduledCondition(r.Pods.Get("default/told")); c.Status != v1.ConditionTrue {
		r.T.Errorf("a pod that is bound: got PodScheduled=%s, want True", c.Status)
	}
}

// event is what a scheduler's event says.
type event struct{ typ, action, controller, note string }

func testEvents(r *rig.Rig) {
	second := pod("second").CPU("1").Obj()
	second.Spec.SchedulerName = "second"
	r.Create(node("a").Obj())
	r.Settle("a")
	r.Create(pod("first").CPU("1").Obj(), second, pod("big").CPU("5").Obj())
	scheduled := func(name, controller string) {
		r.T.Helper()
		checkEvent(r, name, "Scheduled", event{v1.EventTypeNormal, "Binding", controller, "Successfully assigned default/" + name + " to a"})
	}
	scheduled("first", "default-scheduler")
	scheduled("second", "second")
	checkEvent(r, "big", "FailedScheduling", event{v1.EventTypeWarning, "Scheduling", "default-scheduler", "0/1 nodes are available: 1 " + noCPU})
}

// checkEvent waits for the event of a pod with a reason and looks at it.
func checkEvent(r *rig.Rig, pod, reason string, want event) {
	r.T.Helper()
	var got eventsv1.Event
	uid := r.Pods.Get("default/" + pod).UID
	r.Await(pod+" has an event "+reason, func(ctx context.Context) (string, bool) {
		all, err := r.Admin.EventsV1().Events("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error(), false
		}
		i := slices.IndexFunc(all.Items, func(e eventsv1.Event) bool { return e.Regarding.UID == uid && e.Reason == reason })
		if i < 0 {
			return fmt.Sprintf("%d others", len(all.Items)), false
		}
		got = all.Items[i]
		return "", true
	})
	note, _, _ := strings.Cut(got.Note+" ", ". ")
	if strings.HasSuffix(want.note, ".") {
		note += "."
	} else {
		note = got.Note
	}
	says := event{got.Type, got.Action, got.ReportingController, note}
	if says != want {
		r.T.Errorf("%s of %s:\n got %+v\nwant %+v", reason, pod, says, want)
	}
	if instance := want.controller + "-" + r.Host; got.ReportingInstance != instance {
		r.T.Errorf("%s of %s: got instance %q, want %q", reason, pod, got.ReportingInstance, instance)
	}
	if got.Regarding.Kind != "Pod" || got.Regarding.Name != pod {
		r.T.Errorf("%s of %s: got it about %+v, want the pod", reason, pod, got.Regarding)
	}
}

// testOthers has another scheduler, upstream's, beside the one that is tested.
func testOthers(r *rig.Rig) {
	other := func(name, cpu string) *v1.Pod {
		p := pod(name).CPU(cpu).Obj()
		p.Spec.SchedulerName = "other"
		return p
	}
	r.Create(node("a").Obj())
	r.Settle("a")
	r.Create(other("theirs", "2"), pod("ours").CPU("1").Obj())
	r.Goes("default/ours", "a")
	if p := r.Pods.Get("default/theirs"); p.Spec.NodeName != "" || testbed.ScheduledCondition(p) != nil {
		r.T.Errorf("another scheduler's pod: got %s, want it untouched", testbed.Describe(p))
	}
	r.Cluster.Upstream(testbed.Scheduler{
		Name: "other", Kubeconfig: r.AdminKubeconfig, Config: "leaderElection: {resourceName: other}\nprofiles: [{schedulerName: other}]",
	})
	r.Goes("default/theirs", "a")
	r.Create(pod("ours-2").CPU("2").Obj(), other("theirs-2", "2"))
	r.Waits("default/ours-2", "0/1 nodes are available: 1 "+noCPU)
	r.Waits("default/theirs-2", "0/1 nodes are available: 1 "+noCPU)
	r.Create(pod("ours-3").CPU("1").Obj())
	r.Goes("default/ours-3", "a")
}

func testWrites(r *rig.Rig) { r.CheckWrites() }
