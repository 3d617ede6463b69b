package coordinator

import (
	"context"
	"time"

	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/tracing"
	"github.com/shardsched/shardsched/scorer"
)

// An attempt may wait for somebody outside the loop, an extender, without holding up anybody:
//
//	decide ──park──> parked ──resume (any goroutine)──> a batch of its own ──> decide
//	                    │                                  with the answer, on the
//	                    └─ pod gone, or not ours: dropped    tables of now
//
// The pod stays in flight in the queue meanwhile. Everything that was found out for it but for
// the answer is found out anew. What has happened since the question is held against the answer.

// outsiders is what those outside the loop have said of an attempt's nodes.
type outsiders struct {
	// Asked are the nodes that they were asked about, by name. A node that is feasible now and was
	// not asked about is not chosen.
	Asked map[string]struct{}
	// Refused says why nodes among them can not have the pod, or any others.
	Refused map[string]scorer.Reason
	// Scores are added to the nodes' totals, with their weights.
	Scores map[string]int64
	// Plugins are counted among those that rejected the pod, should it find no node.
	Plugins []string
	// Err ends the attempt; nil: it goes on.
	Err error
	// Rounds is how often they were asked in this attempt.
	Rounds int
	// told are the reasons of nodes that pass all else, when the attempt was looked at last.
	told []scorer.Reason
}

// whyRefused is why a node is out, also where nobody was asked about it; nil: it is not.
func (o *outsiders) whyRefused(node string) []scorer.Reason {
	if o == nil {
		return nil
	}
	if r, ok := o.Refused[node]; ok {
		return []scorer.Reason{r}
	}
	if _, asked := o.Asked[node]; !asked {
		return []scorer.Reason{unsaid}
	}
	return nil
}

// parking is the attempts that have left their batches.
type parking struct {
	// parked wait for an answer, resumed have one.
	parked  map[*queue.Pod]*attempt
	resumed []*attempt
}

// park takes an attempt out of its batch, until resume. decide returns true after it, and
// neither records nor refuses. The attempt that is returned is the one to resume.
func (s *Scheduler) park(a *attempt) *attempt {
	s.promising = true
	kept := *a
	if s.parked == nil {
		s.parked = map[*queue.Pod]*attempt{}
	}
	s.parked[kept.pod] = &kept
	return &kept
}

// isParked tells whether an attempt has left its batch, and is not decided yet.
func (s *Scheduler) isParked(a *attempt) bool { return s.parked[a.pod] != nil }

// resume has a parked attempt decided anew, with an answer. It may be called from any goroutine,
// once for each time that the attempt is parked.
func (s *Scheduler) resume(a *attempt, answer *outsiders) {
	s.inbox.put(func() {
		if s.parked[a.pod] != a {
			return // dropped
		}
		delete(s.parked, a.pod)
		a.answer = answer
		s.resumed = append(s.resumed, a)
	})
}

// readmit prepares a resumed attempt for its decision; false where there is nothing to decide
// any more.
func (s *Scheduler) readmit(a *attempt) (attempt, bool) {
	p := a.pod
	if s.queue.Get(p.Obj.UID) != p {
		s.queue.Done(p.Obj.UID) // it was deleted meanwhile
		a.trace.Finish(tracing.GivenBack, nil)
		return attempt{}, false
	}
	fresh, ok := s.admitWith(p, a.trace)
	if !ok {
		a.trace.Finish(tracing.GivenBack, nil)
		return attempt{}, false
	}
	fresh.answer, fresh.shrunk, fresh.begun = a.answer, a.shrunk, a.begun
	if fresh.answer == nil {
		s.queue.Rejoin(p)
	}
	return fresh, true
}

// scheduleResumed decides the attempts that have their answers.
func (s *Scheduler) scheduleResumed(ctx context.Context) {
	list := s.resumed
	s.resumed = nil
	s.scheduleAll(ctx, nil, list)
}

// since is how long an attempt has taken.
func (a *attempt) since(now time.Time) time.Duration { return now.Sub(a.begun) }
