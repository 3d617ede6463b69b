package queue

import (
	"math/bits"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/count"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Resource is what an event is about.
type Resource uint8

// The resources of events.
const (
	Node Resource = iota
	// AssignedPod is a pod that is on a node.
	AssignedPod
	// PendingPod is a pod that is on none.
	PendingPod
	// PersistentVolumeClaim concerns the pods that use the claim; only they are asked.
	PersistentVolumeClaim
	PersistentVolume
	StorageClass
	CSINode
	CSIDriver
	CSIStorageCapacity
	VolumeAttachment
	ResourceClaim
	ResourceSlice
	DeviceClass
	// OtherResource is what only out-of-tree plugins wait for.
	OtherResource

	resources

	// AnyPod registers for both kinds of pods; no event carries it.
	AnyPod Resource = 1 << 7
)

// Action is what happened. An event carries one, a registration any number of them.
type Action uint16

// The actions of events.
const (
	Add Action = 1 << iota
	Delete
	UpdateNodeAllocatable
	UpdateNodeLabel
	UpdateNodeTaint
	UpdateNodeCondition
	UpdateNodeAnnotation
	UpdateNodeDeclaredFeature
	UpdatePodLabel
	UpdatePodScaleDown
	UpdatePodSchedulingGatesEliminated
	UpdatePodToleration
	UpdatePodGeneratedResourceClaim
	// Update is a change that none of the above names.
	Update

	actions = iota

	// AnyPodUpdate is what upstream's registration for every update of a pod names.
	AnyPodUpdate = UpdatePodLabel | UpdatePodScaleDown | UpdatePodSchedulingGatesEliminated | UpdatePodToleration |
		UpdatePodGeneratedResourceClaim | Update
)

// What else puts a pod into another place, by upstream's names.
const (
	eventAttemptFailed = "ScheduleAttemptFailure"
	eventBackoffOver   = "BackoffComplete"
	eventPoppedEarly   = "PopFromBackoffQ"
	eventActivated     = "ForceActivate"
	eventTimeout       = "UnschedulableTimeout"
	eventPodAdded      = "UnschedulablePodAdd"
	eventPodUpdated    = "UnschedulablePodUpdate"
	eventPodGroup      = "scheduling.k8s.io/PodGroupAdd"
)

// Event is a change in the cluster that may help a pod. Make one with the functions of
// this package.
type Event struct {
	resource Resource
	action   Action
	// except is a pod that the event does not move; empty: none.
	except types.UID
	// atMost is the highest priority that the event moves; nil: all.
	atMost *int32

	// oldNode is nil for Add, node for Delete; the same holds for pods.
	oldNode, node *v1.Node
	oldPod, pod   *v1.Pod
	// of the other resources
	oldObj, obj any
	// kind is the name of an OtherResource.
	kind string

	// Made at first use, once for all pods that the event is held against.
	judged          bool
	concerns        set // plugins
	blind           set // plugins of which it is not known which labels their hints read
	oldRow, row     *pb.Node
	oldUsage, usage *pb.PodUsage
	oldAnti         *affinityTerms
	oldHeld         map[count.Key]bool
	same            *bool // sameLabels
}

// String is upstream's label of the event, such as NodeAdd or
// AssignedPodUpdatePodScaleDown.
func (e *Event) String() string {
	name := e.resource.name()
	if e.kind != "" {
		name = e.kind
	}
	return name + actionName(e.action.index())
}

// name is upstream's. AnyPod has none.
func (r Resource) name() string {
	return [resources]string{
		"Node", "AssignedPod", "UnschedulablePod",
		"PersistentVolumeClaim", "PersistentVolume", "storage.k8s.io/StorageClass",
		"storage.k8s.io/CSINode", "storage.k8s.io/CSIDriver", "storage.k8s.io/CSIStorageCapacity", "storage.k8s.io/VolumeAttachment",
		"resource.k8s.io/ResourceClaim", "resource.k8s.io/ResourceSlice", "resource.k8s.io/DeviceClass",
		"Other",
	}[r]
}

func actionName(index int) string {
	return [actions]string{
		"Add", "Delete",
		"UpdateNodeAllocatable", "UpdateNodeLabel", "UpdateNodeTaint", "UpdateNodeCondition", "UpdateNodeAnnotation",
		"UpdateNodeDeclaredFeature",
		"UpdatePodLabel", "UpdatePodScaleDown", "UpdatePodSchedulingGatesEliminated", "UpdatePodToleration",
		"UpdatePodGeneratedResourceClaim",
		"Update",
	}[index]
}

func (a Action) index() int { return bits.TrailingZeros16(uint16(a)) }

// NodeAdded is the event of a new node.
func NodeAdded(n *v1.Node) Event { return Event{resource: Node, action: Add, node: n} }

// NodeDeleted is the event of a node that is gone.
func NodeDeleted(n *v1.Node) Event { return Event{resource: Node, action: Delete, oldNode: n} }

// AssignedPodAdded is the event of a pod that is on a node now.
func AssignedPodAdded(p *v1.Pod) Event { return Event{resource: AssignedPod, action: Add, pod: p} }

// AssignedPodDeleted is the event of a pod that has left its node, or is taken back from
// the node that it was promised. p names that node.
func AssignedPodDeleted(p *v1.Pod) Event {
	return Event{resource: AssignedPod, action: Delete, oldPod: p}
}

// NominationEnded gives the event of a pending pod that loses the node which its status
// nominated, for now names another or none; now is nil where the pod is deleted. To pods of
// no higher priority it was as good as on that node. No event where nothing was nominated, or
// still is.
func NominationEnded(old, now *v1.Pod) []Event {
	was := old.Status.NominatedNodeName
	if was == "" || now != nil && now.Status.NominatedNodeName == was {
		return nil
	}
	priority := compile.Priority(old)
	return []Event{{resource: AssignedPod, action: Delete, oldPod: old, atMost: &priority}}
}
