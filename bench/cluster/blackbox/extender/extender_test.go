package extender

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// configuration has an extender for each kind of pod; those that may be ignored stand first, for they
// are moved.
const configuration = `
extenders:
- {urlPrefix: "URL/gone", filterVerb: filter, prioritizeVerb: prioritize, weight: 1, ignorable: true, nodeCacheCapable: true, managedResources: [{name: example.com/ignored}]}
- {urlPrefix: "URL/down/", filterVerb: filter, nodeCacheCapable: true, managedResources: [{name: example.com/down}]}
- {urlPrefix: "URL/choosy/", filterVerb: filter, nodeCacheCapable: true, managedResources: [{name: example.com/choosy}]}
- {urlPrefix: "URL/scorer", prioritizeVerb: prioritize, weight: 100, nodeCacheCapable: true, managedResources: [{name: example.com/scored}]}
- {urlPrefix: "URL/whole", filterVerb: filter, managedResources: [{name: example.com/whole}]}
- {urlPrefix: "URL/binder", bindVerb: bind, managedResources: [{name: example.com/bound}]}
- {urlPrefix: "URL/preempter", preemptVerb: preempt, nodeCacheCapable: true, managedResources: [{name: example.com/preempted}]}
- {urlPrefix: "URL/slow", filterVerb: filter, httpTimeout: 10m, nodeCacheCapable: true, managedResources: [{name: example.com/slow}]}
`

func TestExtenders(t *testing.T) {
	r := rig.New(t, testbed.Config{})
	s := serve(t)
	s.admin = r.Admin
	r.StartWith("", strings.ReplaceAll(configuration, "URL", s.URL))
	run := func(name string, test func(*rig.Rig, *servers)) {
		t.Run(name, func(t *testing.T) { test(r.With(t), s) })
	}
	run("filter", testFilter)
	run("prioritize", testPrioritize)
	run("whole objects", testWhole)
	run("failing", testFailing)
	run("bind", testBind)
	run("preempt", testPreempt)
	if !rig.Upstream() {
		run("hanging", testHanging)
	}
}

// node has a lot of every extender's resource.
func node(name, cpu string) *build.NodeBuilder {
	n := build.Node(name).CPU(cpu).Memory("64Gi").Pods("300")
	for _, kind := range []string{"ignored", "down", "choosy", "scored", "whole", "bound", "preempted", "slow"} {
		n.Resource("example.com/"+kind, "1000")
	}
	return n
}

// pod is one that an extender is interested in.
func pod(name, kind string) *v1.Pod { return with(build.Pod(name).CPU("1"), kind) }

// with has a pod want an extender's resource.
func with(b *build.PodBuilder, kind string) *v1.Pod {
	p := b.Request("example.com/"+kind, "1").Obj()
	name := v1.ResourceName("example.com/" + kind)
	c := &p.Spec.Containers[0].Resources
	c.Limits = v1.ResourceList{name: c.Requests[name]}
	return p
}

func settle(r *rig.Rig, nodes ...*build.NodeBuilder) {
	r.T.Helper()
	var last string
	for _, n := range nodes {
		r.Create(n.Obj())
		last = n.Obj().Name
	}
	r.Settle(last)
}

func testFilter(r *rig.Rig, s *servers) {
	settle(r, node("a", "4"), node("b", "4"), node("full", "100m"), node("z", "4"))
	r.Create(pod("p1", "choosy"), build.Pod("other").CPU("1").Obj())
	r.Waits("default/p1", "0/4 nodes are available: 1 Insufficient cpu, 1 choosy: busy, 1 choosy: never.")
	r.Bound("default/other")
	if n := s.times("choosy/filter other"); n != 0 {
		r.T.Errorf("the extender was asked %d times about a pod without its resource", n)
	}
	// Any event has it tried again.
	r.Create(node("c", "4").Obj())
	r.Goes("default/p1", "c")
}

func testPrioritize(r *rig.Rig, _ *servers) {
	settle(r, node("a", "64"), node("b", "8"), node("c", "64"))
	for i := range 5 {
		name := fmt.Sprintf("p%d", i)
		r.Create(pod(name, "scored"))
		r.Goes("default/"+name, "b")
	}
}

func testWhole(r *rig.Rig, s *servers) {
	n := node("a", "4").Obj()
	n.Annotations = map[string]string{"blackbox/note": "seen"}
	r.Create(n)
	r.Settle("a")
	p := pod("p", "whole")
	p.Annotations = map[string]string{"blackbox/note": "seen too"}
	p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "MODE", Value: "fast"}}
	p.Spec.Hostname = "host"
	r.Create(p)
	r.Goes("default/p", "a")
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := s.whole.Nodes.Items; len(got) != 1 || got[0].Annotations["blackbox/note"] != "seen" || got[0].UID == "" {
		r.T.Errorf("sent nodes %v, want a with its annotations", got)
	}
	got := s.whole.Pod
	if env := got.Spec.Containers[0].Env; got.Annotations["blackbox/note"] != "seen too" || len(env) != 1 || env[0].Value != "fast" || got.Spec.Hostname != "host" {
		r.T.Errorf("sent pod %v, want all of it", got)
	}
}

func testFailing(r *rig.Rig, s *servers) {
	settle(r, node("a", "4"))
	r.Create(pod("p", "down"), pod("q", "ignored"))
	r.Goes("default/q", "a")
	want := "failed filter with extender at URL " + s.URL + "/down/filter, code 500"
	r.Until("are told of the error", func(p *v1.Pod) bool {
		if p == nil {
			return false
		}
		c := testbed.ScheduledCondition(p)
		return c != nil && c.Reason == v1.PodReasonSchedulerError && c.Message == want
	}, "default/p")
	if s.times("gone/filter q") == 0 {
		r.T.Error("the extender that may be ignored was not asked")
	}
}

func testBind(r *rig.Rig, s *servers) {
	settle(r, node("a", "4"))
	r.Create(pod("p", "bound"))
	r.Goes("default/p", "a")
	if n := s.times("binder/bind p"); n != 1 {
		r.T.Errorf("the extender was asked to bind %d times, want once", n)
	}
	if got := r.Pods.Get("default/p").Annotations["bound-by"]; got != "extender" {
		r.T.Errorf("it was bound by %q, want the extender", got)
	}
	r.Create(pod("refused", "bound"))
	r.Goes("default/refused", "a")
	if n := s.times("binder/bind refused"); n != 2 {
		r.T.Errorf("the extender was asked to bind %d times, want again after it had refused", n)
	}
}

func testPreempt(r *rig.Rig, s *servers) {
	settle(r, node("a", "4"), node("b", "4"))
	var there []runtime.Object
	for _, on := range []string{"a", "b"} {
		p := build.Pod("low-" + on).CPU("4").Node(on)
		if on == "b" {
			p.Priority(5) // by itself the pod would rather have a's
		}
		there = append(there, p.Obj())
	}
	r.Create(there...)
	settle(r, node("tiny", "100m"))
	r.Create(with(build.Pod("p").CPU("4").Priority(100), "preempted"))
	r.Until("are nominated to b", func(p *v1.Pod) bool { return p != nil && p.Status.NominatedNodeName == "b" }, "default/p")
	// The pod is gated until then, and what happens to the victim before that would not wake it.
	r.Await("the victim is told to leave", func(ctx context.Context) (string, bool) {
		list, err := r.Admin.EventsV1().Events("default").List(ctx, metav1.ListOptions{})
		r.Must(err)
		return fmt.Sprintf("%d events", len(list.Items)), slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Reason == "Preempted" && e.Regarding.Name == "low-b"
		})
	})
	r.Delete("default/low-b")
	r.Goes("default/p", "b")
	if p := r.Pods.Get("default/low-a"); p == nil || p.DeletionTimestamp != nil {
		r.T.Error("the pod on a leaves, too")
	}
	if s.times("preempter/preempt p") == 0 {
		r.T.Error("the extender was not asked")
	}
}

// testHanging has pods bound while an extender hangs that others wait for.
func testHanging(r *rig.Rig, s *servers) {
	settle(r, node("a", "500"))
	for i := range 20 {
		r.Create(pod(fmt.Sprintf("slow%d", i), "slow"))
	}
	r.Await("the extender is asked", func(context.Context) (string, bool) {
		n := s.times("slow/filter")
		return fmt.Sprint(n), n == 16
	})
	keys := make([]string, 100)
	for i := range keys {
		r.Create(build.Pod(fmt.Sprintf("p%d", i)).CPU("1").Obj())
		keys[i] = fmt.Sprintf("default/p%d", i)
	}
	r.Until("are bound beside it", func(p *v1.Pod) bool { return p != nil && p.Spec.NodeName != "" }, keys...)
	if n := s.times("slow/filter"); n != 16 {
		r.T.Errorf("%d calls are under way, want 16", n)
	}
	if n := r.Metric("shardsched_extender_calls_in_flight", `verb="filter"`); n != 16 {
		r.T.Errorf("the metric has %v calls in flight, want 16", n)
	}
	s.let()
	for i := range 20 {
		r.Goes(fmt.Sprintf("default/slow%d", i), "a")
	}
}
