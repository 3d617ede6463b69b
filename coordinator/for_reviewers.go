package coordinator

import (
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/extenders"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/outoftree"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/scorer"
)

// forReviewers is the loop as extenders and out-of-tree plugins know it.
type forReviewers struct{ *Scheduler }

var (
	_ extenders.Loop = forReviewers{}
	_ outoftree.Loop = forReviewers{}
)

// Later is part of extenders.Loop and outoftree.Loop.
func (l forReviewers) Later(do func()) { l.inbox.put(do) }

// Queue is part of extenders.Loop and outoftree.Loop.
func (l forReviewers) Queue() *queue.Queue { return l.queue }

// Resume is part of extenders.Loop: the attempt is decided in a batch of its own.
func (l forReviewers) Resume(p *queue.Pod) {
	if a := l.parked[p]; a != nil {
		delete(l.parked, p)
		l.resumed = append(l.resumed, a)
	}
}

// Joining is part of outoftree.Loop.
func (l forReviewers) Joining(row cache.Row, node string, joined, left []*v1.Pod, pod *v1.Pod, class *compile.Class) *scorer.RowCheck {
	n := l.nominees.With(row, node, joined, pod, class)
	return &scorer.RowCheck{
		Join: func(totals *scorer.RowTotals) {
			n.Join(totals, l.state.Storage().Joining(node, joined, pod, left...))
		},
		Adjust: func(v *scorer.Verdict) { n.AddTo(v, class.Query, true) },
	}
}

// activate has the pods tried at once that a cycle's plugins have named.
func (s *Scheduler) activate(c *framework.Cycle) {
	for _, p := range c.ToActivate() {
		s.queue.Activate(p.UID)
	}
}

// changed takes in a change that only out-of-tree plugins wait for, from any goroutine.
func (s *Scheduler) changed(resource string, old, now any) {
	s.inbox.put(func() { s.move(queue.Other(resource, old, now)) })
}
