package requeue

import (
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// neighbourTrials are about the rules that look at other pods.
func neighbourTrials() []trial {
	var all []trial
	for _, list := range [][]trial{nearTrials(), apartTrials(), spreadPodTrials(), spreadNodeTrials()} {
		all = append(all, list...)
	}
	return all
}

const (
	interPod = "InterPodAffinity"
	zone     = v1.LabelTopologyZone
	hostname = v1.LabelHostname
)

// zoned is a node in a zone.
func zoned(name, zone string) *build.NodeBuilder { return bare(name).Zone(zone) }

// elsewhere is the namespace of pods that count for few.
const elsewhere = "elsewhere"

func nearTrials() []trial {
	near := func() *build.PodBuilder { return pod().Near(build.Around(zone, "app=db")) }
	anywhere := build.Around(zone, "app=db")
	anywhere.NamespaceSelector = build.Selector("")
	named := build.Around(zone, "app=db")
	named.Namespaces = []string{elsewhere}
	alone := func() []trialObject { return there(zoned("a", "east").Obj()) }
	return []trial{
		{
			name: "a pod that it wants to be near comes", plugin: interPod, has: alone(), pod: near().Obj(),
			do: create(other("o", "a").Label("app", "db").Obj()), event: "AssignedPodAdd", then: "a",
		},
		{
			name: "a pod of another app comes", plugin: interPod, has: alone(), pod: near().Obj(),
			do: create(other("o", "a").Label("app", "web").Obj()), event: "AssignedPodAdd", then: stays,
		},
		{
			name: "a pod that it wants to be near comes to another namespace", plugin: interPod, has: alone(), pod: near().Obj(),
			do: create(other("o", "a").Label("app", "db").Namespace(elsewhere).Obj()), event: "AssignedPodAdd", then: stays,
		},
		{
			name: "a pod comes to the namespace that is named", plugin: interPod, has: alone(), pod: pod().Near(named).Obj(),
			do: create(other("o", "a").Label("app", "db").Namespace(elsewhere).Obj()), event: "AssignedPodAdd", then: "a",
		},
		{
			name: "a pod comes to a namespace that is selected", plugin: interPod, has: alone(), pod: pod().Near(anywhere).Obj(),
			do: create(other("o", "a").Label("app", "db").Namespace(elsewhere).Obj()), event: "AssignedPodAdd", then: "a",
		},
		{
			name: "a pod comes that one term of two is about", plugin: interPod, has: alone(), pod: near().Near(build.Around(zone, "tier=fast")).Obj(),
			do: create(other("o", "a").Label("app", "db").Obj()), event: "AssignedPodAdd", then: stays,
		},
		{
			name: "a pod comes that waits for a node itself", plugin: interPod, has: alone(), pod: near().Obj(),
			do: create(build.Pod("g").Label("app", "db").Gate("example.com/g").Obj()), event: "UnschedulablePodAdd", then: stays,
		},
		{
			name: "a pod becomes one that it wants to be near", plugin: interPod, has: append(alone(), other("o", "a").Obj()), pod: near().Obj(),
			do: changePod("o", labelled("app", "db")), event: "AssignedPodUpdatePodLabel", then: "a",
		},
		{
			name: "a pod gets an unrelated label", plugin: interPod, has: append(alone(), other("o", "a").Obj()), pod: near().Obj(),
			do: changePod("o", labelled("pool", "db")), event: "AssignedPodUpdatePodLabel", then: stays,
		},
		{
			name: "a pod leaves", plugin: interPod, has: append(alone(), other("o", "a").Obj()), pod: near().Obj(),
			do: deletePod("o"), event: "AssignedPodDelete", then: stays,
		},
		{
			name: "the pod becomes one that it wants to be near", plugin: interPod, has: alone(), pod: near().Obj(),
			do: changePod("p", labelled("app", "db")), event: "UnschedulablePodUpdate", by: "UnschedulablePodUpdatePodLabel", then: "a",
		},
		{
			name: "the node gets the topology label", plugin: interPod, has: there(bare("a").Obj(), other("o", "a").Label("app", "db").Obj()), pod: near().Obj(),
			do: changeNode("a", labelled(zone, "east")), event: "NodeUpdateNodeLabel", then: "a",
		},
		{
			name: "the node gets another label", plugin: interPod, has: there(bare("a").Obj(), other("o", "a").Label("app", "db").Obj()), pod: near().Obj(),
			do: changeNode("a", labelled("rack", "east")), event: "NodeUpdateNodeLabel", then: stays,
		},
		{
			name: "a node of a zone comes", plugin: interPod, has: alone(), pod: near().Obj(),
			do: create(zoned("b", "west").Obj()), event: "NodeAdd", then: retried,
		},
		{
			name: "a node of no zone comes", plugin: interPod, has: alone(), pod: near().Obj(),
			do: create(bare("b").Obj()), event: "NodeAdd", then: stays,
		},
		{
			name: "the node gets more CPU", plugin: interPod, has: alone(), pod: near().Obj(),
			do: changeNode("a", `{"status": {"allocatable": {"cpu": "8"}}}`, "status"), event: "NodeUpdateNodeAllocatable", then: stays,
		},
		{
			name: "the node gets a taint", plugin: interPod, has: alone(), pod: near().Obj(),
			do: changeNode("a", `{"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}`), event: "NodeUpdateNodeTaint", then: retried,
		},
	}
}

func apartTrials() []trial {
	apart := func() *build.PodBuilder { return pod().Apart(build.Around(zone, "app=db")) }
	with := func() []trialObject { return there(zoned("a", "east").Obj(), other("o", "a").Label("app", "db").Obj()) }
	shy := func() []trialObject {
		return there(zoned("a", "east").Obj(), other("o", "a").Apart(build.Around(zone, "app=web")).Obj())
	}
	return []trial{
		{
			name: "the pod that it keeps away from leaves", plugin: interPod, has: with(), pod: apart().Obj(),
			do: deletePod("o"), event: "AssignedPodDelete", then: "a",
		},
		{
			name: "one of two that it keeps away from leaves", plugin: interPod, has: append(with(), other("q", "a").Label("app", "db").Obj()), pod: apart().Obj(),
			do: deletePod("o"), event: "AssignedPodDelete", then: retried,
		},
		{
			name: "another pod leaves", plugin: interPod, has: append(with(), other("q", "a").Label("app", "web").Obj()), pod: apart().Obj(),
			do: deletePod("q"), event: "AssignedPodDelete", then: stays,
		},
		{
			name: "the like of it leaves another namespace", plugin: interPod, has: append(with(), other("q", "a").Label("app", "db").Namespace(elsewhere).Obj()), pod: apart().Obj(),
			do: func(s meteredRig) { s.Delete(elsewhere + "/q") }, event: "AssignedPodDelete", then: stays,
		},
		{
			name: "the pod that it keeps away from becomes another", plugin: interPod, has: with(), pod: apart().Obj(),
			do: changePod("o", labelled("app", "web")), event: "AssignedPodUpdatePodLabel", then: "a",
		},
		{
			name: "a pod that keeps away from it leaves", plugin: interPod, has: shy(), pod: pod().Label("app", "web").Obj(),
			do: deletePod("o"), event: "AssignedPodDelete", then: "a",
		},
		{
			name: "it becomes one that nobody keeps away from", plugin: interPod, has: shy(), pod: pod().Label("app", "web").Obj(),
			do: changePod("p", labelled("app", "db")), event: "UnschedulablePodUpdate", by: "UnschedulablePodUpdatePodLabel", then: "a",
		},
		{
			name: "a node of another zone comes", plugin: interPod, has: with(), pod: apart().Obj(),
			do: create(zoned("b", "west").Obj()), event: "NodeAdd", then: "b",
		},
		{
			name: "a node of the same zone comes", plugin: interPod, has: with(), pod: apart().Obj(),
			do: create(zoned("b", "east").Obj()), event: "NodeAdd", then: retried,
		},
		{
			name: "a node of no zone comes", plugin: interPod, has: with(), pod: apart().Obj(),
			do: create(bare("b").Obj()), event: "NodeAdd", then: "b",
		},
		{
			name: "a node of the zone moves to another", plugin: interPod, has: append(with(), zoned("b", "east").Obj()), pod: apart().Obj(),
			do: changeNode("b", labelled(zone, "west")), event: "NodeUpdateNodeLabel", then: "b",
		},
		{
			name: "a node loses its zone", plugin: interPod, has: append(with(), zoned("b", "east").Obj()), pod: apart().Obj(),
			do: changeNode("b", unlabelled(zone)), event: "NodeUpdateNodeLabel", then: "b",
		},
		{
			name: "a node gets an unrelated label", plugin: interPod, has: with(), pod: apart().Obj(),
			do: changeNode("a", labelled("rack", "r")), event: "NodeUpdateNodeLabel", then: stays,
		},
	}
}

const spread = "PodTopologySpread"

// three wants three zones, so that each of two with a pod is too full.
func three() *build.PodBuilder {
	c := build.Hard(zone, 1, "app=web")
	domains := int32(3)
	c.MinDomains = &domains
	return pod().Label("app", "web").Spread(c)
}

// twoZones are a zone with one such pod each.
func twoZones() []trialObject {
	return there(zoned("a", "east").Obj(), zoned("b", "west").Obj(), other("o", "a").Label("app", "web").Obj(), other("q", "b").Label("app", "web").Obj())
}

func spreadPodTrials() []trial {
	return []trial{
		{
			name: "a pod that counts leaves", plugin: spread, has: twoZones(), pod: three().Obj(),
			do: deletePod("q"), event: "AssignedPodDelete", then: "b",
		},
		{
			name: "a pod that does not count leaves", plugin: spread, has: append(twoZones(), other("x", "a").Label("app", "db").Obj()), pod: three().Obj(),
			do: deletePod("x"), event: "AssignedPodDelete", then: stays,
		},
		{
			name: "the like of it leaves another namespace", plugin: spread, has: append(twoZones(), other("x", "a").Label("app", "web").Namespace(elsewhere).Obj()), pod: three().Obj(),
			do: func(s meteredRig) { s.Delete(elsewhere + "/x") }, event: "AssignedPodDelete", then: stays,
		},
		{
			name: "a pod that counted does no more", plugin: spread, has: twoZones(), pod: three().Obj(),
			do: changePod("o", labelled("app", "db")), event: "AssignedPodUpdatePodLabel", then: "a",
		},
		{
			name: "a pod that counts gets an unrelated label", plugin: spread, has: twoZones(), pod: three().Obj(),
			do: changePod("o", labelled("pool", "db")), event: "AssignedPodUpdatePodLabel", then: stays,
		},
		{
			name: "a pod that counts comes", plugin: spread, has: twoZones(), pod: three().Obj(),
			do: create(other("x", "a").Label("app", "web").Obj()), event: "AssignedPodAdd", then: retried,
		},
		{
			name: "a pod that does not count comes", plugin: spread, has: twoZones(), pod: three().Obj(),
			do: create(other("x", "a").Label("app", "db").Obj()), event: "AssignedPodAdd", then: stays,
		},
		{
			name: "the pod itself does not count any more", plugin: spread, has: twoZones(), pod: three().Obj(),
			do: changePod("p", labelled("app", "db")), event: "UnschedulablePodUpdate", by: "UnschedulablePodUpdatePodLabel", then: somewhere,
		},
		{
			name: "the pod itself gets an unrelated label", plugin: spread, has: twoZones(), pod: three().Obj(),
			do: changePod("p", labelled("pool", "db")), event: "UnschedulablePodUpdate", then: stays,
		},
	}
}

// skewed wants its zones even: there is a pod in the east, and the west does not take it.
func skewed(policy v1.NodeInclusionPolicy) *v1.Pod {
	c := build.Hard(zone, 1, "app=web")
	c.NodeTaintsPolicy = &policy
	return pod().Label("app", "web").CPU("1").Spread(c).Obj()
}

func spreadNodeTrials() []trial {
	tainted := there(small("a").Zone("east").Obj(), small("b").Zone("west").Taint("k:NoSchedule").Obj(), other("o", "a").Label("app", "web").Obj())
	full := there(small("a").Zone("east").Obj(), small("b").Zone("west").Obj(), other("o", "a").Label("app", "web").Obj(), other("x", "b").CPU("2").Obj())
	return []trial{
		{
			name: "a node of a third zone comes", plugin: spread, has: twoZones(), pod: three().Obj(),
			do: create(zoned("c", "north").Obj()), event: "NodeAdd", then: "c",
		},
		{
			name: "a node of no zone comes", plugin: spread, has: twoZones(), pod: three().Obj(),
			do: create(bare("c").Obj()), event: "NodeAdd", then: stays,
		},
		{
			name: "a node gets a third zone", plugin: spread, has: append(twoZones(), bare("c").Obj()), pod: three().Obj(),
			do: changeNode("c", labelled(zone, "north")), event: "NodeUpdateNodeLabel", then: "c",
		},
		{
			name: "a node moves to a third zone", plugin: spread, has: append(twoZones(), zoned("c", "east").Obj()), pod: three().Obj(),
			do: changeNode("c", labelled(zone, "north")), event: "NodeUpdateNodeLabel", then: "c",
		},
		{
			name: "a node gets an unrelated label", plugin: spread, has: twoZones(), pod: three().Obj(),
			do: changeNode("a", labelled("rack", "r")), event: "NodeUpdateNodeLabel", then: stays,
		},
		{
			name: "the node gets more CPU", plugin: spread, has: twoZones(), pod: three().Obj(),
			do: changeNode("a", `{"status": {"allocatable": {"cpu": "8"}}}`, "status"), event: "NodeUpdateNodeAllocatable", then: stays,
		},
		{
			name: "all rules: the empty zone is gone", has: tainted, pod: skewed(v1.NodeInclusionPolicyIgnore), refused: []string{spread, "TaintToleration"},
			do: func(s meteredRig) { s.Must(s.Admin.CoreV1().Nodes().Delete(s.Context(), "b", now())) }, event: "NodeDelete", then: "a",
		},
		{
			name: "all rules: the empty zone counts no more", has: full, pod: skewed(v1.NodeInclusionPolicyHonor), refused: []string{spread, fit},
			do: changeNode("b", `{"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}`), event: "NodeUpdateNodeTaint", then: "a",
		},
		{
			name: "all rules: the pod tolerates something", has: full, pod: skewed(v1.NodeInclusionPolicyHonor), refused: []string{spread, fit},
			do: tolerate("k"), event: "UnschedulablePodUpdate", by: "UnschedulablePodUpdatePodToleration", then: retried,
		},
		{
			name: "all rules: the pod tolerates something, and taints do not count", has: full, pod: skewed(v1.NodeInclusionPolicyIgnore), refused: []string{spread, fit},
			do: tolerate("k"), event: "UnschedulablePodUpdate", then: stays,
		},
	}
}
