package preemption

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// trial is a cluster and a pod that is more important than some that are there.
type trial struct {
	// Name is a sentence.
	Name string
	// Budgets are there when the scheduler starts. Each is about pods of this trial alone.
	Budgets []*policyv1.PodDisruptionBudget
	// Cluster has the nodes and, after them, the pods that are on them.
	Cluster []runtime.Object
	Pod     *build.PodBuilder
	// Node is the pod's, once the Victims have left it; empty: nobody has to leave. Victims are
	// names with blanks between.
	Node, Victims string
	// Message is what the pod's condition says.
	Message string
}

func (x *trial) run(r *rig.Rig) {
	r.Create(x.Cluster...)
	r.Settle(lastNode(x.Cluster))
	pod := x.Pod.Obj()
	r.Create(pod)
	key := "default/" + pod.Name
	if x.Node == "" {
		x.stays(r, key)
		return
	}
	p := nominated(r, key, x.Node)
	if got := testbed.ScheduledCondition(p); got == nil || got.Reason != v1.PodReasonUnschedulable || got.Message != x.Message {
		r.T.Errorf("%s:\n got %v\nwant Unschedulable: %s", key, got, x.Message)
	}
	victims := strings.Fields(x.Victims)
	for _, name := range victims {
		leaves(r, name, p, x.Node)
	}
	r.Delete(keys(victims)...)
	r.Goes(key, x.Node)
	for _, p := range r.Pods.All() {
		if p.DeletionTimestamp != nil {
			r.T.Errorf("%s is leaving too, want none but %s", p.Name, x.Victims)
		}
	}
}

// stays is where nobody leaves.
func (x *trial) stays(r *rig.Rig, key string) {
	p := r.Until("are decided", rig.IsDecided, key)[0]
	c := testbed.ScheduledCondition(p)
	if p.Spec.NodeName != "" || c.Reason != v1.PodReasonUnschedulable || c.Message != x.Message {
		r.T.Errorf("%s:\n got %s\nwant Unschedulable: %s", key, testbed.Describe(p), x.Message)
	}
	if p.Status.NominatedNodeName != "" {
		r.T.Errorf("%s: got nominated node %s, want none", key, p.Status.NominatedNodeName)
	}
	for _, p := range r.Pods.All() {
		if p.DeletionTimestamp != nil {
			r.T.Errorf("%s is leaving, want that nobody is", p.Name)
		}
	}
	if got := event(r, p, "FailedScheduling").Note; got != x.Message {
		r.T.Errorf("event of %s:\n got %s\nwant %s", key, got, x.Message)
	}
}

func keys(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = "default/" + name
	}
	return out
}

func lastNode(objects []runtime.Object) string {
	for _, o := range slices.Backward(objects) {
		if n, ok := o.(*v1.Node); ok {
			return n.Name
		}
	}
	return ""
}

// nominated waits until a pod that waits is nominated to a node.
func nominated(r *rig.Rig, key, node string) *v1.Pod {
	r.T.Helper()
	return r.Until("are nominated to "+node, func(p *v1.Pod) bool {
		return p != nil && p.Status.NominatedNodeName == node && testbed.ScheduledCondition(p) != nil
	}, key)[0]
}

// leaves waits until a pod is on its way out for another, and looks at how it was told.
func leaves(r *rig.Rig, name string, preemptor *v1.Pod, node string) {
	r.T.Helper()
	p := r.Until("are leaving", isLeaving, "default/"+name)[0]
	i := slices.IndexFunc(p.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.DisruptionTarget })
	if i < 0 {
		r.T.Fatalf("%s: got conditions %v, want DisruptionTarget", name, p.Status.Conditions)
	}
	c := p.Status.Conditions[i]
	want := v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler,
		Message: "default-scheduler: preempting to accommodate a higher priority pod", LastTransitionTime: c.LastTransitionTime, ObservedGeneration: c.ObservedGeneration,
	}
	if c != want || c.LastTransitionTime.IsZero() || c.ObservedGeneration == 0 && testbed.ObservedGeneration(1) != 0 {
		r.T.Errorf("%s:\n got %+v\nwant %+v", name, c, want)
	}
	if got, want := p.DeletionGracePeriodSeconds, p.Spec.TerminationGracePeriodSeconds; got == nil || *got != *want {
		r.T.Errorf("%s: got %v seconds to leave, want its own %d", name, got, *want)
	}
	told(r, p, preemptor, node)
}

func isLeaving(p *v1.Pod) bool { return p != nil && p.DeletionTimestamp != nil }

// told looks at a victim's event.
func told(r *rig.Rig, victim, preemptor *v1.Pod, node string) {
	r.T.Helper()
	got := event(r, victim, "Preempted")
	note := "Preempted by pod " + string(preemptor.UID) + " on node " + node
	if got.Type != v1.EventTypeNormal || got.Action != "Preempting" || got.Note != note || got.ReportingController != "default-scheduler" {
		r.T.Errorf("event of %s:\n got %s %s %q by %s\nwant Normal Preempting %q by default-scheduler", victim.Name, got.Type, got.Action, got.Note, got.ReportingController, note)
	}
	// kube-scheduler 1.36 means to name the preemptor too, and does not.
	if by := got.Related; !rig.Upstream() && (by == nil || by.Kind != "Pod" || by.UID != preemptor.UID || by.Name != preemptor.Name) {
		r.T.Errorf("event of %s: got it related to %+v, want %s", victim.Name, by, preemptor.Name)
	}
}

// event waits for an event of a pod.
func event(r *rig.Rig, p *v1.Pod, reason string) (got eventsv1.Event) {
	r.T.Helper()
	r.Await(p.Name+" has an event "+reason, func(ctx context.Context) (string, bool) {
		all, err := r.Admin.EventsV1().Events("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error(), false
		}
		i := slices.IndexFunc(all.Items, func(e eventsv1.Event) bool { return e.Regarding.UID == p.UID && e.Reason == reason })
		if i >= 0 {
			got = all.Items[i]
		}
		return "none", i >= 0
	})
	return got
}

// node has 4 CPUs.
func node(name string) *build.NodeBuilder {
	return build.Node(name).CPU("4").Memory("8Gi").Label(v1.LabelHostname, name).Label("zone", "z-"+name)
}

// low is a pod on a node with a priority.
func low(name, node, cpu string, priority int32) *build.PodBuilder {
	return build.Pod(name).CPU(cpu).Priority(priority).Node(node)
}

// preemptor has priority 100.
func preemptor(cpu string) *build.PodBuilder { return build.Pod("preemptor").CPU(cpu).Priority(100) }

// since has a pod run for so long.
func since(b *build.PodBuilder, ago time.Duration) *v1.Pod {
	p := b.Obj()
	at := metav1.NewTime(time.Now().Add(-ago))
	p.Status.Phase, p.Status.StartTime = v1.PodRunning, &at
	return p
}

// budget is one that lets so many pods with a label go.
func budget(name, key, value string, allowed int32) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	b.Status.DisruptionsAllowed = allowed
	return b
}

func cluster(objects ...runtime.Object) []runtime.Object { return objects }

const (
	noCPU = "Insufficient cpu."
	tail  = " no new claims to deallocate, preemption: "
)

// choices are about who has to leave, and where.
func choices() []trial {
	return []trial{
		{
			Name: "the least important leave", Pod: preemptor("4"), Node: "b", Victims: "b1", Message: "0/2 nodes are available: 2 " + noCPU,
			Cluster: cluster(node("a").Obj(), node("b").Obj(), low("a1", "a", "4", 5).Obj(), low("b1", "b", "4", 1).Obj()),
		},
		{
			Name: "nobody leaves without need", Pod: preemptor("2"), Node: "a", Victims: "a1 a2", Message: "0/1 nodes are available: 1 " + noCPU,
			Cluster: cluster(node("a").Obj(), low("a1", "a", "1", 1).Obj(), low("a2", "a", "1", 2).Obj(), low("a3", "a", "2", 3).Obj()),
		},
		{
			Name: "the more important stay, though fewer could leave", Pod: preemptor("3"), Node: "a", Victims: "a1 a2", Message: "0/1 nodes are available: 1 " + noCPU,
			Cluster: cluster(node("a").Obj(), low("a1", "a", "2", 1).Obj(), low("a2", "a", "1", 2).Obj(), low("a3", "a", "1", 3).Obj()),
		},
		{
			Name: "a smaller sum of priorities", Pod: preemptor("4"), Node: "b", Victims: "b1 b2", Message: "0/2 nodes are available: 2 " + noCPU,
			Cluster: cluster(node("a").Obj(), node("b").Obj(), low("a1", "a", "2", 5).Obj(), low("a2", "a", "2", 3).Obj(), low("b1", "b", "2", 5).Obj(), low("b2", "b", "2", 2).Obj()),
		},
		{
			Name: "fewer victims", Pod: preemptor("4"), Node: "b", Victims: "b1", Message: "0/2 nodes are available: 2 " + noCPU,
			Cluster: cluster(node("a").Obj(), node("b").Obj(), low("a1", "a", "2", 5).Obj(), low("a2", "a", "2", 1).Obj(), low("b1", "b", "4", 5).Obj()),
		},
		{
			Name: "those that started last", Pod: preemptor("4"), Node: "b", Victims: "b1 b2", Message: "0/2 nodes are available: 2 " + noCPU,
			Cluster: cluster(node("a").Obj(), node("b").Obj(),
				since(low("a1", "a", "2", 5), time.Hour), since(low("a2", "a", "2", 5), time.Minute), since(low("b1", "b", "2", 5), 2*time.Minute), since(low("b2", "b", "2", 5), 3*time.Minute)),
		},
		{
			Name: "of equals those that started last", Pod: preemptor("2"), Node: "a", Victims: "a2", Message: "0/1 nodes are available: 1 " + noCPU,
			Cluster: cluster(node("a").Obj(), since(low("a1", "a", "2", 5), time.Hour), since(low("a2", "a", "2", 5), time.Minute)),
		},
		{
			Name: "pods of other schedulers leave too", Pod: preemptor("4"), Node: "a", Victims: "a1", Message: "0/1 nodes are available: 1 " + noCPU,
			Cluster: cluster(node("a").Obj(), theirs(low("a1", "a", "4", 5))),
		},
		{
			Name: "pods that are as important stay", Pod: preemptor("4"), Cluster: cluster(node("a").Obj(), low("a1", "a", "1", 100).Obj()),
			Message: "0/1 nodes are available: 1 " + noCPU + tail + "0/1 nodes are available: 1 No preemption victims found for incoming pod.",
		},
		{
			Name: "it is no use", Pod: preemptor("4"), Cluster: cluster(node("a").Taint("k:NoSchedule").Obj(), node("b").Obj(), node("c").Obj(), low("a1", "a", "1", 1).Obj(), low("b1", "b", "1", 1).Obj(), low("b2", "b", "1", 200).Obj(), low("c1", "c", "4", 200).Obj()),
			Message: "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu." + tail +
				"0/3 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.",
		},
		{
			Name: "a pod that may not preempt", Pod: classed(build.Pod("preemptor").CPU("4"), patient), Cluster: cluster(node("a").Obj(), low("a1", "a", "1", 1).Obj()),
			Message: "0/1 nodes are available: 1 " + noCPU + tail + "not eligible due to preemptionPolicy=Never.",
		},
		{
			Name: "system-node-critical", Pod: classed(build.Pod("critical").CPU("4"), "system-node-critical"), Node: "a", Victims: "a1", Message: "0/1 nodes are available: 1 " + noCPU,
			Cluster: cluster(node("a").Obj(), classed(build.Pod("a1").CPU("4").Node("a"), "system-cluster-critical").Obj()),
		},
		{
			Name: "system-cluster-critical before system-node-critical", Pod: classed(build.Pod("critical").CPU("4"), "system-cluster-critical"),
			Cluster: cluster(node("a").Obj(), classed(build.Pod("a1").CPU("4").Node("a"), "system-node-critical").Obj()),
			Message: "0/1 nodes are available: 1 " + noCPU + tail + "0/1 nodes are available: 1 No preemption victims found for incoming pod.",
		},
	}
}

// relations are about victims that count for rules other than resources.
func relations() []trial {
	web := build.Around(v1.LabelHostname, "app=web")
	return []trial{
		{
			Name: "a pod that the preemptor keeps away from", Pod: preemptor("1").Apart(web), Node: "a", Victims: "a1",
			Message: "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.",
			Cluster: cluster(node("a").Obj(), low("a1", "a", "1", 1).Label("app", "web").Obj(), low("a2", "a", "1", 1).Obj()),
		},
		{
			Name: "a pod that keeps the preemptor away", Pod: preemptor("1").Label("app", "web"), Node: "a", Victims: "a1",
			Message: "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.",
			Cluster: cluster(node("a").Obj(), low("a1", "a", "1", 1).Apart(web).Obj(), low("a2", "a", "1", 1).Obj()),
		},
		{
			Name: "a pod that the preemptor needs beside it", Pod: preemptor("4").Near(web),
			Message: "0/1 nodes are available: 1 " + noCPU + tail + "0/1 nodes are available: 1 node(s) didn't match pod affinity rules.",
			Cluster: cluster(node("a").Obj(), low("a1", "a", "1", 1).Label("app", "web").Obj()),
		},
		{
			Name: "pods that are too many in their zone", Pod: preemptor("1").Label("app", "web").Spread(build.Hard("zone", 1, "app=web")), Node: "a", Victims: "a1 a2",
			Message: "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod topology spread constraints.",
			Cluster: cluster(node("a").Obj(), node("b").Obj(), low("a1", "a", "1", 1).Label("app", "web").Obj(), low("a2", "a", "1", 2).Label("app", "web").Obj(),
				low("a3", "a", "1", 1).Obj(), low("b1", "b", "4", 200).Obj()),
		},
		{
			Name: "a pod that has the port", Pod: preemptor("1").HostPort("", "", 8080), Node: "a", Victims: "a1",
			Message: "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.",
			Cluster: cluster(node("a").Obj(), low("a1", "a", "1", 7).HostPort("", "", 8080).Obj(), low("a2", "a", "1", 1).Obj()),
		},
	}
}

// budgeted are about PodDisruptionBudgets.
func budgeted() []trial {
	app := func(name, node, cpu string, priority int32, app string) *v1.Pod {
		return low(name, node, cpu, priority).Label("app", app).Obj()
	}
	elsewhere := budget("elsewhere", "app", "elsewhere", 0)
	elsewhere.Namespace = "elsewhere"
	everything := budget("everything", "", "", 0)
	everything.Spec.Selector = &metav1.LabelSelector{}
	leaving := budget("leaving", "app", "leaving", 0)
	leaving.Status.DisruptedPods = map[string]metav1.Time{"a1": metav1.Now(), "a2": metav1.Now()}
	return []trial{
		{
			Name: "pods that a budget protects are spared", Budgets: []*policyv1.PodDisruptionBudget{budget("spared", "app", "spared", 0)},
			Pod: preemptor("2"), Node: "a", Victims: "a2", Message: "0/1 nodes are available: 1 " + noCPU,
			Cluster: cluster(node("a").Obj(), app("a1", "a", "2", 1, "spared"), app("a2", "a", "2", 5, "free-1")),
		},
		{
			Name: "a node with a budget to break comes last", Budgets: []*policyv1.PodDisruptionBudget{budget("broken", "app", "broken", 0)},
			Pod: preemptor("4"), Node: "b", Victims: "b1 b2", Message: "0/2 nodes are available: 2 " + noCPU,
			Cluster: cluster(node("a").Obj(), node("b").Obj(), app("a1", "a", "4", 1, "broken"), app("b1", "b", "2", 50, "free-2"), app("b2", "b", "2", 50, "free-2")),
		},
		{
			Name: "fewer breaches", Budgets: []*policyv1.PodDisruptionBudget{budget("fewer", "app", "fewer", 1)},
			Pod: preemptor("4"), Node: "b", Victims: "b1 b2", Message: "0/2 nodes are available: 2 " + noCPU,
			Cluster: cluster(node("a").Obj(), node("b").Obj(), app("a1", "a", "2", 1, "fewer"), app("a2", "a", "1", 1, "fewer"), app("a3", "a", "1", 1, "fewer"),
				app("b1", "b", "2", 50, "fewer"), app("b2", "b", "2", 50, "fewer")),
		},
		{
			Name: "budgets give way in the end", Budgets: []*policyv1.PodDisruptionBudget{budget("gives-way", "app", "gives-way", 0)},
			Pod: preemptor("4"), Node: "a", Victims: "a1 a2", Message: "0/1 nodes are available: 1 " + noCPU,
			Cluster: cluster(node("a").Obj(), app("a1", "a", "2", 1, "gives-way"), app("a2", "a", "2", 5, "gives-way")),
		},
		{
			Name: "as many as a budget allows", Budgets: []*policyv1.PodDisruptionBudget{budget("one", "app", "one", 1)},
			Pod: preemptor("2"), Node: "a", Victims: "a1 a3", Message: "0/1 nodes are available: 1 " + noCPU,
			// a1 is the one that may go: a2 and a3 break the budget and are put back first, as far as there is room.
			Cluster: cluster(node("a").Obj(), app("a1", "a", "1", 9, "one"), app("a2", "a", "2", 5, "one"), app("a3", "a", "1", 4, "one")),
		},
		{
			Name: "two budgets count a pod", Budgets: []*policyv1.PodDisruptionBudget{budget("both-1", "app", "both", 1), budget("both-2", "tier", "both", 0)},
			Pod: preemptor("2"), Node: "a", Victims: "a2", Message: "0/1 nodes are available: 1 " + noCPU,
			Cluster: cluster(node("a").Obj(), low("a1", "a", "2", 1).Label("app", "both").Label("tier", "both").Obj(), app("a2", "a", "2", 5, "both")),
		},
		{
			Name: "budgets of another namespace, and of everything", Budgets: []*policyv1.PodDisruptionBudget{elsewhere, everything},
			Pod: preemptor("2"), Node: "a", Victims: "a1", Message: "0/1 nodes are available: 1 " + noCPU,
			Cluster: cluster(node("a").Obj(), app("a1", "a", "2", 1, "elsewhere"), app("a2", "a", "2", 5, "elsewhere")),
		},
		{
			Name: "pods that are being evicted do not count", Budgets: []*policyv1.PodDisruptionBudget{leaving},
			Pod: preemptor("2"), Node: "a", Victims: "a1", Message: "0/1 nodes are available: 1 " + noCPU,
			Cluster: cluster(node("a").Obj(), app("a1", "a", "2", 1, "leaving"), app("a2", "a", "2", 5, "leaving")),
		},
	}
}

func theirs(b *build.PodBuilder) *v1.Pod {
	p := b.Obj()
	p.Spec.SchedulerName = "another"
	return p
}

// patient is the class of pods of priority 200 that preempt nobody.
const patient = "patient"

func classed(b *build.PodBuilder, name string) *build.PodBuilder {
	b.Obj().Spec.PriorityClassName = name
	return b
}

func TestPreemption(t *testing.T) {
	r := rig.New(t, testbed.Config{})
	groups := map[string][]trial{"choices": choices(), "relations": relations(), "budgets": budgeted()}
	never := v1.PreemptNever
	r.Create(build.Namespace("elsewhere"), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: patient}, Value: 200, PreemptionPolicy: &never})
	for _, trials := range groups {
		for _, x := range trials {
			for _, b := range x.Budgets {
				create(r, b)
			}
		}
	}
	r.Start("- schedulerName: second\n")
	for name, trials := range groups {
		t.Run(name, func(t *testing.T) {
			for _, x := range trials {
				t.Run(x.Name, func(t *testing.T) { x.run(r.With(t)) })
			}
		})
	}
	for name, test := range stories() {
		t.Run(name, func(t *testing.T) { test(r.With(t)) })
	}
	r.CheckWrites("delete pods ")
}

// create creates a budget with its status, which nobody else keeps here.
func create(r *rig.Rig, b *policyv1.PodDisruptionBudget) {
	status := b.Status
	budgets := r.Admin.PolicyV1().PodDisruptionBudgets(b.Namespace)
	got, err := budgets.Create(r.Context(), b, metav1.CreateOptions{})
	r.Must(err)
	got.Status = status
	_, err = budgets.UpdateStatus(r.Context(), got, metav1.UpdateOptions{})
	r.Must(err)
}
