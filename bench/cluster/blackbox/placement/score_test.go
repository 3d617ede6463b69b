package placement

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// scoreCases are by plugin; those without a profile are in one that has nothing but it, with
// its usual arguments. Every node is feasible in these.
func scoreCases() map[string][]rig.Case {
	return map[string][]rig.Case{
		"NodeResourcesFit":                fitScoreCases(),
		"NodeResourcesBalancedAllocation": balanceCases(),
		"ImageLocality":                   imageCases(),
		"NodeAffinity":                    preferredNodeCases(),
		"TaintToleration":                 preferredTaintCases(),
		"InterPodAffinity":                preferredPodCases(),
		"PodTopologySpread":               softSpreadCases(),
	}
}

// takes is a pod that takes CPU and memory on a node.
func takes(name, node, cpu, memory string) *v1.Pod {
	return build.Pod(name).CPU(cpu).Memory(memory).Node(node).Obj()
}

func fitScoreCases() []rig.Case {
	return []rig.Case{
		{
			Name: "the least allocated", Cluster: cluster(node("a").Obj(), node("b").Obj(), node("c").Obj(), takes("t1", "a", "2", "4Gi"), takes("t2", "b", "1", "2Gi"), takes("t3", "c", "3", "6Gi")),
			Pods: one(p().CPU("500m").Memory("1Gi")), Want: "b",
		},
		{
			Name: "shares of what there is, not amounts", Cluster: cluster(node("a").Obj(), build.Node("b").CPU("16").Memory("32Gi").Obj(), takes("t1", "a", "1", "2Gi"), takes("t2", "b", "2", "4Gi")),
			Pods: one(p().CPU("1").Memory("2Gi")), Want: "b",
		},
		{
			// a: cpu 1/4 free, memory 6/8 free: 50. b: cpu 3/4 free, memory 1/8 free: 43.
			Name: "CPU and memory weigh the same", Cluster: cluster(node("a").Obj(), node("b").Obj(), takes("t1", "a", "2", "0"), takes("t2", "b", "0", "5Gi")),
			Pods: one(p().CPU("1").Memory("2Gi")), Want: "a",
		},
		{
			// a: (3·25 + 75) / 4 = 37. b: (3·72 + 12) / 4 = 57.
			Name: "CPU weighs three times as much", Profile: "cpu-first", Cluster: cluster(node("a").Obj(), node("b").Obj(), takes("t1", "a", "2", "0"), takes("t2", "b", "0", "5Gi")),
			Pods: one(p().CPU("1").Memory("2Gi")), Want: "b",
		},
		{
			Name: "pods without requests count as small ones", Cluster: slices.Concat(cluster(node("a").Obj(), node("b").Obj(), takes("t", "b", "500m", "1Gi")), many(10, "small", onA)),
			Pods: one(p().CPU("1").Memory("1Gi")), Want: "b",
		},
		{
			Name: "the most allocated", Profile: "packed", Cluster: cluster(node("a").Obj(), node("b").Obj(), takes("t1", "a", "1", "2Gi"), takes("t2", "b", "2", "4Gi")),
			Pods: one(p().CPU("1").Memory("1Gi")), Want: "b",
		},
		{
			Name: "half full is best", Profile: "half-full", Cluster: cluster(node("a").Obj(), node("b").Obj(), node("c").Obj(), takes("t2", "b", "1", "0"), takes("t3", "c", "2", "0")),
			Pods: one(p().CPU("1")), Want: "b",
		},
		{
			Name: "devices are packed", Profile: "devices-packed", Cluster: cluster(
				node("a").Resource("example.com/foo", "4").Obj(), node("b").Resource("example.com/foo", "4").Obj(), node("c").Obj(), device(build.Pod("t").Node("b"), "example.com/foo", "1")),
			Pods: pods(device(p(), "example.com/foo", "2")), Want: "b",
		},
	}
}

func balanceCases() []rig.Case {
	return []rig.Case{
		{
			// a gets from (1/2, 0) to (1/2, 1/2): 50 + (50+100-75)/2 = 87. b from (0, 0) to (0, 1/2): 50 + (50+75-100)/2 = 62.
			Name: "what evens CPU and memory out", Cluster: cluster(node("a").Obj(), node("b").Obj(), takes("t", "a", "2", "0")),
			Pods: one(p().Memory("4Gi")), Want: "a",
		},
		{
			// a stays even at a half more: 75. b goes from (1/4, 0) to (1/2, 1/2): 50 + (50+100-87)/2 = 81 and
			// c from (0, 0) to (1/4, 1/2): 69.
			Name: "the change counts, not the state", Cluster: cluster(node("a").Obj(), build.Node("b").CPU("4").Memory("4Gi").Obj(), node("c").Obj(), takes("t1", "a", "1", "2Gi"), takes("t2", "b", "1", "0")),
			Pods: one(p().CPU("1").Memory("2Gi")), Want: "b",
		},
		{
			Name: "of other resources", Profile: "balanced-devices", Cluster: cluster(
				node("a").Resource("example.com/foo", "4").Obj(), node("b").Resource("example.com/foo", "4").Obj(), takes("t", "b", "2", "0")),
			Pods: pods(device(p(), "example.com/foo", "2")), Want: "b",
		},
	}
}

func imageCases() []rig.Case {
	const mb = 1 << 20
	return []rig.Case{
		{
			Name: "where the image is", Cluster: cluster(node("a").Obj(), node("b").Image(400*mb, "registry.example/app:1").Obj(), node("c").Image(400*mb, "registry.example/app:2").Obj()),
			Pods: one(p().Image("registry.example/app:1")), Want: "b",
		},
		{
			Name: "the latest, where no tag is given", Cluster: cluster(node("a").Obj(), node("b").Image(400*mb, "registry.example:5000/app:latest").Obj()),
			Pods: one(p().Image("registry.example:5000/app")), Want: "b",
		},
		{
			Name: "the larger image", Cluster: cluster(node("a").Image(300*mb, "registry.example/x:1").Obj(), node("b").Image(500*mb, "registry.example/y:1").Obj()),
			Pods: one(p().Image("registry.example/x:1").Container("second").Image("registry.example/y:1")), Want: "b",
		},
		{
			Name: "images of init containers", Cluster: cluster(node("a").Obj(), node("b").Image(500*mb, "registry.example/x:1").Obj()),
			Pods: pods(initImage("registry.example/x:1")), Want: "b",
		},
	}
}

func initImage(image string) *v1.Pod {
	pod := p().Init("i").Obj()
	pod.Spec.InitContainers[0].Image = image
	return pod
}

func preferredNodeCases() []rig.Case {
	has := func(key string, values ...string) build.Term {
		return build.Labels(build.Match(key, v1.NodeSelectorOpIn, values...))
	}
	return []rig.Case{
		{
			Name: "weights add up", Cluster: cluster(node("a").Label("x", "1").Obj(), node("b").Label("y", "1").Label("z", "1").Obj(), node("c").Label("z", "1").Obj()),
			Pods: one(p().Preferred(10, has("x", "1")).Preferred(4, has("y", "1")).Preferred(7, has("z", "1"))), Want: "b",
		},
		{
			Name: "a term must match as a whole", Cluster: cluster(node("a").Label("x", "1").Obj(), node("b").Label("z", "1").Obj()),
			Pods: one(p().Preferred(10, build.Labels(build.Match("x", v1.NodeSelectorOpExists), build.Match("y", v1.NodeSelectorOpExists))).Preferred(1, has("z", "1"))), Want: "b",
		},
		{
			Name: "a name", Cluster: cluster(node("a").Obj(), node("b").Obj(), node("c").Obj()), Pods: one(p().Preferred(1, build.Names("b"))), Want: "b",
		},
		{
			Name: "the profile's own", Profile: "leaning", Cluster: cluster(node("a").Obj(), node("b").Label("pool", "1").Obj()), Pods: one(p()), Want: "b",
		},
		{
			Name: "the profile's own beside the pod's", Profile: "leaning", Cluster: cluster(node("a").Label("x", "1").Obj(), node("b").Label("pool", "1").Obj()),
			Pods: one(p().Preferred(6, has("x", "1"))), Want: "a",
		},
	}
}

func preferredTaintCases() []rig.Case {
	nodes := func() []rig.Case {
		return []rig.Case{{Cluster: cluster(
			node("a").Taint("k=1:PreferNoSchedule").Taint("l=1:PreferNoSchedule").Obj(),
			node("b").Taint("m=1:PreferNoSchedule").Obj(),
		)}}
	}
	say := func(c []rig.Case, name, want string, pod *build.PodBuilder) rig.Case {
		c[0].Name, c[0].Want, c[0].Pods = name, want, one(pod)
		return c[0]
	}
	return []rig.Case{
		say(nodes(), "fewer are better", "b", p()),
		say(nodes(), "tolerated ones do not count", "a", p().Toleration("k").Toleration("l=1:PreferNoSchedule")),
		say(nodes(), "a toleration of another effect does not help", "b", p().Toleration("k:NoSchedule").Toleration("l:NoExecute")),
		{
			Name: "NoSchedule does not count", Cluster: cluster(node("a").Taint("m=1:PreferNoSchedule").Obj(), node("b").Taint("k:NoSchedule").Taint("l:NoSchedule").Obj()),
			Pods: one(p()), Want: "b",
		},
	}
}
