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

// NodeAffinity waits for nodes that a pod comes to match.
func NodeAffinity(profiles Profiles) Plugin {
	return Plugin{Local: true, Events: []Registration{
		{Resource: Node, Actions: Add | UpdateNodeLabel, Helps: matcher{profiles}.matches},
	}}
}

// NodePorts waits for pods with the same port to go.
func NodePorts(Profiles) Plugin {
	return Plugin{Local: true, Events: []Registration{
		{Resource: AnyPod, Actions: Delete, If: FreesRoom, Helps: freesPort, Topics: portTopics, Touches: portTouches},
		{Resource: Node, Actions: Add},
	}}
}

// NodeResourcesFit waits for room: pods that go or shrink, nodes that grow, and classes of devices that serve an extended resource.
func NodeResourcesFit(profiles Profiles) Plugin {
	return Plugin{Local: true, Room: true, Events: []Registration{
		{Resource: AnyPod, Actions: Delete, If: FreesRoom, Touches: roomTouches(profiles)},
		{Resource: AnyPod, Actions: UpdatePodScaleDown, Helps: shrinks},
		{
			Resource: Node, Actions: Add | UpdateNodeAllocatable, Helps: fit{knownClaims(profiles)}.hasRoom,
			Topics: asksMost, Touches: nodeTouches,
		},
		{Resource: DeviceClass, Actions: Add | Update, If: changesResource, Helps: asksForResource},
	}}
}
