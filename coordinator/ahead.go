package coordinator

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/choice"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/storage"
	"github.com/shardsched/shardsched/scorer"
)

// ahead is what workers are asked for pods that are still in the queue, so that they judge rows while the loop decides other
// pods:
//
//	loop      prepare 1   ask for 2   take 1   decide 1 │ prepare 2   ask for 3   take 2   decide 2 │ …
//	workers   ── 1 ────────────────┐  ── 2 ──────────────────────────────────┐  ── 3 ───────────────
//
// No decision depends on it: an answer is repaired by all that has changed since the question, and what is not answered is asked
// for when the pods have their turn. It is worth it only if most pods are of classes of their own.
type ahead struct {
	asked []*askedAhead // oldest first: that of the batch at hand, and that of the next
	pods  []*queue.Pod  // memory
	// many tells that the last batch had many classes without an answer. rest is for how many batches nothing is asked ahead,
	// because most answers of the last question did not serve; pause is how long the last rest was.
	many        bool
	rest, pause int
	always      bool // tests ask ahead for whatever they can
}

// askedAhead is one question.
type askedAhead struct {
	round    *fanout.Ahead
	needs    []*answers.Need
	profiles []string // for each need, the profile of its first pod
	first    *queue.Pod
}

// aheadShare is the part of a batch's pods that need answers from which on the next is asked for ahead: one in so many. To look
// at pods twice costs the others more than it brings.
const aheadShare = 8

// aheadTime is how long a turn prepares pods of the next batch, beside those of its own.
const aheadTime = prepareTime / 2

// maxPause is the longest pause, in batches.
const maxPause = 64

// note takes in of how many pods a batch was, and how many classes it had to have answers for.
func (x *ahead) note(pods, classes int) { x.many = classes*aheadShare > pods || x.always }

// isFor tells whether the oldest question is about the pods of a batch.
func (x *ahead) isFor(attempts []attempt) bool {
	return len(x.asked) > 0 && len(attempts) > 0 && x.asked[0].first == attempts[0].Pod
}

// askAhead asks workers for the pods that come next in the queue, before so many others are decided.
func (s *Scheduler) askAhead(ctx context.Context, before int) error {
	x := &s.ahead
	switch {
	case !x.many:
		return nil
	case x.rest > 0:
		x.rest--
		return nil
	case !s.fanout.MayAskAhead():
		return nil
	}
	x.pods = s.queue.Peek(s.batch.size.next(), x.pods[:0])
	batch, began := s.answers.Ahead(len(x.pods), before), s.cfg.Now()
	var profiles []string
	for i, p := range x.pods {
		batch.At(i)
		begin := s.cfg.Now()
		if s.budget.over(begin.Sub(began), aheadTime) {
			break
		}
		if need, ok := s.wantAhead(batch, p); ok && need == len(profiles) {
			profiles = append(profiles, p.Obj.Spec.SchedulerName)
		}
		p.CostAhead += s.cfg.Now().Sub(begin) // its attempt finds the class made
	}
	if err := s.state.Settle(); err != nil {
		return err
	}
	if s.state.HasPostponed() {
		s.state.ForgetPostponed() // their pods ask for them in their turn
		return nil
	}
	needs := batch.Needs()
	if len(needs) == 0 || offers(needs, s.state.Nodes()) > roundCandidates {
		return nil
	}
	requests := make([]fanout.Request, len(needs))
	for i, n := range needs {
		requests[i] = fanout.Request{Class: n.Class, Candidates: n.Candidates}
	}
	if round := s.fanout.EvaluateAhead(ctx, requests); round != nil {
		s.answers.AskedAhead(needs)
		x.asked = append(x.asked, &askedAhead{round, needs, profiles, x.pods[0]})
	}
	return nil
}

func offers(needs []*answers.Need, nodes int) (all int) {
	for _, n := range needs {
		all += n.Offers(nodes)
	}
	return all
}

// wantAhead has a question ask for a pod's class too. It is not ok if the pod has to have its turn first: what it is compiled to,
// or what it needs, depends on what happens until then.
func (s *Scheduler) wantAhead(batch *answers.Batch, p *queue.Pod) (need int, ok bool) {
	prof := s.cfg.Profiles[p.Obj.Spec.SchedulerName]
	if prof == nil || p.Obj.DeletionTimestamp != nil || hasPodTerms(p.Obj) || storage.HasClaims(p.Obj) || len(p.Obj.Spec.ResourceClaims) > 0 {
		return 0, false
	}
	if _, node, _ := s.state.Pod(p.Obj.UID); node != "" {
		return 0, false
	}
	class, err := s.guard.ClassOf(p.Obj, prof)
	if err != nil || s.guard.WhyNot(class) != nil {
		return 0, false
	}
	q := s.chooser.Question(&choice.Try{Pod: p, Profile: prof, Class: class})
	if q.Node != "" || q.Alone {
		return 0, false
	}
	batch.Join(class)
	return batch.WantAhead(class)
}

// hasPodTerms tells whether a pod has affinity terms, which are registered in its turn.
func hasPodTerms(p *v1.Pod) bool {
	a := p.Spec.Affinity
	return a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil)
}

// takeWhatIsAhead takes the answers that were asked for ahead, and returns how many serve. If they are for this batch, the next
// batch is asked for first: workers do not rest meanwhile.
func (s *Scheduler) takeWhatIsAhead(ctx context.Context, attempts []attempt) (taken int, err error) {
	x := &s.ahead
	if len(x.asked) == 0 {
		return 0, nil
	}
	if x.isFor(attempts) {
		if err := s.askAhead(ctx, len(attempts)); err != nil {
			return 0, err
		}
	}
	asked := x.asked[0]
	x.asked = x.asked[:copy(x.asked, x.asked[1:])]
	return s.takeAhead(asked)
}

// takeAhead gives the engine the answers to a question that was asked ahead, and returns how many serve.
func (s *Scheduler) takeAhead(asked *askedAhead) (taken int, err error) {
	x := &s.ahead
	results := make([]*scorer.Result, len(asked.needs))
	if before, ok := s.answers.Before(asked.needs); ok {
		s.metrics.Ask()
		for i, n := range asked.needs {
			s.metrics.Request(asked.profiles[i], n.Pods)
		}
		results, err = asked.round.Results(func(shard, row uint32) (lastDecision uint64, changed bool) {
			lastDecision, changed = before[cache.Row{Shard: shard, Index: row}]
			return lastDecision, changed
		})
	} else {
		asked.round.Drop()
	}
	for i, n := range asked.needs {
		if s.answers.TakeAhead(n, results[i]) {
			taken++
		}
	}
	s.metrics.Ahead(taken, len(asked.needs)-taken)
	if 2*taken < len(asked.needs) {
		x.pause = min(2*x.pause+1, maxPause)
	} else {
		x.pause /= 2 // a worker that is late now and then is not waited for each time
	}
	if x.rest = x.pause; x.always {
		x.rest = 0
	}
	return taken, err
}
