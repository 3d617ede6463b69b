package placement

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

const (
	skewed  = "node(s) didn't match pod topology spread constraints."
	noLabel = "node(s) didn't match pod topology spread constraints (missing required label)."
)

// web is the pod that is spread.
func web() *build.PodBuilder { return p().Label("app", "web") }

// spread changes a hard constraint over zones by the label app.
func spread(maxSkew int32, changes ...func(*build.Constraint)) build.Constraint {
	c := build.Hard(zone, maxSkew, "app=web")
	for _, change := range changes {
		change(&c)
	}
	return c
}

func minDomains(n int32) func(*build.Constraint) {
	return func(c *build.Constraint) { c.MinDomains = &n }
}

func spreadCases() []rig.Case {
	return []rig.Case{
		{
			Name: "to the emptier zone", Cluster: cluster(node("a").Zone("1").Obj(), node("b").Zone("2").Obj(), app("w1", "web", "a").Obj()),
			Pods: one(web().Spread(spread(1))), Want: "b",
		},
		{
			Name: "within the skew", Profile: "default-scheduler", Cluster: cluster(node("a").Zone("1").Obj(), node("b").Zone("2").Taint("k:NoSchedule").Obj(), app("w1", "web", "a").Obj()),
			Pods: one(web().Spread(spread(2))), Want: "a",
		},
		{
			Name: "beyond the skew", Cluster: cluster(node("a").Zone("1").Obj(), node("b").Zone("2").Obj(), app("w1", "web", "a").Obj(), app("w2", "web", "b").Obj(), node("c").Zone("3").Obj()),
			Pods: pods(web().Spread(spread(1)).Obj()), Want: "c",
		},
		{
			Name: "a node without the label", Cluster: cluster(node("a").Obj()),
			Pods: one(web().Spread(spread(1))), Message: "0/1 nodes are available: 1 " + noLabel,
		},
		{
			Name: "a full zone and a node without the label", Cluster: cluster(node("a").Zone("1").Obj(), node("b").Obj(), app("w1", "web", "a").Obj()),
			Pods:    one(web().Spread(spread(1, minDomains(2)))),
			Message: "0/2 nodes are available: 1 node(s) didn't match pod topology spread constraints, 1 node(s) didn't match pod topology spread constraints (missing required label).",
		},
		{
			Name: "fewer zones than wanted count as an empty one", Cluster: cluster(node("a").Zone("1").Obj(), node("b").Zone("2").Obj(), app("w1", "web", "a").Obj(), app("w2", "web", "b").Obj()),
			Pods: one(web().Spread(spread(1, minDomains(3)))), Message: "0/2 nodes are available: 2 " + skewed,
		},
		{
			Name: "as many zones as wanted", Cluster: cluster(node("a").Zone("1").Obj(), node("b").Zone("2").Obj(), app("w1", "web", "a").Obj(), app("w2", "web", "b").Obj()),
			Pods: one(web().Spread(spread(1, minDomains(2)))), Want: "a b",
		},
		{
			Name: "a pod that does not count itself", Profile: "default-scheduler", Cluster: cluster(node("a").Zone("1").Obj(), node("b").Zone("2").Taint("k:NoSchedule").Obj(), app("w1", "web", "a").Obj()),
			Pods: one(p().Label("app", "other").Spread(spread(1))), Want: "a",
		},
		{
			Name: "zones and nodes at once", Cluster: cluster(
				node("a").Zone("1").Label("host", "a").Obj(), node("b").Zone("1").Label("host", "b").Obj(), node("c").Zone("2").Label("host", "c").Obj(), node("d").Zone("2").Label("host", "d").Obj(),
				app("w1", "web", "a").Obj(), app("w2", "web", "b").Obj(), app("w3", "web", "c").Obj()),
			Pods: one(web().Spread(spread(1), build.Hard("host", 1, "app=web"))), Want: "d",
		},
		{
			Name: "pods of other namespaces do not count", Cluster: cluster(node("a").Zone("1").Obj(), node("b").Zone("2").Obj(), app("w1", "web", "a").Obj(),
				app("e1", "web", "b").Namespace("east").Obj(), app("e2", "web", "b").Namespace("east").Obj()),
			Pods: one(web().Spread(spread(1))), Want: "b",
		},
		{
			Name: "pods that come one after the other", Cluster: cluster(node("a").Zone("1").Obj(), node("b").Zone("2").Obj()),
			Pods: pods(spreadPod("s1"), spreadPod("s2"), web().Spread(spread(1, minDomains(3))).Obj()), Message: "0/2 nodes are available: 2 " + skewed,
		},
	}
}

func spreadPod(name string) *v1.Pod {
	return build.Pod(name).Label("app", "web").Spread(spread(1)).Obj()
}

// spreadPolicyCases are about the nodes and pods that a constraint counts.
func spreadPolicyCases() []rig.Case {
	honor, ignore := v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore
	affinity := func(p *v1.NodeInclusionPolicy) func(*build.Constraint) {
		return func(c *build.Constraint) { c.NodeAffinityPolicy = p }
	}
	taints := func(p *v1.NodeInclusionPolicy) func(*build.Constraint) {
		return func(c *build.Constraint) { c.NodeTaintsPolicy = p }
	}
	// Zone 1, where there is one of its kind, is the only one where the other rules let it go.
	pooled := func(changes ...func(*build.Constraint)) *build.PodBuilder {
		return web().NodeSelector("pool", "own").Spread(spread(1, changes...))
	}
	say := func(name string, c []runtime.Object, pod *build.PodBuilder, want, message, after string) rig.Case {
		return rig.Case{Name: name, Profile: "default-scheduler", Cluster: c, Pods: one(pod), Want: want, Message: message, After: after}
	}
	pools := func() []runtime.Object {
		return cluster(node("a").Zone("1").Label("pool", "own").Obj(), node("b").Zone("2").Obj(), app("w1", "web", "a").Obj())
	}
	tainted := func() []runtime.Object {
		return cluster(node("a").Zone("1").Obj(), node("b").Zone("2").Taint("k:NoSchedule").Obj(), app("w1", "web", "a").Obj())
	}
	const preempts = "no new claims to deallocate, preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
	return []rig.Case{
		say("nodes that the pod can't go to do not count", pools(), pooled(), "a", "", ""),
		say("they count where it says so", pools(), pooled(affinity(&ignore)), "",
			"0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) didn't match pod topology spread constraints.", preempts),
		say("they do not count, said aloud", pools(), pooled(affinity(&honor)), "a", "", ""),
		say("tainted nodes count", tainted(), web().Spread(spread(1)), "",
			"0/2 nodes are available: 1 node(s) didn't match pod topology spread constraints, 1 node(s) had untolerated taint(s).", preempts),
		say("tainted nodes do not count where it says so", tainted(), web().Spread(spread(1, taints(&honor))), "a", "", ""),
		{
			Name: "only pods of its own revision count", Cluster: cluster(node("a").Zone("1").Obj(), node("b").Zone("2").Obj(),
				app("o1", "web", "a").Label("revision", "1").Obj(), app("o2", "web", "a").Label("revision", "1").Obj(), app("n1", "web", "b").Label("revision", "2").Obj()),
			Pods: one(web().Label("revision", "2").Spread(spread(1, func(c *build.Constraint) { c.MatchLabelKeys = []string{"revision"} }))), Want: "a",
		},
	}
}
