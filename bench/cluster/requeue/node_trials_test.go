package requeue

import (
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// nodeTrials are about the rules that look at nodes alone.
func nodeTrials() []trial {
	var all []trial
	for _, list := range [][]trial{gateTrials(), cordonTrials(), taintTrials(), nodeAffinityTrials(), featureTrials()} {
		all = append(all, list...)
	}
	return all
}

func gateTrials() []trial {
	const plugin = "SchedulingGates"
	gated := func() *v1.Pod { return pod().Gate("example.com/one").Gate("example.com/two").Obj() }
	return []trial{
		{
			name: "all gates are gone", plugin: plugin, has: there(bare("a").Obj()), pod: gated(),
			do: changePod("p", `{"spec": {"schedulingGates": []}}`), event: "UnschedulablePodUpdate",
			by: "UnschedulablePodUpdatePodSchedulingGatesEliminated", then: "a",
		},
		{
			name: "one gate of two is gone", plugin: plugin, has: there(bare("a").Obj()), pod: gated(),
			do: changePod("p", `{"spec": {"schedulingGates": [{"name": "example.com/two"}]}}`), event: "UnschedulablePodUpdate", then: stays,
		},
		{
			name: "a gated pod gets a label", plugin: plugin, has: there(bare("a").Obj()), pod: gated(),
			do: changePod("p", labelled("app", "new")), event: "UnschedulablePodUpdate", then: stays,
		},
		{
			name: "a node comes", plugin: plugin, has: there(bare("a").Obj()), pod: gated(),
			do: create(bare("b").Obj()), event: "NodeAdd", then: stays,
		},
	}
}

func cordonTrials() []trial {
	const plugin = "NodeUnschedulable"
	cordoned := there(bare("a").Unschedulable().Obj())
	return []trial{
		{
			name: "the node is uncordoned", plugin: plugin, has: cordoned, pod: pod().Obj(),
			do: changeNode("a", `{"spec": {"unschedulable": false}}`), event: "NodeUpdateNodeTaint", then: "a",
		},
		{
			name: "a node comes", plugin: plugin, has: cordoned, pod: pod().Obj(),
			do: create(bare("b").Obj()), event: "NodeAdd", then: "b",
		},
		{
			name: "a cordoned node comes", plugin: plugin, has: cordoned, pod: pod().Obj(),
			do: create(bare("b").Unschedulable().Obj()), event: "NodeAdd", then: stays,
		},
		{
			name: "the cordoned node gets a taint", plugin: plugin, has: cordoned, pod: pod().Obj(),
			do: changeNode("a", `{"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}`), event: "NodeUpdateNodeTaint", then: stays,
		},
		{
			name: "the cordoned node gets a label", plugin: plugin, has: cordoned, pod: pod().Obj(),
			do: changeNode("a", labelled("pool", "new")), event: "NodeUpdateNodeLabel", then: stays,
		},
		{
			name: "the pod tolerates cordoned nodes", plugin: plugin, has: cordoned, pod: pod().Obj(),
			do: tolerate(v1.TaintNodeUnschedulable), event: "UnschedulablePodUpdate", by: "UnschedulablePodUpdatePodToleration", then: "a",
		},
		{
			name: "the pod tolerates something else", plugin: plugin, has: cordoned, pod: pod().Obj(),
			do: tolerate("example.com/other"), event: "UnschedulablePodUpdate", then: stays,
		},
	}
}

// tolerate adds a toleration to the pod that waits.
func tolerate(key string) func(meteredRig) {
	return func(s meteredRig) {
		s.T.Helper()
		s.AddToleration("default/p", v1.Toleration{Key: key, Operator: v1.TolerationOpExists})
	}
}

func taintTrials() []trial {
	const plugin = "TaintToleration"
	tainted := there(bare("a").Taint("k=v:NoSchedule").Obj())
	return []trial{
		{
			name: "the taint goes", plugin: plugin, has: tainted, pod: pod().Obj(),
			do: changeNode("a", `{"spec": {"taints": null}}`), event: "NodeUpdateNodeTaint", then: "a",
		},
		{
			name: "the taint is softened", plugin: plugin, has: tainted, pod: pod().Obj(),
			do: changeNode("a", `{"spec": {"taints": [{"key": "k", "value": "v", "effect": "PreferNoSchedule"}]}}`), event: "NodeUpdateNodeTaint", then: "a",
		},
		{
			name: "the taint gets a value that is tolerated", plugin: plugin, has: tainted, pod: pod().Toleration("k=mine:NoSchedule").Obj(),
			do: changeNode("a", `{"spec": {"taints": [{"key": "k", "value": "mine", "effect": "NoSchedule"}]}}`), event: "NodeUpdateNodeTaint", then: "a",
		},
		{
			name: "the taint gets another value", plugin: plugin, has: tainted, pod: pod().Toleration("k=mine:NoSchedule").Obj(),
			do: changeNode("a", `{"spec": {"taints": [{"key": "k", "value": "w", "effect": "NoSchedule"}]}}`), event: "NodeUpdateNodeTaint", then: stays,
		},
		{
			name: "one taint of two goes", plugin: plugin, has: there(bare("a").Taint("k=v:NoSchedule").Taint("l:NoExecute").Obj()), pod: pod().Obj(),
			do: changeNode("a", `{"spec": {"taints": [{"key": "l", "effect": "NoExecute"}]}}`), event: "NodeUpdateNodeTaint", then: stays,
		},
		{
			name: "a node without taints comes", plugin: plugin, has: tainted, pod: pod().Obj(),
			do: create(bare("b").Obj()), event: "NodeAdd", then: "b",
		},
		{
			name: "a node with the same taint comes", plugin: plugin, has: tainted, pod: pod().Obj(),
			do: create(bare("b").Taint("k=v:NoSchedule").Obj()), event: "NodeAdd", then: stays,
		},
		{
			name: "the tainted node gets a label", plugin: plugin, has: tainted, pod: pod().Obj(),
			do: changeNode("a", labelled("pool", "new")), event: "NodeUpdateNodeLabel", then: stays,
		},
		{
			name: "the pod tolerates the taint", plugin: plugin, has: tainted, pod: pod().Obj(),
			do: tolerate("k"), event: "UnschedulablePodUpdate", by: "UnschedulablePodUpdatePodToleration", then: "a",
		},
		{
			name: "the pod tolerates another taint", plugin: plugin, has: tainted, pod: pod().Obj(),
			do: tolerate("l"), event: "UnschedulablePodUpdate", by: "UnschedulablePodUpdatePodToleration", then: retried,
		},
		{
			name: "the pod gets a label", plugin: plugin, has: tainted, pod: pod().Obj(),
			do: changePod("p", labelled("app", "new")), event: "UnschedulablePodUpdate", then: stays,
		},
		{
			name: "a pod leaves the node", plugin: plugin, has: there(bare("a").Taint("k=v:NoSchedule").Obj(), other("o", "a").Obj()), pod: pod().Obj(),
			do: deletePod("o"), event: "AssignedPodDelete", then: stays,
		},
	}
}

func nodeAffinityTrials() []trial {
	const plugin = "NodeAffinity"
	east := func() *v1.Pod { return pod().NodeSelector("side", "east").Obj() }
	west := there(bare("a").Label("side", "west").Obj())
	return []trial{
		{
			name: "the node's label becomes the one", plugin: plugin, has: west, pod: east(),
			do: changeNode("a", labelled("side", "east")), event: "NodeUpdateNodeLabel", then: "a",
		},
		{
			name: "the node's label becomes another", plugin: plugin, has: west, pod: east(),
			do: changeNode("a", labelled("side", "south")), event: "NodeUpdateNodeLabel", then: stays,
		},
		{
			name: "the node gets an unrelated label", plugin: plugin, has: west, pod: east(),
			do: changeNode("a", labelled("pool", "east")), event: "NodeUpdateNodeLabel", then: stays,
		},
		{
			name: "the label that is not wanted goes", plugin: plugin, has: west, pod: pod().Required(build.Labels(build.Match("side", v1.NodeSelectorOpDoesNotExist))).Obj(),
			do: changeNode("a", unlabelled("side")), event: "NodeUpdateNodeLabel", then: "a",
		},
		{
			name: "a node with the label comes", plugin: plugin, has: west, pod: east(),
			do: create(bare("b").Label("side", "east").Obj()), event: "NodeAdd", then: "b",
		},
		{
			name: "a node without the label comes", plugin: plugin, has: west, pod: east(),
			do: create(bare("b").Obj()), event: "NodeAdd", then: stays,
		},
		{
			name: "the node of the name comes", plugin: plugin, has: west, pod: pod().Required(build.Names("b")).Obj(),
			do: create(bare("b").Obj()), event: "NodeAdd", then: "b",
		},
		{
			name: "a node of another name comes", plugin: plugin, has: west, pod: pod().Required(build.Names("b")).Obj(),
			do: create(bare("c").Obj()), event: "NodeAdd", then: stays,
		},
		{
			name: "the node gets more CPU", plugin: plugin, has: west, pod: east(),
			do: changeNode("a", `{"status": {"allocatable": {"cpu": "8"}}}`, "status"), event: "NodeUpdateNodeAllocatable", then: stays,
		},
		{
			// Who waits for new nodes waits for taints too, in case it was not asked about the new one.
			name: "the node gets a taint", plugin: plugin, has: west, pod: east(),
			do: changeNode("a", `{"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}`), event: "NodeUpdateNodeTaint", then: retried,
		},
		{
			name: "the node is deleted", plugin: plugin, has: there(bare("a").Obj(), bare("b").Obj()), pod: east(),
			do: func(s meteredRig) { s.Must(s.Admin.CoreV1().Nodes().Delete(s.Context(), "b", now())) }, event: "NodeDelete", then: stays,
		},
	}
}

// featureTrials are about features that nodes declare.
func featureTrials() []trial {
	const plugin = "NodeDeclaredFeatures"
	const feature = "RestartAllContainersOnContainerExits"
	needs := func() *v1.Pod {
		p := pod().Obj()
		never := v1.ContainerRestartPolicyNever
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		c := &p.Spec.Containers[0]
		c.RestartPolicy = &never
		c.RestartPolicyRules = []v1.ContainerRestartRule{{
			Action:    v1.ContainerRestartRuleActionRestartAllContainers,
			ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{7}},
		}}
		return p
	}
	declaring := func(name string) *v1.Node {
		n := bare(name).Obj()
		n.Status.DeclaredFeatures = []string{feature}
		return n
	}
	return []trial{
		{
			name: "the node declares the feature", plugin: plugin, has: there(bare("a").Obj()), pod: needs(),
			do: changeNode("a", `{"status": {"declaredFeatures": ["`+feature+`"]}}`, "status"), event: "NodeUpdateNodeDeclaredFeature", then: "a",
		},
		{
			name: "a node that declares the feature comes", plugin: plugin, has: there(bare("a").Obj()), pod: needs(),
			do: create(declaring("b")), event: "NodeAdd", then: "b",
		},
		{
			name: "the node gets a label", plugin: plugin, has: there(bare("a").Obj()), pod: needs(),
			do: changeNode("a", labelled("pool", "new")), event: "NodeUpdateNodeLabel", then: stays,
		},
		{
			name: "the pod gets a label", plugin: plugin, has: there(bare("a").Obj()), pod: needs(),
			do: changePod("p", labelled("app", "new")), event: "UnschedulablePodUpdate", then: stays,
		},
	}
}
