package placement

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// app is a pod of an application on a node.
func app(name, app, node string) *build.PodBuilder {
	return build.Pod(name).Label("app", app).Node(node)
}

const (
	notNear   = "node(s) didn't match pod affinity rules."
	notApart  = "node(s) didn't match pod anti-affinity rules."
	unwelcome = "node(s) didn't satisfy existing pods anti-affinity rules."
)

func podAffinityCases() []rig.Case {
	return []rig.Case{
		{
			Name: "near a pod, in its zone", Cluster: cluster(node("a").Zone("1").Obj(), node("b").Zone("2").Obj(), node("c").Zone("2").Unschedulable().Obj(), app("web", "web", "c").Obj()),
			Pods: one(p().Near(build.Around(zone, "app=web"))), Want: "b c",
		},
		{
			Name: "near nobody", Cluster: cluster(node("a").Zone("1").Obj(), node("b").Obj(), app("web", "web", "b").Obj()),
			Pods: one(p().Near(build.Around(zone, "app=web"))), Message: "0/2 nodes are available: 2 " + notNear,
		},
		{
			Name: "the first of its kind", Cluster: cluster(node("a").Obj(), node("b").Zone("1").Obj()),
			Pods: one(p().Label("app", "web").Near(build.Around(zone, "app=web"))), Want: "b",
		},
		{
			Name: "the second of its kind goes to the first", Cluster: cluster(node("a").Zone("1").Obj(), node("b").Zone("2").Obj(), app("web", "web", "b").Obj()),
			Pods: one(p().Label("app", "web").Near(build.Around(zone, "app=web"))), Want: "b",
		},
		{
			Name: "two terms, one zone", Cluster: cluster(node("a").Zone("1").Obj(), node("b").Zone("2").Obj(), app("web", "web", "a").Obj(),
				build.Pod("both").Label("app", "web").Label("tier", "front").Node("b").Obj()),
			Pods: one(p().Near(build.Around(zone, "app=web")).Near(build.Around(zone, "tier=front"))), Want: "b",
		},
		{
			Name: "apart from a pod", Cluster: cluster(node("a").Zone("1").Obj(), node("b").Zone("2").Obj(), app("web", "web", "a").Obj()),
			Pods: one(p().Apart(build.Around(zone, "app=web"))), Want: "b",
		},
		{
			Name: "apart, where there is one everywhere", Cluster: cluster(node("a").Zone("1").Obj(), node("b").Zone("1").Obj(), app("web", "web", "a").Obj()),
			Pods: one(p().Apart(build.Around(zone, "app=web"))), Message: "0/2 nodes are available: 2 " + notApart,
		},
		{
			Name: "a node without the zone is apart from all", Cluster: cluster(node("a").Zone("1").Obj(), node("b").Obj(), app("web", "web", "a").Obj()),
			Pods: one(p().Apart(build.Around(zone, "app=web"))), Want: "b",
		},
		{
			Name: "who is there wants to be apart", Cluster: cluster(node("a").Zone("1").Obj(), node("b").Zone("1").Obj(), app("shy", "shy", "a").Apart(build.Around(zone, "app in (web)")).Obj()),
			Pods: one(p().Label("app", "web")), Message: "0/2 nodes are available: 2 " + unwelcome,
		},
		{
			Name: "each reason where it holds", Cluster: cluster(node("a").Zone("1").Obj(), node("b").Zone("2").Obj(), node("c").Zone("3").Obj(),
				app("db", "db", "a").Obj(), app("web", "web", "a").Obj(), app("db2", "db", "b").Apart(build.Around(zone, "app=new")).Obj()),
			Pods:    one(p().Label("app", "new").Near(build.Around(zone, "app=db")).Apart(build.Around(zone, "app=web"))),
			Message: "0/3 nodes are available: 1 node(s) didn't match pod affinity rules, 1 node(s) didn't match pod anti-affinity rules, 1 node(s) didn't satisfy existing pods anti-affinity rules.",
		},
		{
			Name: "pods that come one after the other", Cluster: cluster(node("a").Label("rack", "1").Obj(), node("b").Label("rack", "2").Obj()),
			Pods:    pods(loner("l1"), loner("l2"), loner("l3")),
			Message: "0/2 nodes are available: 2 " + notApart,
		},
		{
			Name: "the keys of the pod's own revision", Cluster: cluster(node("a").Zone("1").Obj(), node("b").Zone("2").Obj(),
				app("old", "web", "a").Label("revision", "1").Obj(), app("new", "web", "b").Label("revision", "2").Obj()),
			Pods: one(p().Label("app", "web").Label("revision", "2").Near(revision(build.Around(zone, "app=web")))), Want: "b",
		},
		{
			Name: "apart from its own revision only", Cluster: cluster(node("a").Zone("1").Obj(), node("b").Zone("2").Obj(),
				app("old", "web", "a").Label("revision", "1").Obj(), app("new", "web", "b").Label("revision", "2").Obj()),
			Pods: one(p().Label("app", "web").Label("revision", "2").Apart(revision(build.Around(zone, "app=web")))), Want: "a",
		},
		{
			Name: "apart from every other tenant", Cluster: cluster(node("a").Zone("1").Obj(), node("b").Zone("2").Obj(),
				app("mine", "web", "b").Label("tenant", "me").Obj(), app("theirs", "web", "a").Label("tenant", "they").Obj()),
			Pods: one(p().Label("tenant", "me").Apart(others(build.Around(zone, "app=web")))), Want: "b",
		},
	}
}

// loner wants a node without others of its kind.
func loner(name string) *v1.Pod {
	return build.Pod(name).Label("app", "loner").Apart(build.Around("rack", "app=loner")).Obj()
}

func revision(t build.PodTerm) build.PodTerm {
	t.MatchLabelKeys = []string{"revision"}
	return t
}

func others(t build.PodTerm) build.PodTerm {
	t.MismatchLabelKeys = []string{"tenant"}
	return t
}

// namespaceCases are about whose pods a term means.
func namespaceCases() []rig.Case {
	named := func(t build.PodTerm, namespaces ...string) build.PodTerm {
		t.Namespaces = namespaces
		return t
	}
	selected := func(t build.PodTerm, selector string) build.PodTerm {
		t.NamespaceSelector = build.Selector(selector)
		return t
	}
	everywhere := func(t build.PodTerm) build.PodTerm {
		t.NamespaceSelector = &metav1.LabelSelector{}
		return t
	}
	web := build.Around(zone, "app=web")
	in := func(namespace, node string) *v1.Pod { return app("web", "web", node).Namespace(namespace).Obj() }
	zones := func(present ...*v1.Pod) (c rig.Case) {
		c.Cluster = cluster(node("a").Zone("1").Obj(), node("b").Zone("2").Obj())
		for _, pod := range present {
			c.Cluster = append(c.Cluster, pod)
		}
		return c
	}
	say := func(c rig.Case, name string, pod *build.PodBuilder, want, message string) rig.Case {
		c.Name, c.Pods, c.Want, c.Message = name, one(pod), want, message
		return c
	}
	return []rig.Case{
		say(zones(in("east", "b")), "only its own namespace", p().Near(web), "", "0/2 nodes are available: 2 "+notNear),
		say(zones(in("east", "b")), "named namespaces", p().Near(named(web, "east", "west")), "b", ""),
		say(zones(in("east", "b"), in("west", "a")), "namespaces by label", p().Near(selected(web, "side=east")), "b", ""),
		say(zones(in("east", "b"), in("west", "a")), "apart from namespaces by label", p().Apart(selected(web, "side in (east)")), "a", ""),
		say(zones(in("east", "b")), "all namespaces", p().Near(everywhere(web)), "b", ""),
		say(zones(app("shy", "shy", "a").Namespace("west").Apart(selected(build.Around(zone, "app=web"), "side=east")).Obj()),
			"who is there minds a namespace", p().Namespace("east").Label("app", "web"), "b", ""),
		say(zones(app("shy", "shy", "a").Namespace("west").Apart(selected(build.Around(zone, "app=web"), "side=east")).Obj(), app("web", "web", "a").Obj()),
			"who is there does not mind another", p().Label("app", "web").Near(web), "a", ""),
	}
}
