package queue

import (
	"k8s.io/apimachinery/pkg/types"
)

// Preempted tells that the victims of a pod are told to leave, all of them. Where something
// happened meanwhile that may help it, which is why plugin holds it back, it is tried.
//
// Differs from upstream: there it stays gated until another pod is deleted.
func (q *Queue) Preempted(uid types.UID, plugin string) {
	if p := q.pods[uid]; p != nil && p.place == Gated && p.Gated == plugin {
		q.requeue(p, (&Event{resource: AssignedPod, action: Delete}).String())
	}
}
