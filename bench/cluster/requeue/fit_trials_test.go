package requeue

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// fitTrials are about room on nodes: resources and host ports.
func fitTrials() []trial {
	var all []trial
	for _, list := range [][]trial{podsRoomTrials(), nodesRoomTrials(), portTrials(), togetherTrials()} {
		all = append(all, list...)
	}
	return all
}

const fit = "NodeResourcesFit"

// small is a node with 2 CPUs and 4 GiB.
func small(name string) *build.NodeBuilder { return bare(name).CPU("2").Memory("4Gi") }

// resized is a patch of what the only container of a pod asks for.
func resized(container, cpu, memory string) string {
	return fmt.Sprintf(`{"spec": {"containers": [{"name": %q, "image": "pause", "resources": {"requests": {"cpu": %q, "memory": %q}}}]}}`, container, cpu, memory)
}

func podsRoomTrials() []trial {
	full := func() []trialObject { return there(small("a").Obj(), other("o", "a").CPU("2").Memory("1Gi").Obj()) }
	wants := func() *v1.Pod { return pod().CPU("1").Obj() }
	return []trial{
		{
			name: "a pod leaves", plugin: fit, has: full(), pod: wants(),
			do: deletePod("o"), event: "AssignedPodDelete", then: "a",
		},
		{
			name: "a pod ends", plugin: fit, has: full(), pod: wants(),
			do: changePod("o", `{"status": {"phase": "Succeeded"}}`, "status"), event: "AssignedPodDelete", then: "a",
		},
		{
			name: "a pod that had nothing leaves", plugin: fit, has: append(full(), other("empty", "a").Obj()), pod: wants(),
			do: deletePod("empty"), event: "AssignedPodDelete", then: inVain,
		},
		{
			name: "a pod that is on no node leaves", plugin: fit, has: append(full(), build.Pod("gated").CPU("1").Gate("example.com/g").Obj()), pod: wants(),
			do: deletePod("gated"), event: "UnschedulablePodDelete", then: stays,
		},
		{
			name: "a pod comes to the node", plugin: fit, has: full(), pod: wants(),
			do: create(other("late", "a").Obj()), event: "AssignedPodAdd", then: stays,
		},
		{
			name: "a pod on the node gets a label", plugin: fit, has: full(), pod: wants(),
			do: changePod("o", labelled("app", "new")), event: "AssignedPodUpdatePodLabel", then: stays,
		},
		{
			name: "a pod on the node shrinks", plugin: fit, has: full(), pod: wants(),
			do: changePod("o", resized("main", "500m", "1Gi"), "resize"), event: "AssignedPodUpdatePodScaleDown", then: "a",
		},
		{
			name: "a pod on the node shrinks, but not enough", plugin: fit, has: full(), pod: wants(),
			do: changePod("o", resized("main", "1500m", "1Gi"), "resize"), event: "AssignedPodUpdatePodScaleDown", then: inVain,
		},
		{
			name: "a pod on the node gives back what is not wanted", plugin: fit, has: full(), pod: wants(),
			do: changePod("o", resized("main", "2", "512Mi"), "resize"), event: "AssignedPodUpdatePodScaleDown", then: stays,
		},
		{
			name: "a pod on the node grows", plugin: fit, has: full(), pod: wants(),
			do: changePod("o", resized("main", "2", "2Gi"), "resize"), event: "AssignedPodUpdate", then: stays,
		},
		{
			name: "the pod itself shrinks", plugin: fit, has: full(), pod: pod().CPU("1").Memory("1Gi").Obj(),
			do: changePod("p", resized("main", "0", "1Gi"), "resize"), event: "UnschedulablePodUpdate", by: "UnschedulablePodUpdatePodScaleDown", then: "a",
		},
		{
			name: "the pod itself shrinks, but not enough", plugin: fit, has: full(), pod: pod().CPU("1").Memory("1Gi").Obj(),
			do: changePod("p", resized("main", "500m", "1Gi"), "resize"), event: "UnschedulablePodUpdate", by: "UnschedulablePodUpdatePodScaleDown", then: retried,
		},
		{
			name: "the pod itself gets a label", plugin: fit, has: full(), pod: wants(),
			do: changePod("p", labelled("app", "new")), event: "UnschedulablePodUpdate", then: stays,
		},
		{
			name: "a volume comes", plugin: fit, has: full(), pod: wants(),
			do: create(shelved("late")), event: "PersistentVolumeAdd", then: stays,
		},
	}
}

func nodesRoomTrials() []trial {
	big := func() *v1.Pod { return pod().CPU("3").Obj() }
	device := func() *v1.Pod {
		p := pod().CPU("1").Obj()
		one := build.Node("x").Resource("example.com/device", "1").Obj().Status.Allocatable["example.com/device"]
		p.Spec.Containers[0].Resources.Requests["example.com/device"] = one
		p.Spec.Containers[0].Resources.Limits = v1.ResourceList{"example.com/device": one}
		return p
	}
	allocatable := func(name, quantity string) func(meteredRig) {
		return changeNode("a", fmt.Sprintf(`{"status": {"allocatable": {%q: %q}}}`, name, quantity), "status")
	}
	return []trial{
		{
			name: "a node with room comes", plugin: fit, has: there(small("a").Obj()), pod: big(),
			do: create(small("b").CPU("4").Obj()), event: "NodeAdd", then: "b",
		},
		{
			name: "a node without room comes", plugin: fit, has: there(small("a").Obj()), pod: big(),
			do: create(small("b").Obj()), event: "NodeAdd", then: stays,
		},
		{
			name: "a node for no pods comes", plugin: fit, has: there(small("a").Obj()), pod: big(),
			do: create(small("b").CPU("4").Pods("0").Obj()), event: "NodeAdd", then: stays,
		},
		{
			name: "the node gets enough CPU", plugin: fit, has: there(small("a").Obj()), pod: big(),
			do: allocatable("cpu", "3"), event: "NodeUpdateNodeAllocatable", then: "a",
		},
		{
			name: "the node gets more CPU, but not enough", plugin: fit, has: there(small("a").Obj()), pod: big(),
			do: allocatable("cpu", "2500m"), event: "NodeUpdateNodeAllocatable", then: stays,
		},
		{
			name: "the node gets more CPU, which others have", plugin: fit, has: there(small("a").Obj(), other("o", "a").CPU("2").Obj()), pod: pod().CPU("2").Obj(),
			do: allocatable("cpu", "3"), event: "NodeUpdateNodeAllocatable", then: inVain,
		},
		{
			name: "the node gets more of what is not wanted", plugin: fit, has: there(small("a").Obj(), other("o", "a").CPU("2").Obj()), pod: pod().CPU("1").Obj(),
			do: allocatable("memory", "64Gi"), event: "NodeUpdateNodeAllocatable", then: stays,
		},
		{
			name: "the node loses CPU", plugin: fit, has: there(small("a").Obj()), pod: big(),
			do: allocatable("cpu", "1"), event: "NodeUpdateNodeAllocatable", then: stays,
		},
		{
			name: "the node may have one more pod", plugin: fit, has: there(small("a").Pods("1").Obj(), other("o", "a").Obj()), pod: pod().Obj(),
			do: allocatable("pods", "2"), event: "NodeUpdateNodeAllocatable", then: "a",
		},
		{
			name: "the node gets a device", plugin: fit, has: there(small("a").Obj()), pod: device(),
			do: allocatable("example.com/device", "1"), event: "NodeUpdateNodeAllocatable", then: "a",
		},
		{
			name: "the node gets another device", plugin: fit, has: there(small("a").Obj()), pod: device(),
			do: allocatable("example.com/other", "1"), event: "NodeUpdateNodeAllocatable", then: stays,
		},
		{
			name: "the node gets a label", plugin: fit, has: there(small("a").Obj()), pod: big(),
			do: changeNode("a", labelled("pool", "new")), event: "NodeUpdateNodeLabel", then: stays,
		},
		{
			name: "the node gets an annotation, and then a label", plugin: fit, has: there(small("a").Obj()), pod: big(),
			do: func(s meteredRig) {
				s.PatchNode("a", annotated)
				s.Label("a", "pool", "new")
			},
			event: "NodeUpdateNodeLabel", then: stays,
		},
		{
			name: "the node is under pressure", plugin: fit, has: there(small("a").Obj()), pod: big(),
			do:    changeNode("a", `{"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "MemoryPressure", "status": "True"}]}}`, "status"),
			event: "NodeUpdateNodeCondition", then: stays,
		},
		{
			name: "the node says that it is alive, and then gets a label", plugin: fit, has: there(small("a").Obj()), pod: big(),
			do: func(s meteredRig) {
				s.heartbeat("a")
				s.Label("a", "pool", "new")
			},
			event: "NodeUpdateNodeLabel", then: stays,
		},
		{
			name: "the node gets a taint", plugin: fit, has: there(small("a").Obj()), pod: big(),
			do: changeNode("a", `{"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}`), event: "NodeUpdateNodeTaint", then: inVain,
		},
		{
			name: "another node is deleted", plugin: fit, has: there(small("a").Obj(), small("b").Obj()), pod: big(),
			do: func(s meteredRig) { s.Must(s.Admin.CoreV1().Nodes().Delete(s.Context(), "b", now())) }, event: "NodeDelete", then: stays,
		},
	}
}

// heartbeat renews a node's condition, as kubelets do.
func (s meteredRig) heartbeat(name string) {
	s.T.Helper()
	n, err := s.Admin.CoreV1().Nodes().Get(s.Context(), name, metav1.GetOptions{})
	s.Must(err)
	n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(n.Status.Conditions[0].LastHeartbeatTime.Add(10e9))
	_, err = s.Admin.CoreV1().Nodes().UpdateStatus(s.Context(), n, metav1.UpdateOptions{})
	s.Must(err)
}

// AddToleration adds a toleration to a pod: the only change of a spec that a pod which waits
// may see without a gate, but for its room.
func (s meteredRig) AddToleration(key string, t v1.Toleration) {
	s.T.Helper()
	p := s.Pods.Get(key).DeepCopy()
	p.Spec.Tolerations = append(p.Spec.Tolerations, t)
	_, err := s.Admin.CoreV1().Pods(p.Namespace).Update(s.Context(), p, metav1.UpdateOptions{})
	s.Must(err)
}

func portTrials() []trial {
	const plugin = "NodePorts"
	taken := there(bare("a").Obj(), other("o", "a").HostPort("", "", 80).Obj(), other("n", "a").HostPort("", "", 443).Obj())
	wants := func() *v1.Pod { return pod().HostPort("", "", 80).Obj() }
	return []trial{
		{
			name: "the pod with the port leaves", plugin: plugin, has: taken, pod: wants(),
			do: deletePod("o"), event: "AssignedPodDelete", then: "a",
		},
		{
			name: "a pod with another port leaves", plugin: plugin, has: taken, pod: wants(),
			do: deletePod("n"), event: "AssignedPodDelete", then: stays,
		},
		{
			name: "a pod with the port of another protocol leaves", plugin: plugin, has: append(taken, other("u", "a").HostPort("", v1.ProtocolUDP, 80).Obj()), pod: wants(),
			do: deletePod("u"), event: "AssignedPodDelete", then: stays,
		},
		{
			name: "a pod with the port, which is on no node, leaves", plugin: plugin, has: append(taken, build.Pod("g").HostPort("", "", 80).Gate("example.com/g").Obj()), pod: wants(),
			do: deletePod("g"), event: "UnschedulablePodDelete", then: stays,
		},
		{
			name: "a node comes", plugin: plugin, has: taken, pod: wants(),
			do: create(bare("b").Obj()), event: "NodeAdd", then: "b",
		},
		{
			name: "the node gets a label", plugin: plugin, has: taken, pod: wants(),
			do: changeNode("a", labelled("pool", "new")), event: "NodeUpdateNodeLabel", then: stays,
		},
		{
			name: "the node gets a taint", plugin: plugin, has: taken, pod: wants(),
			do: changeNode("a", `{"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}`), event: "NodeUpdateNodeTaint", then: retried,
		},
	}
}

// togetherTrials have all rules, and pods that two of them refuse.
func togetherTrials() []trial {
	two := func() []trialObject {
		return there(small("a").Label("side", "west").Obj(), small("b").Label("side", "east").Obj(), other("o", "b").CPU("2").Obj())
	}
	wants := func() *v1.Pod { return pod().CPU("1").NodeSelector("side", "east").Obj() }
	refused := []string{"NodeAffinity", fit}
	return []trial{
		{
			name: "all rules: one node gets the label", has: two(), pod: wants(), refused: refused,
			do: changeNode("a", labelled("side", "east")), event: "NodeUpdateNodeLabel", then: "a",
		},
		{
			name: "all rules: a pod leaves the other node", has: two(), pod: wants(), refused: refused,
			do: deletePod("o"), event: "AssignedPodDelete", then: "b",
		},
		{
			// Each rule says that the new node is what it waited for.
			name: "all rules: a node with room and a taint comes", has: two(), pod: wants(), refused: refused,
			do: create(small("c").Label("side", "east").Taint("k:NoSchedule").Obj()), event: "NodeAdd", then: retried,
		},
		{
			name: "all rules: the full node gets a taint", has: there(small("a").Obj()), pod: pod().CPU("3").Obj(), refused: []string{fit},
			do: changeNode("a", `{"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}`), event: "NodeUpdateNodeTaint", then: retried,
		},
		{
			name: "all rules: the pod gets a toleration", has: two(), pod: wants(), refused: refused,
			do: tolerate("k"), event: "UnschedulablePodUpdate", then: stays,
		},
		{
			name: "all rules: a pod that would be spread with it comes", has: two(), pod: wants(), refused: refused,
			do: create(other("late", "a").Obj()), event: "AssignedPodAdd", then: stays,
		},
	}
}
