package coordinator

import (
	"context"
	"math"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/aside"
	"github.com/shardsched/shardsched/coordinator/choice"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/state"
	"github.com/shardsched/shardsched/coordinator/tracing"
)

// noNodes is upstream's message where the cluster has no node at all.
const noNodes = "no nodes available to schedule pods"

// roundCandidates is how many candidates the answers of one round may name: more do not fit in
// one message.
const roundCandidates = 1 << 17

// batch is the batch that is running, or the last one.
type batch struct {
	number uint64
	begun  time.Time
	traces *tracing.Batch // nil: none
	popped []*queue.Pod
	behind []*queue.Pod // of popped, those that the batch leaves behind
	// attempts is memory for those of the batch.
	attempts []attempt
	// committing says that the decision at hand has begun to change more than what is held of its class.
	committing bool
	size       batchSize
}

// prepared is the outcome of an attempt's preparation, for the metrics.
func (a *attempt) prepared() (profile string, how observe.Prepared) {
	switch {
	case a.failed != nil:
		how = observe.Broken
	case a.Class.Rejected != nil:
		how = observe.Rejected
	}
	return a.Pod.Obj.Spec.SchedulerName, how
}

// schedule decides a batch, pod by pod in queue order.
func (s *Scheduler) schedule(ctx context.Context, pods []*queue.Pod) { s.scheduleAll(ctx, pods, nil) }

// scheduleAll decides resumed attempts, which have waited for extenders, and then a batch.
func (s *Scheduler) scheduleAll(ctx context.Context, pods []*queue.Pod, resumed []*attempt) {
	s.answers.SetDeciding(true)
	defer s.answers.SetDeciding(false)
	now := s.cfg.Now()
	s.aside.BeginSearching()
	defer func() { s.aside.EndSearching(now) }()
	s.batch.begun = now
	s.metrics.Begin(now)
	s.tuning.begin(len(pods) >= s.batch.size.next(), s.fanout.Askable(), s.state.Nodes())
	s.batch.traces = s.cfg.Tracer.Begin(len(pods) + len(resumed))
	attempts, err := s.prepareAll(pods, resumed...)
	defer s.leaveBehind()
	defer s.batch.forget()
	if err == nil {
		err = s.keepUp(ctx)
	}
	if err == nil {
		err = s.ask(ctx, attempts)
	}
	if err != nil {
		s.giveBack(ctx, attempts, err)
		return
	}
	begun := s.cfg.Now()
	for i := 0; i < len(attempts); {
		// An event may have put another pod before this one in the queue. That pod is decided first, and
		// the rest of the batch is given back.
		a := &attempts[i]
		if !a.Extenders.Answered() && !s.queue.Turn(a.Pod) && !(a.resumed && a.Pod.Group != nil) {
			s.giveBack(ctx, attempts[i:], nil)
			break
		}
		decided, goOn := s.decideNext(ctx, attempts[i:])
		if !goOn {
			s.giveBack(ctx, attempts[i:], nil)
			break
		}
		i += decided
		if s.batch.size.invalid {
			s.giveBack(ctx, attempts[i:], nil)
			break
		}
		if over := s.budget.over(s.cfg.Now().Sub(begun), decideTime); over && i < len(attempts) && !attempts[i].Extenders.Answered() {
			s.cut(attempts, i)
			break
		}
	}
	s.batch.size.end()
	s.dispatch()
	took := s.cfg.Now().Sub(now)
	s.tuning.end(took)
	s.metrics.Batch(len(attempts), took, s.answers.Work())
	s.metrics.Sizes(s.queue, s.state.Cache, s.cycles.UnderWay(), s.journal.Lag())
	s.metrics.PodGroups(s.groups)
}

// forget lets go of what the attempts hold: the next batch uses their memory.
func (b *batch) forget() {
	clear(b.attempts)
	b.attempts = b.attempts[:0]
}

// leaveBehind gives back the pods that were popped but did not fit into the batch, once the batch is decided.
func (s *Scheduler) leaveBehind() {
	for _, p := range s.batch.behind {
		s.queue.GiveBack(p)
	}
	s.batch.behind = s.batch.behind[:0]
}

// prepareAll compiles the pods of a batch. Their affinity terms are registered first, with those of nominated pods:
// a pod of the batch may repel the pods behind it once it is placed. A pod with more new terms than
// a batch may bring is the last of its batch.
func (s *Scheduler) prepareAll(pods []*queue.Pod, resumed ...*attempt) ([]attempt, error) {
	s.batch.number++
	s.nominees.NextBatch()
	attempts := slices.Grow(s.batch.attempts[:0], len(pods)+len(resumed))
	endTerms := s.state.BeginTerms()
	full := false
	join := func(a attempt) { attempts, full = append(attempts, a), full || a.last }
	for i, r := range resumed {
		if full && !continues(attempts, r.Pod) {
			s.parking.resumed = append(s.parking.resumed, resumed[i:]...)
			break
		}
		if a, ok := s.readmit(r); ok {
			join(a)
		}
	}
	for _, p := range pods {
		if full && !continues(attempts, p) {
			s.batch.behind = append(s.batch.behind, p)
		} else if a, ok := s.admit(p); ok {
			join(a)
		}
	}
	s.batch.attempts = attempts
	s.registerNominated()
	endTerms()
	begin := s.cfg.Now()
	now := begin
	for i := range attempts {
		a, before := &attempts[i], now
		s.compile(a)
		now = s.cfg.Now()
		s.charge(a, a.registering+a.Pod.CostAhead+now.Sub(before), now)
		a.Pod.CostAhead = 0
		if next := i + 1; s.budget.over(now.Sub(begin), prepareTime) && next < len(attempts) && !attempts[next].Extenders.Answered() &&
			!continues(attempts[:next], attempts[next].Pod) {
			for i := range attempts[next:] {
				s.batch.behind = append(s.batch.behind, attempts[next+i].Pod)
				attempts[next+i].Trace.Finish(tracing.GivenBack, nil)
			}
			attempts = attempts[:next]
			s.batch.size.cut(next)
			break
		}
	}
	s.metrics.Prepared(len(attempts), now.Sub(begin), func(i int) (string, observe.Prepared) { return attempts[i].prepared() })
	err := s.state.Settle()
	s.chargeSettling(attempts, s.cfg.Now().Sub(now))
	return s.setAside(attempts), err
}

// setAside takes the attempts whose counters are not filled yet out of a batch, and opens the counters of the first.
func (s *Scheduler) setAside(attempts []attempt) []attempt {
	if !s.state.HasPostponed() {
		return attempts
	}
	kept := attempts[:0]
	for i, n := 0, 0; i < len(attempts); i += n {
		n = max(len(gangOf(attempts[i:])), 1)
		if list := attempts[i : i+n]; !s.wait(list) {
			kept = append(kept, list...)
		}
	}
	s.state.ForgetPostponed()
	return kept
}

// wait sets the attempt of a pod, or all of a pod group, aside where the counters of one are not filled yet.
func (s *Scheduler) wait(list []attempt) bool {
	for i := range list {
		a := &list[i]
		if a.failed != nil || !s.waits(a) {
			continue
		}
		for j := range list {
			if j != i {
				s.queue.SetAside(list[j].Pod, queue.ForCounters, a.Class.ID())
				list[j].Trace.Finish(tracing.GivenBack, nil)
			}
		}
		return true
	}
	return false
}

// waits sets an attempt aside where its counters are not filled yet.
func (s *Scheduler) waits(a *attempt) bool {
	waits := s.aside.ForCounters(a.Pod, a.Class)
	if waits {
		a.Trace.Finish(tracing.GivenBack, nil)
	}
	return waits
}

// registerNominated registers the terms of nominated pods, because other pods have to fit beside them. While anything is in
// quarantine, they are registered anew for each batch.
func (s *Scheduler) registerNominated() {
	s.state.RegisterNominated(s.queue.Nominations(), s.guard.Len() > 0, func() {
		for _, node := range s.queue.NominatedNodes() {
			for _, p := range s.queue.Nominated(node) {
				s.guard.RegisterTerms(p.Obj, math.MaxInt)
			}
		}
	})
}

// ask gets answers for the classes of a batch whose held answer does not serve: in one
// round, unless the answers may be too long for one message.
func (s *Scheduler) ask(ctx context.Context, attempts []attempt) error {
	nodes := s.state.Nodes()
	batch := s.answers.Begin(len(attempts))
	if nodes == 0 {
		return nil
	}
	answered, err := s.takeWhatIsAhead(ctx, attempts)
	if err != nil {
		return err
	}
	for i := range attempts {
		if a := &attempts[i]; a.failed == nil && a.Class.Rejected == nil {
			if a.failed = s.guard.WhyNot(a.Class); a.failed == nil {
				batch.Join(a.Class)
			}
		}
	}
	var profiles []string // for each need, the profile of its first pod
	for i := range attempts {
		a := &attempts[i]
		if a.failed != nil || a.Class.Rejected != nil || s.aside.AwaitsSlice(a.Class) {
			continue
		}
		batch.At(i)
		class, need, ok := s.want(batch, a)
		switch profile := a.Pod.Obj.Spec.SchedulerName; {
		case !ok:
			continue
		case need < 0:
			s.metrics.Held(profile)
			a.Trace.Held(class)
			continue
		case need == len(profiles):
			profiles = append(profiles, profile)
		}
		a.Trace.Asks(class)
	}
	s.aside.NoteSteps()
	needs := batch.Needs()
	s.tuning.asked(len(attempts), len(needs)+answered)
	s.batch.size.classes = s.tuning.classes()
	s.batch.size.asked(len(attempts), len(needs)+answered)
	s.ahead.note(len(attempts), len(needs)+answered)
	for from, to := 0, 0; from < len(needs); from = to {
		to = from + 1
		for all := needs[from].Offers(nodes); to < len(needs); to++ {
			if all += needs[to].Offers(nodes); all > roundCandidates {
				break
			}
		}
		if err := s.fetch(s.batch.traces.FanOut(ctx), needs[from:to], profiles[from:to]); err != nil {
			return err
		}
	}
	err = s.askAhead(ctx, len(attempts))
	s.ahead.rest = max(s.ahead.rest-1, 0)
	return err
}

// want asks the engine for an attempt's class: need is what it lacks of the class, less than 0 where it lacks nothing. It is not ok
// where a look at the nodes has failed the attempt, or was stopped: the attempt is set aside then, when it is decided.
func (s *Scheduler) want(batch *answers.Batch, a *attempt) (class uint64, need int, ok bool) {
	s.aside.AllowMore()
	a.failed = s.guard.Look(a.Class, func() {
		q := s.chooser.Question(&a.Try)
		if a.Class.Base != nil && q.Node == "" && !q.Alone { // else the pod uses no shared answer anyway
			q.Nominees = s.nominees.Of(a.Pod.Obj, a.Class, a.Pod.Backfills).ForEngine()
		}
		class, need = batch.Want(q)
	})
	if ok = a.failed == nil; !ok && aside.IsUnfinished(a.failed) {
		a.failed = nil
	}
	return class, need, ok
}

// fetch turns the engine's needs into a fan-out, and gives the engine the answers. A class that can not be evaluated goes into
// quarantine. For the need of a single attempt fetch panics, and the caller's guard does that. profiles has the profile of
// each need's first pod.
func (s *Scheduler) fetch(ctx context.Context, needs []*answers.Need, profiles []string) error {
	requests, claims := make([]fanout.Request, len(needs)), 0
	for _, n := range needs {
		if n.Class.Claims() {
			claims++
		}
	}
	steps := s.aside.StepsFor(claims)
	s.metrics.Ask()
	evaluate := s.evaluate
	if s.tuning.way.Own && claims == 0 { // to search for devices is what workers are for
		evaluate = s.fanout.EvaluateHere
	}
	for i, n := range needs {
		requests[i] = fanout.Request{Class: n.Class, Candidates: n.Candidates, Diagnose: n.Diagnose, Steps: steps,
			Copies: n.Copies, CopyKeys: n.CopyKeys}
		s.metrics.Request(profiles[i], n.Pods)
		if n.Pods == 0 && !n.Here {
			s.metrics.Requeried()
		}
		if n.Here {
			evaluate = s.fanout.EvaluateHere
			s.distrust(ctx, n)
		}
	}
	begun := s.cfg.Now()
	results, err := evaluate(ctx, requests)
	if err != nil {
		return err
	}
	if claims > 0 {
		s.aside.NoteRound(s.cfg.Now().Sub(begun))
	}
	for i, n := range needs {
		switch failed := results[i].Failed; {
		case failed == nil:
			s.answers.Take(n, results[i])
		case n.Alone():
			panic(failed)
		default:
			s.guard.ConfineEvaluated(n.Class.ID(), failed)
		}
	}
	return nil
}

// fetchOne is fetch for one pod.
func (s *Scheduler) fetchOne(ctx context.Context, t *choice.Try, n *answers.Need) error {
	return s.fetch(t.Trace.Again(ctx, n.Class.ID()), []*answers.Need{n}, []string{t.Pod.Obj.Spec.SchedulerName})
}

// distrust has the fan-out suspect the workers whose answers were wrong or did not settle.
func (s *Scheduler) distrust(ctx context.Context, n *answers.Need) {
	if n.Why != nil {
		s.fanout.Blame(ctx, n.Liar, n.Why)
	}
	if n.Doubted == nil {
		return
	}
	// Nothing has changed since the answer, so a part of it is wrong. The workers' next answers are compared with the own
	// tables, to find the worker that answers wrongly.
	klog.FromContext(ctx).Info("What workers have answered does not settle, the own tables answer and the workers' next answers are "+
		"audited",
		"class", n.Class.ID())
	s.metrics.Unsettled()
	s.fanout.Watch(n.Doubted)
}

// giveBack returns pods to the queue that were popped but not decided. They keep their places.
func (s *Scheduler) giveBack(ctx context.Context, attempts []attempt, err error) {
	if ctx.Err() == nil && err != nil {
		s.fail(err)
	}
	for i := range attempts {
		if attempts[i].Pod.Group != nil {
			s.parking.unpark(attempts[i : i+1])
		}
		s.queue.GiveBack(attempts[i].Pod)
		attempts[i].Trace.Finish(tracing.GivenBack, err)
	}
}

var _ fanout.Shards = (*state.State)(nil)
