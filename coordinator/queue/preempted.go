package queue

import (
	"k8s.io/apimachinery/pkg/types"
)

// DefaultPreemption is the name of the plugin that holds preemptors back.
const DefaultPreemption = "DefaultPreemption"

// Preempted tells that the victims of a pod are told to leave, all of them. Where something
// happened meanwhile that may help it, which is why it is gated, it is tried.
//
// Differs from upstream: there it stays gated until another pod is deleted.
func (q *Queue) Preempted(uid types.UID) {
	if p := q.pods[uid]; p != nil && p.place == Gated && p.Gated == DefaultPreemption {
		q.requeue(p, (&Event{resource: AssignedPod, action: Delete}).String())
	}
}
