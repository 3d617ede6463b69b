package queue

import (
	"math/bits"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
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
	UpdatePodLabel
	UpdatePodScaleDown
	UpdatePodSchedulingGatesEliminated
	UpdatePodToleration
	// Update is a change that none of the above names.
	Update

	actions = iota
)

// What else puts a pod into another place, by upstream's names.
const (
	eventAttemptFailed = "ScheduleAttemptFailure"
	eventBackoffOver   = "BackoffComplete"
	eventPoppedEarly   = "PopFromBackoffQ"
	eventActivated     = "ForceActivate"
	eventTimeout       = "UnschedulableTimeout"
	eventPodAdded      = "UnschedulablePodAdd"
	// eventGivenBack and eventRestored are ours.
	eventGivenBack = "GiveBack"
	eventRestored  = "Restore"
)

// Event is a change in the cluster that may help a pod. Make one with the functions
// below.
type Event struct {
	resource Resource
	action   Action

	// oldNode is nil for Add, node for Delete; the same holds for pods.
	oldNode, node *v1.Node
	oldPod, pod   *v1.Pod

	// Made at first use, once for all pods that the event is held against.
	oldRow, row     *pb.Node
	oldUsage, usage *pb.PodUsage
}

// String is upstream's label of the event, such as NodeAdd or
// AssignedPodUpdatePodScaleDown.
func (e *Event) String() string {
	resource := [resources]string{"Node", "AssignedPod", "UnschedulablePod"}[e.resource]
	return resource + [actions]string{
		"Add", "Delete",
		"UpdateNodeAllocatable", "UpdateNodeLabel", "UpdateNodeTaint", "UpdateNodeCondition", "UpdateNodeAnnotation",
		"UpdatePodLabel", "UpdatePodScaleDown", "UpdatePodSchedulingGatesEliminated", "UpdatePodToleration",
		"Update",
	}[e.action.index()]
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

// nodeRow is the node as it is now, compiled.
func (e *Event) nodeRow() *pb.Node {
	if e.row == nil {
		e.row = compile.Node(e.node)
	}
	return e.row
}

// oldNodeRow is the node as it was, compiled.
func (e *Event) oldNodeRow() *pb.Node {
	if e.oldRow == nil {
		e.oldRow = compile.Node(e.oldNode)
	}
	return e.oldRow
}

// podUsage is what the event's pod takes now.
func (e *Event) podUsage() *pb.PodUsage {
	if e.usage == nil {
		e.usage = compile.Usage(e.pod)
	}
	return e.usage
}

// oldPodUsage is what the event's pod took before.
func (e *Event) oldPodUsage() *pb.PodUsage {
	if e.oldUsage == nil {
		e.oldUsage = compile.Usage(e.oldPod)
	}
	return e.oldUsage
}
