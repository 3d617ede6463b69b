package policy

import (
	"slices"

	"github.com/shardsched/shardsched/coordinator/rules"
)

// Fate is what becomes of a name.
type Fate int

const (
	// Mapped names stand for plugins.
	Mapped Fate = iota
	// Idle names are accepted and change nothing.
	Idle
	// Refused names stand for what no plugin does any more.
	Refused
)

func (f Fate) String() string {
	return [...]string{"mapped", "no effect", "refused"}[f]
}

// List is which of a Policy's lists a name belongs to.
type List int

const (
	Predicates List = iota
	Priorities
)

func (l List) String() string { return [...]string{"predicates", "priorities"}[l] }

// Name is a predicate or priority of kube-scheduler 1.8 to 1.22, and what becomes of it.
type Name struct {
	List List
	Name string
	Fate Fate
	// Plugins are those that do it now, in the order in which they run.
	Plugins []string
	// Note is the reason, or what is different now; empty: nothing is.
	Note string
	// More is what the table says besides.
	More string
}

// Names of built-in predicates that the code looks at by themselves.
const (
	evenPodsSpread       = "EvenPodsSpread"
	checkVolumeBinding   = "CheckVolumeBinding"
	labelPresence        = "CheckNodeLabelPresence"
	serviceAffinityCheck = "CheckServiceAffinity"
)

// Names of built-in priorities likewise.
const (
	leastRequested         = "LeastRequestedPriority"
	mostRequested          = "MostRequestedPriority"
	capacityRatio          = "RequestedToCapacityRatioPriority"
	selectorSpread         = "SelectorSpreadPriority"
	serviceSpreading       = "ServiceSpreadingPriority"
	evenPodsSpreadPriority = "EvenPodsSpreadPriority"
	interPodAffinity       = "InterPodAffinityPriority"
	imageLocality          = "ImageLocalityPriority"
	avoidPods              = "NodePreferAvoidPodsPriority"
)

// Names of custom predicates and priorities, which a Policy calls as it likes and
// which are told by their arguments.
const (
	labelsPresenceArgument      = "(labelsPresence)"
	serviceAffinityArgument     = "(serviceAffinity)"
	labelPreferenceArgument     = "(labelPreference)"
	serviceAntiAffinityArgument = "(serviceAntiAffinity)"
	capacityRatioArgument       = "(requestedToCapacityRatioArguments)"
)

const (
	byTaints  = "the node controller taints such nodes since 1.12, and TaintToleration, which is mandatory, keeps pods away"
	byCSI     = "by the limits in CSINode, for such volumes are CSI's now"
	byCSIMore = "KUBE_MAX_PD_VOLS has no effect"
)

// Names are all that there are, predicates in the order in which kube-scheduler 1.22 ran them. Custom
// ones stand in brackets, by their argument.
func Names() []Name {
	return slices.Concat(predicateNames(), priorityNames())
}

func predicateNames() []Name {
	return []Name{
		{Predicates, "CheckNodeUnschedulable", Mapped, []string{rules.NodeUnschedulable}, "",
			"mandatory: runs also where it is not listed (since 1.12)"},
		{Predicates, "GeneralPredicates", Mapped, []string{rules.NodeResourcesFit, rules.NodeName, rules.NodePorts, rules.NodeAffinity},
			"", ""},
		{Predicates, "HostName", Mapped, []string{rules.NodeName}, "", ""},
		{Predicates, "PodFitsHostPorts", Mapped, []string{rules.NodePorts}, "", ""},
		{Predicates, "PodFitsPorts", Mapped, []string{rules.NodePorts}, "the name that PodFitsHostPorts had in 1.0", ""},
		{Predicates, "MatchNodeSelector", Mapped, []string{rules.NodeAffinity}, "", ""},
		{Predicates, "PodFitsResources", Mapped, []string{rules.NodeResourcesFit}, "", ""},
		{Predicates, "NoDiskConflict", Mapped, []string{rules.VolumeRestrictions}, "which looks after ReadWriteOncePod claims too", ""},
		{Predicates, "PodToleratesNodeTaints", Mapped, []string{rules.TaintToleration}, "",
			"mandatory: runs also where it is not listed (since 1.12)"},
		{Predicates, labelsPresenceArgument, Mapped, []string{rules.NodeAffinity}, "as required addedAffinity", "Exists, or DoesNotExist " +
			"where presence is false. Only beside MatchNodeSelector or GeneralPredicates, for NodeAffinity does both"},
		{Predicates, labelPresence, Idle, nil, "without labelsPresence it lets every node pass", ""},
		{Predicates, serviceAffinityArgument, Refused, nil, "keeping the pods of a service on nodes with equal labels: the plugin " +
			"ServiceAffinity went with 1.23 (InterPodAffinity does the like, where the pods ask for it with podAffinity)", ""},
		{Predicates, serviceAffinityCheck, Idle, nil, "without serviceAffinity it lets every node pass", ""},
		{Predicates, "MaxEBSVolumeCount", Mapped, []string{"NodeVolumeLimits"}, byCSI, byCSIMore},
		{Predicates, "MaxGCEPDVolumeCount", Mapped, []string{"NodeVolumeLimits"}, byCSI, byCSIMore},
		{Predicates, "MaxCSIVolumeCountPred", Mapped, []string{rules.NodeVolumeLimits}, "", ""},
		{Predicates, "MaxAzureDiskVolumeCount", Mapped, []string{"NodeVolumeLimits"}, byCSI, byCSIMore},
		{Predicates, "MaxCinderVolumeCount", Mapped, []string{"NodeVolumeLimits"}, byCSI, byCSIMore},
		{Predicates, checkVolumeBinding, Mapped, []string{rules.VolumeBinding}, "", ""},
		{Predicates, "NoVolumeNodeConflict", Mapped, []string{rules.VolumeBinding}, "CheckVolumeBinding took its place in 1.9", ""},
		{Predicates, "NoVolumeZoneConflict", Mapped, []string{rules.VolumeZone}, "", ""},
		{Predicates, evenPodsSpread, Mapped, []string{rules.PodTopologySpread}, "", ""},
		{Predicates, "MatchInterPodAffinity", Mapped, []string{rules.InterPodAffinity}, "", ""},
		{Predicates, "CheckNodeCondition", Idle, nil, byTaints, ""},
		{Predicates, "CheckNodeMemoryPressure", Idle, nil, byTaints, ""},
		{Predicates, "CheckNodeDiskPressure", Idle, nil, byTaints, ""},
		{Predicates, "CheckNodePIDPressure", Idle, nil, byTaints, ""},
		{Predicates, "PodToleratesNodeNoExecuteTaints", Refused, nil,
			"no kube-scheduler took it in a Policy; TaintToleration looks at NoExecute taints too", ""},
	}
}

func priorityNames() []Name {
	return []Name{
		{Priorities, "TaintTolerationPriority", Mapped, []string{rules.TaintToleration}, "", ""},
		{Priorities, "NodeAffinityPriority", Mapped, []string{rules.NodeAffinity}, "", ""},
		{Priorities, leastRequested, Mapped, []string{rules.NodeResourcesFit}, "by LeastAllocated",
			"MostRequestedPriority beside it takes its weight off: what one gives the other takes"},
		{Priorities, mostRequested, Mapped, []string{rules.NodeResourcesFit}, "by MostAllocated",
			"LeastRequestedPriority beside it takes its weight off"},
		{Priorities, capacityRatioArgument, Mapped, []string{rules.NodeResourcesFit}, "by RequestedToCapacityRatio",
			"not beside LeastRequestedPriority or MostRequestedPriority, for NodeResourcesFit scores in one way"},
		{Priorities, capacityRatio, Mapped, []string{rules.NodeResourcesFit}, "by RequestedToCapacityRatio",
			"without arguments up to 1.16 only, and then the less is used the better"},
		{Priorities, evenPodsSpreadPriority, Mapped, []string{rules.PodTopologySpread}, "by the pods' own constraints",
			"defaultingType List, without default constraints, unless SelectorSpreadPriority is there too"},
		{Priorities, selectorSpread, Mapped, []string{rules.PodTopologySpread}, "by the system's default constraints, as from 1.20 on",
			"defaultingType System. EvenPodsSpreadPriority's weight goes before its, for there is one plugin for both"},
		{Priorities, serviceSpreading, Mapped, []string{rules.PodTopologySpread},
			"as SelectorSpreadPriority, which looks at controllers besides", ""},
		{Priorities, interPodAffinity, Mapped, []string{rules.InterPodAffinity}, "", ""},
		{Priorities, "BalancedResourceAllocation", Mapped, []string{rules.NodeResourcesBalancedAllocation},
			"whose formula has changed: since 1.36 it weighs how much the pod itself changes", ""},
		{Priorities, imageLocality, Mapped, []string{rules.ImageLocality}, "", ""},
		{Priorities, "EqualPriority", Idle, nil, "it gave every node the same", ""},
		{Priorities, avoidPods, Idle, nil, "it went with 1.23, and nodes with the annotation " +
			"scheduler.alpha.kubernetes.io/preferAvoidPods are not avoided any more: taint them with PreferNoSchedule, or NoSchedule", ""},
		{Priorities, "ResourceLimitsPriority", Refused, nil, "preferring nodes with room for the pod's limits: it was behind a feature " +
			"gate that was off, and went with 1.20", ""},
		{Priorities, labelPreferenceArgument, Refused, nil, "scoring nodes by a label: the plugin NodeLabel went with 1.23 (preferred " +
			"terms in NodeAffinity's addedAffinity come near, but share the scale of the pods' own)", ""},
		{Priorities, serviceAntiAffinityArgument, Refused, nil, "spreading the pods of a service over a label's values: the plugin " +
			"ServiceAffinity went with 1.23 (default constraints of PodTopologySpread over that label come near)", ""},
	}
}

func find(l List, name string) (Name, bool) {
	all := Names()
	i := slices.IndexFunc(all, func(n Name) bool { return n.List == l && n.Name == name })
	if i < 0 {
		return Name{}, false
	}
	return all[i], true
}

// mandatory are the predicates that ran whatever a Policy said. Up to 1.11 it was CheckNodeCondition, which
// these do now.
func mandatory() []string { return []string{"CheckNodeUnschedulable", "PodToleratesNodeTaints"} }

// defaultPredicates are those of a Policy of 1.minor without a list. MaxCinderVolumeCount was never one.
func defaultPredicates(minor int) []string {
	list := []string{
		"GeneralPredicates", "NoDiskConflict", "PodToleratesNodeTaints", "MaxEBSVolumeCount", "MaxGCEPDVolumeCount",
		"MaxAzureDiskVolumeCount", "NoVolumeZoneConflict", "MatchInterPodAffinity",
	}
	if minor >= 9 {
		list = append(list, checkVolumeBinding)
	} else {
		list = append(list, "NoVolumeNodeConflict")
	}
	if minor < 12 {
		list = append(list, "CheckNodeCondition", "CheckNodeMemoryPressure", "CheckNodeDiskPressure")
		if minor >= 10 {
			list = append(list, "CheckNodePIDPressure")
		}
	} else {
		list = append(list, "CheckNodeUnschedulable", "MaxCSIVolumeCountPred")
	}
	if minor >= 18 {
		list = append(list, evenPodsSpread)
	}
	return list
}

// weighed is a priority with its weight.
type weighed struct {
	name   string
	weight int64
}

// defaultPriorities are those of a Policy of 1.minor without a list.
func defaultPriorities(minor int) []weighed {
	list := []weighed{
		{selectorSpread, 1}, {interPodAffinity, 1}, {leastRequested, 1}, {"BalancedResourceAllocation", 1},
		{avoidPods, 10000}, {"NodeAffinityPriority", 1}, {"TaintTolerationPriority", 1},
	}
	if minor >= 12 {
		list = append(list, weighed{imageLocality, 1})
	}
	if minor >= 18 {
		list = append(list, weighed{evenPodsSpreadPriority, 2})
	}
	return list
}
