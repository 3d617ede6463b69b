package coordinator

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

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
// That is one batch ahead; with two, 3 is asked for beside 2. How many it is follows from what batches take (tuning.go).
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
	tally       aheadTally
}

// aheadTally is how many classes were asked about ahead since the log was last told.
type aheadTally struct {
	taken, again int
	told         time.Time
}

// tellAheadEvery is the shortest time between two log lines about classes that were asked about ahead in vain.
const tellAheadEvery = time.Minute

// tell has the log say how often the answers that were asked for ahead did not serve: a node has changed meanwhile, a worker has not
// answered, or the answer can not be repaired.
func (t *aheadTally) tell(ctx context.Context, now time.Time) {
	if t.told.IsZero() {
		t.told = now
	}
	if t.again == 0 || now.Sub(t.told) < tellAheadEvery {
		return
	}
	klog.FromContext(ctx).Info("Workers were asked ahead about classes, and again about some", "classes", t.taken+t.again, "again", t.again)
	*t = aheadTally{told: now}
}

// askedAhead is one question.
type askedAhead struct {
	round    *fanout.Ahead
	needs    []*answers.Need
	profiles []string // for each need, the profile of its first pod
	first    *queue.Pod
	pods     int // that it is about
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

// askAhead asks workers for the pods that come next in the queue, before so many others are decided, until as many questions are
// out as the way in use wants.
func (s *Scheduler) askAhead(ctx context.Context, before int) error {
	x := &s.ahead
	switch {
	case !x.many || s.tuning.way.Ahead == 0:
		return nil
	case x.rest > 0, !s.fanout.MayAskAhead():
		return nil
	}
	known := 0 // pods of the queue that are asked for already
	for _, q := range x.asked {
		known += q.pods
	}
	for len(x.asked) < s.tuning.way.Ahead {
		pods, err := s.askAheadOnce(ctx, before, known)
		if pods == 0 || err != nil {
			return err
		}
		known += pods
	}
	return nil
}

// askAheadOnce asks for the pods of one batch, behind so many others of the queue. It returns how many pods these are; 0: it has
// not asked.
func (s *Scheduler) askAheadOnce(ctx context.Context, before, known int) (pods int, err error) {
	x := &s.ahead
	x.pods = s.queue.Peek(known+s.batch.size.next(), x.pods[:0])
	next := x.pods[min(known, len(x.pods)):]
	batch, began := s.answers.Ahead(len(next), before+known), s.cfg.Now()
	var profiles []string
	for i, p := range next {
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
		return 0, err
	}
	if s.state.HasPostponed() {
		s.state.ForgetPostponed() // their pods ask for them in their turn
		return 0, nil
	}
	needs := batch.Needs()
	if len(needs) == 0 || offers(needs, s.state.Nodes()) > roundCandidates {
		return 0, nil
	}
	requests := make([]fanout.Request, len(needs))
	for i, n := range needs {
		requests[i] = fanout.Request{Class: n.Class, Candidates: n.Candidates}
	}
	round := s.fanout.EvaluateAhead(ctx, requests)
	if round == nil {
		return 0, nil
	}
	s.answers.AskedAhead(needs)
	x.asked = append(x.asked, &askedAhead{round, needs, profiles, next[0], len(next)})
	return len(next), nil
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
	mine, asked := x.isFor(attempts), x.asked[0]
	x.asked = x.asked[:copy(x.asked, x.asked[1:])]
	if mine {
		err = s.askAhead(ctx, len(attempts))
	}
	if err != nil {
		asked.round.Drop()
		return 0, err
	}
	return s.takeAhead(ctx, asked)
}

// takeAhead gives the engine the answers to a question that was asked ahead, and returns how many serve.
func (s *Scheduler) takeAhead(ctx context.Context, asked *askedAhead) (taken int, err error) {
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
	x.tally.taken += taken
	x.tally.again += len(asked.needs) - taken
	x.tally.tell(ctx, s.cfg.Now())
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
