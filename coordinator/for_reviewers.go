package coordinator

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

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

// Before and Rejoin are part of extenders.Loop.
func (l forReviewers) Before(x, y *queue.Pod) bool { return l.queue.Before(x, y) }
func (l forReviewers) Rejoin(p *queue.Pod)         { l.queue.Rejoin(p) }

// Activate is part of outoftree.Loop, as are Nominated and Nominate.
func (l forReviewers) Activate(pods ...types.UID) { l.queue.Activate(pods...) }

func (l forReviewers) Nominated(yield func(node string, p *v1.Pod) bool) {
	for _, node := range l.queue.NominatedNodes() {
		for _, p := range l.queue.Nominated(node) {
			if !yield(node, p.Obj) {
				return
			}
		}
	}
}

func (l forReviewers) Nominate(pod types.UID, node string) {
	if p := l.queue.Get(pod); p != nil {
		l.queue.Nominate(p, node)
	}
}

// Resume is part of extenders.Loop: the attempt is decided in a batch of its own.
func (l forReviewers) Resume(p *queue.Pod) { l.parking.resume(p) }

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
