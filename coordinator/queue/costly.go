package queue

import (
	"slices"
	"time"
)

// Costly is what an attempt may take to be prepared: a hundred times what the attempts of ordinary pods take. A pod
// above it waits behind all others of Active, and batches have one of them at the most, their last pod.
//
// Differs from upstream: such a pod may be overtaken, also by pods of lower priority. Upstream's scheduling waits
// for whatever pod comes next, so whoever may create pods could hold up those of others.
const Costly = 10 * time.Millisecond

// isCostly tells whether a pod's last attempt was.
func (p *Pod) isCostly() bool { return p.Cost > Costly }

// ready is the heap of Active that a pod belongs to. Cost and Aside change only while the pod is in flight.
func (q *Queue) ready(p *Pod) *heap {
	switch {
	case p.Aside != 0:
		return &q.aside
	case p.isCostly():
		return &q.costly
	}
	return &q.active
}

// SetAside takes a pod in flight back as GiveBack does, until PopAside: its attempt waits for something, other than 0,
// that the owner has to do first and others are not to wait for.
//
// Differs from upstream: such a pod may be overtaken, also by pods of lower priority, as a costly one.
func (q *Queue) SetAside(p *Pod, what uint64) {
	if p.place == InFlight && !p.deleted {
		p.Aside, p.early = what, false
		if _, waits := q.asideTurns[p.Obj.Namespace]; !waits {
			q.asideTurns[p.Obj.Namespace] = q.turns // behind those that wait longer
		}
	}
	q.GiveBack(p)
}

// keptTurns is how many namespaces without pods that are set aside are known at the least.
const keptTurns = 64

// Aside is how many pods are set aside.
func (q *Queue) Aside() int { return q.aside.len() }

// AsideFor is what the next pod waits for that was set aside; 0: there is none. Namespaces take turns, so that
// none waits for all that another has brought; within a namespace the queue's order is kept.
func (q *Queue) AsideFor() uint64 {
	var next *Pod
	for _, p := range q.aside.pods {
		if next == nil || q.takesTurn(p, next) {
			next = p
		}
	}
	if next == nil {
		return 0
	}
	return next.Aside
}

// takesTurn tells whether a pod that was set aside comes before another.
func (q *Queue) takesTurn(a, b *Pod) bool {
	if x, y := q.asideTurns[a.Obj.Namespace], q.asideTurns[b.Obj.Namespace]; x != y {
		return x < y
	}
	return q.aside.before(a, b)
}

// PopAside appends up to n pods to into that were set aside for something, in the queue's order. They are in flight
// then, as those of PopBatch, and their namespaces have had their turn.
func (q *Queue) PopAside(what uint64, n int, into []*Pod) []*Pod {
	var found []*Pod
	for _, p := range q.aside.pods {
		if p.Aside == what {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b *Pod) int {
		if q.aside.before(a, b) {
			return -1
		}
		return 1
	})
	q.turns++
	for _, p := range found[:min(n, len(found))] {
		q.asideTurns[p.Obj.Namespace] = q.turns
		into = append(into, q.pop(p, false))
	}
	if len(q.asideTurns) > 2*q.aside.len()+keptTurns {
		clear(q.asideTurns)
		for _, p := range q.aside.pods {
			q.asideTurns[p.Obj.Namespace] = q.turns
		}
	}
	return into
}

// popCostly pops a costly pod for a batch of up to n that has pods already, but for one that can have one only.
func (q *Queue) popCostly(n int, into []*Pod) []*Pod {
	if p := q.costly.head(); p != nil && (n > 1 || len(into) == 0) {
		return append(into, q.pop(p, false))
	}
	return into
}
