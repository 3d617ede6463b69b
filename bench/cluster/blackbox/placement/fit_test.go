package placement

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// fitCases are about what nodes have and pods take.
func fitCases() []rig.Case {
	return []rig.Case{
		{
			Name: "CPU", Cluster: cluster(node("a").Obj(), node("b").Obj(), build.Pod("there").CPU("3").Node("a").Obj()),
			Pods: one(p().CPU("2")), Want: "b",
		},
		{
			Name: "all reasons of all nodes", Cluster: cluster(node("a").Pods("1").Obj(), node("b").Obj(), build.Pod("there").CPU("3").Memory("7Gi").Node("a").Obj()),
			Pods:    one(p().CPU("5").Memory("2Gi")),
			Message: "0/2 nodes are available: 1 Insufficient memory, 1 Too many pods, 2 Insufficient cpu.",
		},
		{
			Name: "exactly what is left", Cluster: cluster(node("a").Obj(), build.Pod("there").CPU("1500m").Memory("1Gi").Node("a").Obj()),
			Pods: one(p().CPU("2500m").Memory("7Gi")), Want: "a",
		},
		{
			Name: "a thousandth more than what is left", Cluster: cluster(node("a").Obj(), build.Pod("there").CPU("1500m").Node("a").Obj()),
			Pods: one(p().CPU("2501m")), Message: "0/1 nodes are available: 1 Insufficient cpu.",
		},
		{
			Name: "ephemeral storage", Cluster: cluster(node("a").EphemeralStorage("10Gi").Obj(), build.Pod("there").Request("ephemeral-storage", "6Gi").Node("a").Obj()),
			Pods: one(p().Request("ephemeral-storage", "5Gi")), Message: "0/1 nodes are available: 1 Insufficient ephemeral-storage.",
		},
		{
			Name:    "devices",
			Cluster: cluster(node("a").Resource("example.com/foo", "4").Obj(), node("b").Obj(), node("c").Resource("example.com/foo", "8").Obj(), device(build.Pod("there").Node("a"), "example.com/foo", "3")),
			Pods:    pods(device(p(), "example.com/foo", "2")), Want: "c",
		},
		{
			Name: "devices that no node has", Cluster: cluster(node("a").Obj(), node("b").Resource("example.com/foo", "1").Obj()),
			Pods: pods(device(p(), "example.com/foo", "2")), Message: "0/2 nodes are available: 2 Insufficient example.com/foo.",
		},
		{
			Name: "devices that the profile ignores", Profile: "blind", Cluster: cluster(node("a").Obj()),
			Pods: pods(device(p(), "example.com/foo", "2")), Want: "a",
		},
		{
			Name: "a group of devices that the profile ignores", Profile: "blind", Cluster: cluster(node("a").Obj()),
			Pods: pods(device(p(), "ignored.example/any", "1")), Want: "a",
		},
		{
			Name: "huge pages", Cluster: cluster(node("a").Obj(), node("b").Resource("hugepages-2Mi", "64Mi").Obj()),
			Pods: pods(device(p().CPU("1"), "hugepages-2Mi", "32Mi")), Want: "b",
		},
		{
			Name: "the number of pods", Cluster: slices.Concat(cluster(node("a").Pods("2").Obj(), node("b").Obj()), many(2, "there", onA)),
			Pods: one(p()), Want: "b",
		},
		{
			Name: "too many pods", Cluster: slices.Concat(cluster(node("a").Pods("3").Obj()), many(2, "there", onA)),
			Pods: pods(p().Obj(), build.Pod("next").Obj()), Message: "0/1 nodes are available: 1 Too many pods.",
		},
		{
			Name: "a pod without requests fits where others took everything", Cluster: cluster(node("a").Obj(), build.Pod("there").CPU("4").Memory("8Gi").Node("a").Obj()),
			Pods: one(p()), Want: "a",
		},
		{
			Name: "pods of other schedulers take room", Cluster: cluster(node("a").Obj(), ofAnother(build.Pod("there").CPU("3").Node("a"))),
			Pods: one(p().CPU("2")), Message: "0/1 nodes are available: 1 Insufficient cpu.",
		},
		{
			Name: "static pods take room", Cluster: cluster(node("a").Obj(), mirror(build.Pod("there").CPU("3").Node("a"))),
			Pods: one(p().CPU("2")), Message: "0/1 nodes are available: 1 Insufficient cpu.",
		},
		{
			Name: "pods that have ended leave room", Cluster: cluster(node("a").Obj(),
				build.Pod("done").CPU("3").Node("a").Phase(v1.PodSucceeded).Obj(), build.Pod("broken").CPU("3").Node("a").Phase(v1.PodFailed).Obj()),
			Pods: one(p().CPU("4")), Want: "a",
		},
	}
}

func onA(b *build.PodBuilder) *build.PodBuilder { return b.Node("a") }

func ofAnother(b *build.PodBuilder) *v1.Pod {
	pod := b.Obj()
	pod.Spec.SchedulerName = "another"
	return pod
}

// mirror is how a kubelet shows a pod that it runs from a file.
func mirror(b *build.PodBuilder) *v1.Pod {
	pod := b.Obj()
	pod.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "hash"}
	return pod
}

// requestCases are about what a pod takes. Four CPUs are there.
func requestCases() []rig.Case {
	const none = "0/1 nodes are available: 1 Insufficient cpu."
	a := func() *v1.Node { return node("a").Obj() }
	return []rig.Case{
		{Name: "containers add up", Cluster: cluster(a()), Pods: one(p().CPU("3").Container("second").CPU("2")), Message: none},
		{Name: "init containers run one after the other", Cluster: cluster(a()), Pods: one(p().CPU("1").Init("i1", "cpu", "4").Init("i2", "cpu", "4")), Want: "a"},
		{Name: "the largest init container counts", Cluster: cluster(a()), Pods: one(p().CPU("1").Init("i1", "cpu", "5")), Message: none},
		{Name: "a sidecar runs beside the containers", Cluster: cluster(a()), Pods: one(p().CPU("3").Sidecar("s", "cpu", "2")), Message: none},
		{Name: "a sidecar runs beside init containers after it", Cluster: cluster(a()), Pods: one(p().CPU("1").Sidecar("s", "cpu", "1").Init("i", "cpu", "4")), Message: none},
		{Name: "a sidecar does not run beside init containers before it", Cluster: cluster(a()), Pods: one(p().CPU("1").Init("i", "cpu", "4").Sidecar("s", "cpu", "1")), Want: "a"},
		{Name: "what the runtime takes fits", Cluster: cluster(a()), Pods: pods(heavy(p().CPU("3"))), Want: "a"},
		{Name: "what the runtime takes is too much", Cluster: cluster(a()), Pods: pods(heavy(p().CPU("3500m"))), Message: none},
		{Name: "what the runtime of another takes", Cluster: cluster(a(), heavy(build.Pod("there").CPU("2").Node("a"))), Pods: one(p().CPU("1500m")), Message: none},
		{Name: "the pod as a whole", Cluster: cluster(a()), Pods: one(p().CPU("1").PodLevel("cpu", "5")), Message: none},
	}
}

// heavy gives a pod a runtime that takes a CPU for itself.
func heavy(b *build.PodBuilder) *v1.Pod {
	pod, class := b.Obj(), "heavy"
	pod.Spec.RuntimeClassName = &class
	return pod
}
