package queue

import "time"

// Costly is what an attempt may take to be prepared: a hundred times what the attempts of ordinary pods take. A pod
// above it waits behind all others of Active, and batches have one of them at the most, their last pod.
//
// Differs from upstream: such a pod may be overtaken, also by pods of lower priority. Upstream's scheduling waits
// for whatever pod comes next, so whoever may create pods could hold up those of others.
const Costly = 10 * time.Millisecond

// isCostly tells whether a pod's last attempt was.
func (p *Pod) isCostly() bool { return p.Cost > Costly }

// ready is what a pod of Active belongs to. Cost and Aside change only while the pod is in flight.
func (q *Queue) ready(p *Pod) ordered {
	switch {
	case p.Aside != 0:
		return &q.aside[p.Awaits]
	case p.isCostly():
		return &q.costly
	}
	return &q.active
}

// popCostly pops a costly pod for a batch of up to n that has pods already, but for one that can have one only.
func (q *Queue) popCostly(n int, into []*Pod) []*Pod {
	if p := q.costly.head(); p != nil && (n > 1 || len(into) == 0) {
		return q.popWithMates(p, false, into)
	}
	return into
}
