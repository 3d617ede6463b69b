package conformance

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Family is rules that are learned together. The rules that look at a node alone (taints,
// node affinity, resources, ports, images, names) are in every scenario.
type Family string

const (
	// Gates: SchedulingGates.
	Gates Family = "gates"
	// Profiles: several profiles, some with plugins left out and other weights.
	Profiles Family = "profiles"
	// Spread: a pod's own topology spread constraints.
	Spread Family = "spread"
	// Defaults: constraints that pods have by default, through services and owners.
	Defaults Family = "defaults"
	// Affinity: InterPodAffinity.
	Affinity Family = "affinity"
	// Carriers: pods that carry terms of many topology keys, for InterPodAffinity.
	Carriers Family = "carriers"
	// Disks: VolumeRestrictions of inline volumes.
	Disks Family = "disks"
	// Volumes: claims, for VolumeRestrictions, NodeVolumeLimits, VolumeBinding and VolumeZone.
	Volumes Family = "volumes"
	// Partial: profiles that leave VolumeBinding out, at some points or at all.
	Partial Family = "partial"
	// Features: NodeDeclaredFeatures.
	Features Family = "features"
	// Nominated: pods that are nominated to a node.
	Nominated Family = "nominated"
	// Preempting: DefaultPreemption, with disruption budgets.
	Preempting Family = "preempting"
	// Groups: pod groups, in every scenario, beside some of the other families.
	Groups Family = "groups"
	// Devices: DynamicResources, and extended resources that devices stand for.
	Devices Family = "devices"
	// DevicesBeside: Devices in every scenario, beside some of the other families that are evaluated.
	DevicesBeside Family = "devices+everything"
	// Pools: Devices in every scenario, of nodes that are alike, leave and come, among pools of several nodes under their names.
	Pools Family = "pools"
)

// AllFamilies are those that there are.
func AllFamilies() []Family {
	return []Family{Gates, Profiles, Spread, Defaults, Affinity, Carriers, Disks, Volumes, Partial, Features, Nominated, Preempting, Devices}
}

// Evaluated are the families whose rules our scheduler evaluates.
func Evaluated() []Family {
	return slices.DeleteFunc(AllFamilies(), func(f Family) bool { return f == Partial })
}

// ParseFamilies reads a list with commas. "all" stands for all of them, "evaluated" for those of
// Evaluated, "none" for none, and one with a minus leaves that one out.
func ParseFamilies(text string) (out []Family, err error) {
	for word := range strings.SplitSeq(text, ",") {
		name, without := strings.CutPrefix(strings.TrimSpace(word), "-")
		switch f := Family(name); {
		case name == "" || name == "none":
		case name == "all":
			out = append(out, AllFamilies()...)
		case name == "evaluated":
			out = append(out, Evaluated()...)
		case !slices.Contains(append(AllFamilies(), DevicesBeside, Pools, Groups), f):
			return nil, fmt.Errorf("no family %q: there are %v", name, append(AllFamilies(), DevicesBeside, Pools, Groups))
		case without:
			out = slices.DeleteFunc(out, func(x Family) bool { return x == f })
		default:
			out = append(out, f)
		}
	}
	return out, nil
}

// family makes what a family of rules is about.
type family interface {
	// first are the objects that there are before any node and pod.
	first() Round
	// node gives a new node what the family's rules look at.
	node(n *v1.Node)
	// pod gives a new pod what they look at, and returns the objects that come
	// with it. The pod may be on a node already.
	pod(p *v1.Pod) Round
	// change is something that happens between rounds.
	change() Round
}

// twinned is a family that gives a pod which is like an earlier one objects of its own.
type twinned interface {
	twin(first, p *v1.Pod) Round
}

// calm is a family that does nothing at some of the points.
type calm struct{}

func (calm) first() Round      { return nil }
func (calm) node(*v1.Node)     {}
func (calm) pod(*v1.Pod) Round { return nil }
func (calm) change() Round     { return nil }

// make is the family for a generator.
func (f Family) make(g *generator) family {
	switch f {
	case Gates:
		return &gateFamily{g: g}
	case Spread:
		return &spreadFamily{g: g}
	case Defaults:
		return &defaultsFamily{g: g}
	case Affinity:
		return &affinityFamily{g: g}
	case Carriers:
		return &carrierFamily{affinityFamily{g: g}}
	case Disks:
		return &diskFamily{g: g}
	case Volumes:
		return newVolumeFamily(g)
	case Features:
		return &featureFamily{g: g}
	case Nominated:
		return &nominatedFamily{g: g}
	case Preempting:
		return &preemptionFamily{g: g}
	case Devices:
		return newDeviceFamily(g)
	case Pools:
		return newPoolFamily(g)
	case Groups:
		return newGroupFamily(g)
	}
	return calm{} // Profiles and Partial are the configuration's
}
