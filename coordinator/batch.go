package coordinator

import (
	"context"
	"math"

	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/tracing"
)

// noNodes is upstream's message where the cluster has no node at all.
const noNodes = "no nodes available to schedule pods"

// roundCandidates is how many candidates the answers of one round may name: as many as fit in
// a message.
const roundCandidates = 1 << 17

// prepared is how the preparation of an attempt has ended, for the metrics.
func (a *attempt) prepared() (profile string, how observe.Prepared) {
	switch {
	case a.failed != nil:
		how = observe.Broken
	case a.class.Rejected != nil:
		how = observe.Rejected
	}
	return a.pod.Obj.Spec.SchedulerName, how
}

// schedule decides a batch, pod by pod in queue order.
func (s *Scheduler) schedule(ctx context.Context, pods []*queue.Pod) { s.scheduleAll(ctx, pods, nil) }

// scheduleAll decides attempts that have their answers, and then a batch.
func (s *Scheduler) scheduleAll(ctx context.Context, pods []*queue.Pod, resumed []*attempt) {
	s.answers.SetDeciding(true)
	defer s.answers.SetDeciding(false)
	now := s.cfg.Now()
	s.popTime = now
	s.metrics.Begin(now)
	s.tracing = s.cfg.Tracer.Begin(len(pods) + len(resumed))
	attempts, err := s.prepareAll(pods, resumed...)
	defer s.leaveBehind()
	if err == nil {
		err = s.ask(ctx, attempts)
	}
	if err != nil {
		s.giveBack(ctx, attempts, err)
		return
	}
	begun := s.cfg.Now()
	for i := range attempts {
		// A pod that an event has brought before this one is to be decided first: the rest
		// of the batch waits for that.
		a := &attempts[i]
		if !a.extenders.Answered() && !s.queue.Turn(a.pod) || !s.decide(ctx, a) {
			s.giveBack(ctx, attempts[i:], nil)
			break
		}
		if s.size.invalid {
			s.giveBack(ctx, attempts[i+1:], nil)
			break
		}
		if next := i + 1; s.budget.over(s.cfg.Now().Sub(begun), decideTime) && next < len(attempts) && !attempts[next].extenders.Answered() {
			s.cut(attempts, next)
			break
		}
	}
	s.size.end()
	s.dispatch()
	s.metrics.Batch(len(attempts), s.cfg.Now().Sub(now), s.answers.Work())
	s.metrics.Sizes(s.queue, s.cache.Cache, s.cycles.UnderWay(), s.journal.lag())
}

// leaveBehind gives back the pods that were popped and are not of the batch any more, once it is decided.
func (s *Scheduler) leaveBehind() {
	for _, p := range s.behind {
		s.queue.GiveBack(p)
	}
	s.behind = s.behind[:0]
}

// prepareAll compiles the pods of a batch. Their affinity terms are made known first: one
// that is placed may repel another behind it, as may one that is nominated. A pod with more of them than
// a batch may bring is the last of its batch.
func (s *Scheduler) prepareAll(pods []*queue.Pod, resumed ...*attempt) ([]attempt, error) {
	s.batches++
	s.nominees.NextBatch()
	attempts := make([]attempt, 0, len(pods)+len(resumed))
	endObserving := s.cache.beginObserving()
	full := func() bool { return len(attempts) > 0 && attempts[len(attempts)-1].last }
	for i, r := range resumed {
		if full() {
			s.resumed = append(s.resumed, resumed[i:]...)
			break
		}
		if a, ok := s.readmit(r); ok {
			attempts = append(attempts, a)
		}
	}
	for _, p := range pods {
		if full() {
			s.behind = append(s.behind, p)
		} else if a, ok := s.admit(p); ok {
			attempts = append(attempts, a)
		}
	}
	s.observeNominated()
	endObserving()
	begin := s.cfg.Now()
	now := begin
	for i := range attempts {
		a, before := &attempts[i], now
		s.compile(a)
		now = s.cfg.Now()
		s.charge(a, a.observing+now.Sub(before), now)
		if next := i + 1; s.budget.over(now.Sub(begin), prepareTime) && next < len(attempts) && !attempts[next].extenders.Answered() {
			for i := range attempts[next:] {
				s.behind = append(s.behind, attempts[next+i].pod)
				attempts[next+i].trace.Finish(tracing.GivenBack, nil)
			}
			attempts = attempts[:next]
			s.size.cut(next)
			break
		}
	}
	s.metrics.Prepared(len(attempts), now.Sub(begin), func(i int) (string, observe.Prepared) { return attempts[i].prepared() })
	err := s.cache.settle()
	s.chargeSettling(attempts, s.cfg.Now().Sub(now))
	return s.setAside(attempts), err
}

// observeNominated makes known what the pods carry that others have to find room beside. It holds until nominations or
// what is known of volumes change; what is in quarantine does not.
func (s *Scheduler) observeNominated() {
	w := s.cache
	if w.nominations == s.queue.Nominations() && w.storage == w.volumes.Version() && len(s.quarantine) == 0 {
		return
	}
	others, before := w.observed, w.nominated
	w.observed = nil
	for _, node := range s.queue.NominatedNodes() {
		for _, p := range s.queue.Nominated(node) {
			s.observe(p.Obj, math.MaxInt)
		}
	}
	w.nominated, w.observed = w.observed, others
	w.nominations, w.storage = s.queue.Nominations(), w.volumes.Version()
	if len(s.quarantine) > 0 {
		w.nominations = 0
	}
	for _, c := range before {
		w.counters.Release(c)
	}
}

// ask gets answers for the classes of a batch, but for those whose answer still serves: in one
// round, unless the answers may be too long for that.
func (s *Scheduler) ask(ctx context.Context, attempts []attempt) error {
	nodes := s.cache.Nodes()
	batch := s.answers.Begin(len(attempts))
	if nodes == 0 {
		return nil
	}
	for i := range attempts {
		if a := &attempts[i]; a.failed == nil && a.class.Rejected == nil {
			if a.failed = s.quarantined(a.class); a.failed == nil {
				batch.Join(a.class)
			}
		}
	}
	var profiles []string // of the needs' first pods
	for i := range attempts {
		a := &attempts[i]
		if a.failed != nil || a.class.Rejected != nil {
			continue
		}
		var class uint64
		var need int
		if a.failed = s.looking(a.class, func() {
			q := s.question(a)
			if a.class.Base != nil && q.Node == "" && !q.Alone { // else the pod shares no answer in any case
				q.Nominees = s.nominees.Of(a.pod.Obj, a.class).ForEngine()
			}
			class, need = batch.Want(q)
		}); a.failed != nil {
			continue
		}
		if need < 0 {
			s.metrics.Held(a.pod.Obj.Spec.SchedulerName)
			a.trace.Held(class)
			continue
		}
		if need == len(profiles) {
			profiles = append(profiles, a.pod.Obj.Spec.SchedulerName)
		}
		a.trace.Asks(class)
	}
	needs := batch.Needs()
	s.size.asked(len(attempts), len(needs))
	for from, to := 0, 0; from < len(needs); from = to {
		to = from + 1
		for all := needs[from].Offers(nodes); to < len(needs); to++ {
			if all += needs[to].Offers(nodes); all > roundCandidates {
				break
			}
		}
		if err := s.fetch(s.tracing.FanOut(ctx), needs[from:to], profiles[from:to]); err != nil {
			return err
		}
	}
	return nil
}

// fetch turns what the engine needs into a fan-out, and hands the answers over. A class that can not be evaluated goes into
// quarantine: where it is the only one that is asked for, by a panic. profiles are those of the pods that wait.
func (s *Scheduler) fetch(ctx context.Context, needs []*answers.Need, profiles []string) error {
	requests := make([]fanout.Request, len(needs))
	s.metrics.Ask()
	evaluate := s.evaluate
	for i, n := range needs {
		requests[i] = fanout.Request{Class: n.Class, Candidates: n.Candidates, Diagnose: n.Diagnose}
		s.metrics.Request(profiles[i], n.Pods)
		if n.Pods == 0 && !n.Here {
			s.metrics.Requeried()
		}
		if n.Here {
			evaluate = s.fanout.EvaluateHere
			s.distrust(ctx, n)
		}
	}
	results, err := evaluate(ctx, requests)
	if err != nil {
		return err
	}
	for i, n := range needs {
		switch failed := results[i].Failed; {
		case failed == nil:
			s.answers.Take(n, results[i])
		case n.Alone():
			panic(failed)
		default:
			s.confine(suspect{class: n.Class.ID()}, whileEvaluating, failed)
		}
	}
	return nil
}

// fetchOne is fetch for one pod.
func (s *Scheduler) fetchOne(ctx context.Context, a *attempt, n *answers.Need) error {
	return s.fetch(a.trace.Again(ctx, n.Class.ID()), []*answers.Need{n}, []string{a.pod.Obj.Spec.SchedulerName})
}

// distrust has the workers suspected on whose answers the own tables have to answer.
func (s *Scheduler) distrust(ctx context.Context, n *answers.Need) {
	if n.Why != nil {
		s.fanout.Blame(ctx, n.Liar, n.Why)
	}
	if n.Doubted == nil {
		return
	}
	// The answer is of this very moment, so it can not be right. Who has said what of it is found by holding the workers' next
	// answers against the own tables.
	klog.FromContext(ctx).Info("What workers have answered does not settle, the own tables answer and the workers' next answers are audited",
		"class", n.Class.ID())
	s.metrics.Unsettled()
	s.fanout.Watch(n.Doubted)
}

// giveBack returns pods that were popped but not decided. They keep their place.
func (s *Scheduler) giveBack(ctx context.Context, attempts []attempt, err error) {
	if ctx.Err() == nil && err != nil {
		s.fail(err)
	}
	for i := range attempts {
		s.queue.GiveBack(attempts[i].pod)
		attempts[i].trace.Finish(tracing.GivenBack, err)
	}
}

var _ fanout.Shards = (*state)(nil)
