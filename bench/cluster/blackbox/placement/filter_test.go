package placement

import (
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

const zone = v1.LabelTopologyZone

// filterCases are by plugin; those without a profile are in one that has nothing but it.
func filterCases() map[string][]rig.Case {
	return map[string][]rig.Case{
		"NodeUnschedulable":    unschedulableCases(),
		"TaintToleration":      taintCases(),
		"NodeAffinity":         nodeAffinityCases(),
		"NodePorts":            portCases(),
		"NodeResourcesFit":     append(fitCases(), requestCases()...),
		"InterPodAffinity":     append(podAffinityCases(), namespaceCases()...),
		"PodTopologySpread":    append(spreadCases(), spreadPolicyCases()...),
		"NodeDeclaredFeatures": featureCases(),
	}
}

func unschedulableCases() []rig.Case {
	return []rig.Case{
		{Name: "a cordoned node is refused", Cluster: cluster(node("a").Unschedulable().Obj(), node("b").Obj()), Pods: one(p()), Want: "b"},
		{
			Name: "only cordoned nodes", Cluster: cluster(node("a").Unschedulable().Obj()), Pods: one(p()),
			Message: "0/1 nodes are available: 1 node(s) were unschedulable.",
		},
		{
			Name: "who tolerates it goes there", Cluster: cluster(node("a").Unschedulable().Obj()),
			Pods: one(p().Toleration("node.kubernetes.io/unschedulable:NoSchedule")), Want: "a",
		},
	}
}

func taintCases() []rig.Case {
	const untolerated = "node(s) had untolerated taint(s)."
	return []rig.Case{
		{Name: "NoSchedule keeps away", Cluster: cluster(node("a").Taint("k=v:NoSchedule").Obj(), node("b").Obj()), Pods: one(p()), Want: "b"},
		{Name: "NoExecute keeps away", Cluster: cluster(node("a").Taint("k=v:NoExecute").Obj(), node("b").Obj()), Pods: one(p()), Want: "b"},
		{Name: "PreferNoSchedule does not", Cluster: cluster(node("a").Taint("k=v:PreferNoSchedule").Obj()), Pods: one(p()), Want: "a"},
		{
			Name: "an equal value is tolerated", Cluster: cluster(node("a").Taint("k=v:NoSchedule").Obj()),
			Pods: one(p().Toleration("k=v:NoSchedule")), Want: "a",
		},
		{
			Name: "another value is not", Cluster: cluster(node("a").Taint("k=v:NoSchedule").Obj()),
			Pods: one(p().Toleration("k=w:NoSchedule")), Message: "0/1 nodes are available: 1 " + untolerated,
		},
		{
			Name: "another effect is not", Cluster: cluster(node("a").Taint("k=v:NoExecute").Obj()),
			Pods: one(p().Toleration("k=v:NoSchedule")), Message: "0/1 nodes are available: 1 " + untolerated,
		},
		{
			Name: "every effect of a key is tolerated", Cluster: cluster(node("a").Taint("k=v:NoExecute").Taint("k=v:NoSchedule").Obj()),
			Pods: one(p().Toleration("k")), Want: "a",
		},
		{
			Name: "each taint must be tolerated", Cluster: cluster(node("a").Taint("k=v:NoSchedule").Taint("l=v:NoSchedule").Obj(), node("b").Taint("l=v:NoExecute").Obj()),
			Pods: one(p().Toleration("k")), Message: "0/2 nodes are available: 2 " + untolerated,
		},
	}
}

func nodeAffinityCases() []rig.Case {
	const mismatch = "node(s) didn't match Pod's node affinity/selector."
	return []rig.Case{
		{Name: "a node selector", Cluster: cluster(node("a").Obj(), node("b").Label("disk", "ssd").Obj()), Pods: one(p().NodeSelector("disk", "ssd")), Want: "b"},
		{
			Name: "a node selector that no node has", Cluster: cluster(node("a").Obj(), node("b").Label("disk", "hdd").Obj()),
			Pods: one(p().NodeSelector("disk", "ssd")), Message: "0/2 nodes are available: 2 " + mismatch,
		},
		{
			Name: "selector and affinity must both match", Cluster: cluster(node("a").Label("disk", "ssd").Obj(), node("b").Label("cores", "8").Obj(), node("c").Label("disk", "ssd").Label("cores", "8").Obj()),
			Pods: one(p().NodeSelector("disk", "ssd").Required(build.Labels(build.Match("cores", v1.NodeSelectorOpIn, "4", "8")))), Want: "c",
		},
		{
			Name: "one of the terms is enough", Cluster: cluster(node("a").Obj(), node("b").Label("y", "1").Obj()),
			Pods: one(p().Required(build.Labels(build.Match("x", v1.NodeSelectorOpExists)), build.Labels(build.Match("y", v1.NodeSelectorOpExists)))), Want: "b",
		},
		{
			Name: "all requirements of a term are needed", Cluster: cluster(node("a").Label("x", "1").Obj(), node("b").Label("x", "1").Label("y", "2").Obj()),
			Pods: one(p().Required(build.Labels(build.Match("x", v1.NodeSelectorOpExists), build.Match("y", v1.NodeSelectorOpNotIn, "1"), build.Match("y", v1.NodeSelectorOpExists)))), Want: "b",
		},
		{
			Name: "numbers are compared as such", Cluster: cluster(node("a").Label("cores", "9").Obj(), node("b").Label("cores", "10").Obj(), node("c").Label("cores", "many").Obj()),
			Pods: one(p().Required(build.Labels(build.Match("cores", v1.NodeSelectorOpGt, "9")))), Want: "b",
		},
		{
			Name: "a label that must not be there", Cluster: cluster(node("a").Label("old", "").Obj(), node("b").Obj()),
			Pods: one(p().Required(build.Labels(build.Match("old", v1.NodeSelectorOpDoesNotExist)))), Want: "b",
		},
		{
			Name: "a node by its name", Cluster: cluster(node("a").Obj(), node("b").Obj(), node("c").Obj()),
			Pods: one(p().Required(build.Names("b"))), Want: "b",
		},
		{
			Name: "a name that there is not", Cluster: cluster(node("a").Obj(), node("b").Obj()), Pods: one(p().Required(build.Names("z"))),
			Message: "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [NodeAffinity].",
		},
		{
			Name: "a node that has the name and not the label", Cluster: cluster(node("a").Obj(), node("b").Label("disk", "ssd").Obj()),
			Pods:    one(p().Required(build.Names("a")).NodeSelector("disk", "ssd")),
			Message: "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) didn't satisfy plugin(s) [NodeAffinity].",
		},
		{
			Name: "two names at once", Cluster: cluster(node("a").Obj(), node("b").Obj()), Pods: one(p().Required(both("a", "b"))),
			Message: "0/2 nodes are available: pod affinity terms conflict.",
		},
		{
			Name: "the profile's own affinity", Profile: "enforced", Cluster: cluster(node("a").Obj(), node("b").Label("pool", "own").Obj()), Pods: one(p()), Want: "b",
		},
		{
			Name: "the profile's own affinity beside the pod's", Profile: "enforced",
			Cluster: cluster(node("a").Label("disk", "ssd").Obj(), node("b").Label("pool", "own").Obj()), Pods: one(p().NodeSelector("disk", "ssd")),
			Message: "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) didn't match scheduler-enforced node affinity.",
		},
	}
}

// both is a term that asks for two names.
func both(a, b string) build.Term {
	t := build.Names(a)
	t.MatchFields = append(t.MatchFields, build.Names(b).MatchFields...)
	return t
}

func portCases() []rig.Case {
	const taken = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
	there := func(ip string, protocol v1.Protocol) *v1.Pod {
		return build.Pod("there").HostPort(ip, protocol, 8080).Node("a").Obj()
	}
	return []rig.Case{
		{Name: "taken", Cluster: cluster(node("a").Obj(), there("", "")), Pods: one(p().HostPort("", "TCP", 8080)), Message: taken},
		{Name: "taken here and free there", Cluster: cluster(node("a").Obj(), node("b").Obj(), there("", "")), Pods: one(p().HostPort("", "", 8080)), Want: "b"},
		{Name: "another port", Cluster: cluster(node("a").Obj(), there("", "")), Pods: one(p().HostPort("", "", 8081)), Want: "a"},
		{Name: "another protocol", Cluster: cluster(node("a").Obj(), there("", "UDP")), Pods: one(p().HostPort("", "", 8080)), Want: "a"},
		{Name: "another address", Cluster: cluster(node("a").Obj(), there("10.0.0.1", "")), Pods: one(p().HostPort("10.0.0.2", "", 8080)), Want: "a"},
		{Name: "the same address", Cluster: cluster(node("a").Obj(), there("10.0.0.1", "")), Pods: one(p().HostPort("10.0.0.1", "", 8080)), Message: taken},
		{Name: "an address against all addresses", Cluster: cluster(node("a").Obj(), there("0.0.0.0", "")), Pods: one(p().HostPort("10.0.0.1", "", 8080)), Message: taken},
		{Name: "all addresses against an address", Cluster: cluster(node("a").Obj(), there("10.0.0.1", "")), Pods: one(p().HostPort("", "", 8080)), Message: taken},
		{Name: "one of two ports is taken", Cluster: cluster(node("a").Obj(), there("", "")), Pods: one(p().HostPort("", "", 8081).Container("second").HostPort("", "", 8080)), Message: taken},
		{
			Name: "pods that come one after the other", Cluster: cluster(node("a").Obj(), node("b").Obj()),
			Pods:    pods(build.Pod("p1").HostPort("", "", 8080).Obj(), build.Pod("p2").HostPort("", "", 8080).Obj(), build.Pod("p3").HostPort("", "", 8080).Obj()),
			Message: "0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports.",
		},
	}
}

func featureCases() []rig.Case {
	restarts := func() *v1.Pod {
		pod := p().Obj()
		always := v1.ContainerRestartPolicyNever
		c := &pod.Spec.Containers[0]
		c.RestartPolicy = &always
		c.RestartPolicyRules = []v1.ContainerRestartRule{{
			Action:    v1.ContainerRestartRuleActionRestartAllContainers,
			ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
		}}
		return pod
	}
	declares := func(name string) *v1.Node {
		n := node(name).Obj()
		n.Status.DeclaredFeatures = []string{"RestartAllContainersOnContainerExits"}
		return n
	}
	return []rig.Case{
		{Name: "a node that declares it", Cluster: cluster(node("a").Obj(), declares("b")), Pods: pods(restarts()), Want: "b"},
		{
			Name: "no node declares it", Cluster: cluster(node("a").Obj()), Pods: pods(restarts()),
			Message: "0/1 nodes are available: 1 node(s) didn't match Pod's required features.",
		},
	}
}
