package queue

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// waitingForPreemption is upstream's text of a preemptor that is held back.
const waitingForPreemption = "waiting for the preemption for this pod to be finished"

// defaultPreemption holds a preemptor back while its victims are told to leave. It waits for no
// event by itself: a pod that it has rejected was rejected by others too, and what those wait for
// is what the victims' leaving brings.
func defaultPreemption(profiles Profiles) Plugin {
	p := Plugin{Name: DefaultPreemption, Events: []Registration{
		{Resource: AnyPod, Actions: Delete, Helps: func(*Pod, *Event) bool { return false }},
	}}
	if profiles == nil {
		return p
	}
	p.PreEnqueue = func(p *v1.Pod) string {
		if profiles.Preempting(p) {
			return waitingForPreemption
		}
		return ""
	}
	return p
}

// Preempted tells that the victims of a pod are told to leave, all of them. Where something
// happened meanwhile that may help it, which is why it is gated, it is tried.
//
// Differs from upstream: there it stays gated until another pod is deleted.
func (q *Queue) Preempted(uid types.UID) {
	if p := q.pods[uid]; p != nil && p.place == Gated && p.Gated == DefaultPreemption {
		q.requeue(p, (&Event{resource: AssignedPod, action: Delete}).String())
	}
}
