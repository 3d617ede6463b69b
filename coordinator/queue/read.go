package queue

import (
	"iter"

	"k8s.io/apimachinery/pkg/types"
)

// Has tells whether a pod is there. One that was deleted while in flight is not.
func (q *Queue) Has(uid types.UID) bool { return q.Get(uid) != nil }

// Get finds a pod, nil where it is not there.
func (q *Queue) Get(uid types.UID) *Pod {
	if p := q.pods[uid]; p != nil && !p.deleted {
		return p
	}
	return nil
}

// Find finds a pod by its name, nil where it is not there.
func (q *Queue) Find(namespace, name string) *Pod {
	return q.names[types.NamespacedName{Namespace: namespace, Name: name}]
}

// Each calls f for each pod, in no order.
func (q *Queue) Each(f func(*Pod)) {
	for p := range q.All() {
		f(p)
	}
}

// All are the pods, in no order.
func (q *Queue) All() iter.Seq[*Pod] {
	return func(yield func(*Pod) bool) {
		for _, p := range q.pods {
			if !p.deleted && !yield(p) {
				return
			}
		}
	}
}

// Len is the number of pods in a place.
func (q *Queue) Len(place Place) int { return q.counts[place] }

// Lens is the number of pending pods by upstream's names of the queues.
func (q *Queue) Lens() map[string]int {
	return map[string]int{
		Active.String():        q.counts[Active],
		Backoff.String():       q.counts[Backoff] + q.counts[ErrorBackoff],
		Unschedulable.String(): q.counts[Unschedulable],
		Gated.String():         q.counts[Gated],
	}
}

// Size is the number of pods that are there.
func (q *Queue) Size() (n int) {
	for place := Active; place < places; place++ {
		n += q.counts[place]
	}
	return n
}

// Waiting is the number of pods that are being tried, or will be without any event.
func (q *Queue) Waiting() int {
	return q.counts[Active] + q.counts[Backoff] + q.counts[ErrorBackoff] + q.counts[InFlight]
}
