package queue

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/count"
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

// oldPodAntiTerms are the required anti-affinity terms of the event's pod as it was, up to manyParts: all pods that wait
// are held against them.
func (e *Event) oldPodAntiTerms() *affinityTerms {
	if e.oldAnti == nil {
		e.oldAnti = requiredAntiAffinity(e.oldPod)
		e.oldAnti.shorten(manyParts)
	}
	return e.oldAnti
}

// oldPodHeld are the keys of the claims and disks that the event's pod had.
func (e *Event) oldPodHeld() map[count.Key]bool {
	if e.oldHeld == nil {
		e.oldHeld = count.Held(e.oldPod)
	}
	return e.oldHeld
}

// sameLabels tells whether the event's pod has the labels that it had.
func (e *Event) sameLabels() bool {
	if e.same == nil {
		same := maps.Equal(e.oldPod.Labels, e.pod.Labels)
		e.same = &same
	}
	return *e.same
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
