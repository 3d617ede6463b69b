package queue

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

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

// oldPodAntiTerms are the required anti-affinity terms of the event's pod as it was.
func (e *Event) oldPodAntiTerms() *affinityTerms {
	if e.oldAnti == nil {
		e.oldAnti = requiredAntiAffinity(e.oldPod)
	}
	return e.oldAnti
}

// moves tells whether a pod's priority is not above what the event may move, and the pod is not
// left out of it.
func (e *Event) moves(p *Pod) bool {
	return (e.atMost == nil || p.Priority <= *e.atMost) && p.Obj.UID != e.except
}

// Except is the event for all pods but one.
func (e Event) Except(uid types.UID) Event {
	e.except = uid
	return e
}
