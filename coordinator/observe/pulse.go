package observe

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/queue"
)

// Pulse is how far a scheduler is, read in steps.
type Pulse struct {
	// Decided counts decisions, Bound pods whose binds are committed, both since the term began.
	Decided, Bound uint64
	// Pending counts the pods of the queue, and Oldest is when the oldest of them was created; zero: there is none.
	Pending int
	Oldest  time.Time

	queue  Queue
	totals func() (decided, bound uint64)
	pods   walk[*queue.Pod]
}

// NewPulse makes a pulse that is to be read. totals is called with the last step.
func NewPulse(q Queue, totals func() (decided, bound uint64)) *Pulse {
	return &Pulse{queue: q, totals: totals}
}

// Read is how it is read.
func (x *Pulse) Read() Read { return Read{Step: x.step, End: x.pods.end} }

func (x *Pulse) step() (last bool) {
	if !x.pods.some(x.queue.All(), podsAtOnce, func(p *queue.Pod) { x.add(p.Obj, p.Arrived) }) {
		return false
	}
	x.Decided, x.Bound = x.totals()
	return true
}

// add counts a pod. One without a time of creation is as old as its arrival.
func (x *Pulse) add(p *v1.Pod, arrived time.Time) {
	x.Pending++
	since := p.CreationTimestamp.Time
	if since.IsZero() {
		since = arrived
	}
	if x.Oldest.IsZero() || since.Before(x.Oldest) {
		x.Oldest = since
	}
}
