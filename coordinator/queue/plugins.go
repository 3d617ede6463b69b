package queue

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Profiles is what hints have to know of the profile that a pod is scheduled by, and of
// the cluster.
type Profiles interface {
	// AddedAffinity is the required part of NodeAffinity's addedAffinity; nil: there is
	// none.
	AddedAffinity(*v1.Pod) *nodeaffinity.NodeSelector
	// DefaultConstraints are PodTopologySpread's hard default constraints for a pod that has
	// none of its own, with the selector of what it belongs to now. They are none where that
	// is empty, or where the defaults are the system's, all of which are soft.
	DefaultConstraints(*v1.Pod) []Constraint
	// HoldsBack tells whether the pod's profile has a plugin at PreEnqueue.
	HoldsBack(pod *v1.Pod, plugin string) bool
	// Preempting tells whether the victims of a pod are being told to leave, and its profile has
	// it wait for that.
	Preempting(pod *v1.Pod) bool
	// Allocatable is what a node has for pods; false where that can not be told.
	Allocatable(node string) (*pb.Resources, bool)
	// Room is how many more pods like this one NodeResourcesFit would let a node take now;
	// false where that can not be told.
	Room(pod *v1.Pod, requests *pb.Resources, node string) (int64, bool)
}

// SchedulingGates is the name of the plugin that holds pods back.
const SchedulingGates = "SchedulingGates"

// DefaultPreemption is the name of the plugin that holds preemptors back.
const DefaultPreemption = "DefaultPreemption"

const nodeResourcesFit = "NodeResourcesFit"

// DefaultPlugins are upstream's plugins that reject nodes, or hold pods back, each with
// the events that it registers for. The source is upstream-1.36.md, 4.5. Without profiles,
// which may be nil, nothing is added and nothing is constrained by default.
func DefaultPlugins(profiles Profiles) []Plugin {
	return []Plugin{
		{Name: SchedulingGates, PreEnqueue: gatesOf(profiles), Events: []Registration{
			{Resource: PendingPod, Actions: UpdatePodSchedulingGatesEliminated, Helps: isOwn},
		}},
		{Name: "NodeUnschedulable", Local: true, Events: []Registration{
			{Resource: Node, Actions: Add | UpdateNodeTaint, If: isSchedulableAgain},
			{Resource: AnyPod, Actions: UpdatePodToleration, Helps: ownToleratesUnschedulable},
		}},
		{Name: "NodeName", Local: true, Events: []Registration{
			{Resource: Node, Actions: Add},
		}},
		{Name: "TaintToleration", Local: true, Events: []Registration{
			{Resource: Node, Actions: Add | UpdateNodeTaint, Helps: isTolerated},
			{Resource: AnyPod, Actions: UpdatePodToleration, Helps: isOwn},
		}},
		{Name: "NodeAffinity", Local: true, Events: []Registration{
			{Resource: Node, Actions: Add | UpdateNodeLabel, Helps: matcher{profiles}.matches},
		}},
		{Name: "NodePorts", Local: true, Events: []Registration{
			{Resource: AnyPod, Actions: Delete, If: freesRoom, Helps: freesPort, Topics: portTopics, Touches: portTouches},
			{Resource: Node, Actions: Add},
		}},
		{Name: nodeResourcesFit, Local: true, Events: []Registration{
			{Resource: AnyPod, Actions: Delete, If: freesRoom, Touches: roomTouches(profiles)},
			{Resource: AnyPod, Actions: UpdatePodScaleDown, Helps: shrinks},
			{Resource: Node, Actions: Add | UpdateNodeAllocatable, Helps: hasRoom, Topics: asksMost, Touches: nodeTouches},
		}},
		volumeRestrictions(),
		nodeVolumeLimits(),
		volumeBinding(),
		volumeZone(),
		podTopologySpread(profiles),
		interPodAffinity(),
		defaultPreemption(profiles),
		nodeDeclaredFeatures(),
		dynamicResources(),
	}
}
