package placement

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// zones are two zones of two nodes: a and b, c and d.
func zones(more ...runtime.Object) []runtime.Object {
	return append(cluster(node("a").Zone("1").Obj(), node("b").Zone("1").Obj(), node("c").Zone("2").Obj(), node("d").Zone("2").Obj()), more...)
}

func preferredPodCases() []rig.Case {
	web, db := build.Around(zone, "app=web"), build.Around(zone, "app=db")
	return []rig.Case{
		{Name: "near", Cluster: zones(app("w", "web", "c").Obj()), Pods: one(p().PreferNear(1, web)), Want: "c d"},
		{Name: "apart", Cluster: zones(app("w", "web", "c").Obj()), Pods: one(p().PreferApart(1, web)), Want: "a b"},
		{
			Name: "nearer to more", Cluster: zones(app("w1", "web", "a").Obj(), app("w2", "web", "c").Obj(), app("w3", "web", "d").Obj()),
			Pods: one(p().PreferNear(5, web)), Want: "c d",
		},
		{
			Name: "weights add up", Cluster: zones(app("w", "web", "a").Obj(), app("d1", "db", "c").Obj(), app("d2", "db", "d").Obj()),
			Pods: one(p().PreferNear(30, web).PreferNear(20, db)), Want: "c d",
		},
		{
			Name: "who is there likes it", Cluster: zones(app("x", "x", "d").PreferNear(1, build.Around(zone, "app=new")).Obj()),
			Pods: one(p().Label("app", "new")), Want: "c d",
		},
		{
			Name: "who is there does not", Cluster: zones(app("x", "x", "d").PreferApart(1, build.Around(zone, "app=new")).Obj()),
			Pods: one(p().Label("app", "new")), Want: "a b",
		},
		{
			Name: "likes weigh more than dislikes", Cluster: zones(
				app("x", "x", "d").PreferApart(10, build.Around(zone, "app=new")).Obj(), app("y", "y", "c").PreferNear(11, build.Around(zone, "app=new")).Obj()),
			Pods: one(p().Label("app", "new")), Want: "c d",
		},
		{
			Name: "who is there must be near: a weight of 100", Profile: "clingy", Cluster: zones(needy("d"), app("w", "web", "a").Obj()),
			Pods: one(p().Label("app", "new").PreferNear(99, web)), Want: "c d",
		},
		{
			Name: "who is there must be near: a weight of 1", Cluster: zones(needy("d"), app("w", "web", "a").Obj()),
			Pods: one(p().Label("app", "new").PreferNear(2, web)), Want: "a b",
		},
		{
			Name: "who is there must be near: no weight", Profile: "aloof", Cluster: zones(needy("d"), app("w", "web", "a").PreferNear(1, build.Around(zone, "app=new")).Obj()),
			Pods: one(p().Label("app", "new")), Want: "a b",
		},
		{
			Name: "what others like is ignored", Profile: "deaf", Cluster: zones(app("x", "x", "d").PreferNear(100, build.Around(zone, "app=new")).Obj()),
			Pods: one(p().Label("app", "new").Preferred(1, build.Names("b"))), Want: "b",
		},
	}
}

// needy is a pod that must be near new ones.
func needy(node string) *v1.Pod {
	return app("needy", "new", node).Near(build.Around(zone, "app=new")).Obj()
}

func softSpreadCases() []rig.Case {
	soft := build.Soft(zone, 1, "app=web")
	racks := func(more ...runtime.Object) []runtime.Object {
		return append(cluster(node("a").Zone("1").Label("rack", "1").Obj(), node("b").Zone("1").Label("rack", "2").Obj()), more...)
	}
	served := func(name, node string) *v1.Pod { return app(name, "served", node).Obj() }
	return []rig.Case{
		{
			Name: "to the emptier zone", Cluster: zones(app("w1", "web", "a").Obj(), app("w2", "web", "c").Obj(), app("w3", "web", "d").Obj()),
			Pods: one(web().Spread(soft)), Want: "a b",
		},
		{
			// A zone's pods weigh ln(2+2), a node's ln(4+2).
			Name: "zones and nodes", Cluster: zones(app("w1", "web", "a").Obj(), app("w2", "web", "c").Obj(), app("w3", "web", "d").Obj()),
			Pods: one(web().Spread(soft, build.Soft(v1.LabelHostname, 1, "app=web"))), Want: "b",
		},
		{
			Name: "a node without the label is last", Cluster: cluster(node("a").Obj(), node("b").Zone("1").Obj(), app("w1", "web", "b").Obj(), app("w2", "web", "b").Obj()),
			Pods: one(web().Spread(soft)), Want: "b",
		},
		{
			Name: "pods of a Service are spread by themselves", Cluster: zones(served("s1", "a"), served("s2", "a"), served("s3", "b"), served("s4", "c")),
			Pods: one(p().Label("app", "served")), Want: "d",
		},
		{
			Name: "pods of no Service are not", Cluster: zones(app("w1", "web", "a").Obj(), app("w2", "web", "b").Obj(), app("w3", "web", "c").Obj()),
			Pods: one(p().Label("app", "web")), Want: "a b c d",
		},
		{
			Name: "as the profile says", Profile: "racks", Cluster: racks(served("s1", "b")), Pods: one(p().Label("app", "served")), Want: "a",
		},
		{
			Name: "the pod's own constraints instead of the profile's", Profile: "racks", Cluster: racks(node("c").Zone("2").Label("rack", "2").Obj(), served("s1", "a"), served("s2", "c"), served("s3", "c")),
			Pods: one(p().Label("app", "served").Spread(build.Soft(zone, 1, "app=served"))), Want: "a b",
		},
	}
}

// togetherCases are for the default profile, and small changes of it.
func togetherCases() []rig.Case {
	const tail = "no new claims to deallocate, preemption: "
	ssd := build.Labels(build.Match("disk", v1.NodeSelectorOpIn, "ssd"))
	return []rig.Case{
		{
			// Taints weigh 3, affinity 2.
			Name: "a taint against a preference", Cluster: cluster(node("a").Label("disk", "ssd").Taint("k:PreferNoSchedule").Obj(), node("b").Obj()),
			Pods: one(p().CPU("1").Preferred(1, ssd)), Want: "b",
		},
		{
			Name: "a taint against a preference that weighs 50", Profile: "reweighted", Cluster: cluster(node("a").Label("disk", "ssd").Taint("k:PreferNoSchedule").Obj(), node("b").Obj()),
			Pods: one(p().CPU("1").Preferred(1, ssd)), Want: "a",
		},
		{
			Name: "a profile that ignores taints", Profile: "careless", Cluster: cluster(node("a").Taint("k:NoExecute").Obj()), Pods: one(p().CPU("1")), Want: "a",
		},
		{
			Name: "a profile without preemption", Profile: "careless", Cluster: cluster(node("a").Obj()), Pods: one(p().CPU("5")),
			Message: "0/1 nodes are available: 1 Insufficient cpu.", After: "no new claims to deallocate",
		},
		{
			Name: "the first rule that refuses a node gives the reason", Cluster: cluster(
				node("a").Unschedulable().Taint("k:NoSchedule").Obj(), node("b").Taint("k:NoSchedule").Obj(), node("c").Obj(), node("d").Label("disk", "ssd").Obj(),
				build.Pod("there").CPU("3").Memory("8Gi").Node("d").Obj()),
			Pods:    one(p().CPU("2").Memory("1Gi").NodeSelector("disk", "ssd")),
			Message: "0/4 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable.",
			After:   tail + "0/4 nodes are available: 1 No preemption victims found for incoming pod, 3 Preemption is not helpful for scheduling.",
		},
		{
			Name: "more than there is", Cluster: cluster(node("a").Obj(), node("b").Obj()), Pods: one(p().CPU("5")),
			Message: "0/2 nodes are available: 2 Insufficient cpu.", After: tail + "0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
		},
		{
			Name: "a rule that knows before it sees nodes", Cluster: cluster(node("a").Obj()), Pods: one(p().Required(both("a", "b"))),
			Message: "0/1 nodes are available: pod affinity terms conflict.", After: "not found",
		},
		{Name: "no nodes", Pods: one(p()), Message: "no nodes available to schedule pods"},
	}
}
