package coordinator

import (
	"time"

	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/tracing"
)

// What a class counts of other pods is filled before its pods are decided (package state). Pods whose counters are not filled
// yet are set aside in the queue.

const (
	// fillTime is how long a turn fills counters at the most.
	fillTime = 5 * time.Millisecond
	// fillRest is how long the next turns fill nothing, as a multiple of the time that filling has just taken: pods that
	// wait for no counter must find the loop idle most of the time.
	fillRest = 3
)

// fillSome goes on filling and dropping counters, unless filling rests.
func (s *Scheduler) fillSome() {
	if s.restsFilling() > 0 {
		return
	}
	begun := s.cfg.Now()
	took := func() time.Duration { return s.cfg.Now().Sub(begun) }
	if err := s.state.FillSome(func() bool { return s.budget.over(took(), fillTime) }); err != nil {
		s.fail(err)
	}
	if took := took(); s.budget.over(took, fillTime/4) {
		s.budget.fillAt = begun.Add(took + fillRest*took)
	}
}

// restsFilling is how long filling still rests.
func (s *Scheduler) restsFilling() time.Duration { return max(s.budget.fillAt.Sub(s.cfg.Now()), 0) }

// restsCounting is how long the loop may wait for other work: 0 where pods that were set aside for counters may be popped.
func (s *Scheduler) restsCounting() time.Duration {
	if s.state.HasFilled() || !s.state.IsOpen() && s.queue.Aside(queue.ForCounters) > 0 {
		return 0
	}
	return s.restsFilling()
}

// setAside takes the attempts whose counters are not filled yet out of a batch, and opens the counters of the first.
func (s *Scheduler) setAside(attempts []attempt) []attempt {
	if !s.state.HasPostponed() {
		return attempts
	}
	kept := attempts[:0]
	for i := range attempts {
		if a := &attempts[i]; a.failed != nil || !s.waits(a) {
			kept = append(kept, *a)
		}
	}
	s.state.ForgetPostponed()
	return kept
}

// waits sets an attempt aside where its counters are not filled yet.
func (s *Scheduler) waits(a *attempt) bool {
	if !s.state.Awaits(a.Class) {
		return false
	}
	if s.batch.aside && !s.batch.slice || s.queue.Aside(queue.ForCounters) == 0 { // else other classes have waited longer
		s.state.Open(a.Class)
	}
	s.queue.SetAside(a.Pod, queue.ForCounters, a.Class.ID())
	a.Trace.Finish(tracing.GivenBack, nil)
	return true
}

// popAside pops pods that were set aside for counters: those of the class whose counters are filled by now, or of the class whose counters
// are to be filled next.
func (s *Scheduler) popAside() []*queue.Pod {
	if s.state.IsOpen() {
		return nil
	}
	class := s.state.TakeFilled()
	if class == 0 {
		class = s.queue.AsideFor(queue.ForCounters)
	}
	if class == 0 {
		return nil
	}
	return s.queue.PopAside(queue.ForCounters, class, s.batch.size.next(), s.batch.popped[:0])
}

// isCounting tells whether the loop has counters to go on with though no event comes.
func (s *Scheduler) isCounting() bool {
	return s.state.IsCounting() || s.queue.Aside(queue.ForCounters) > 0
}
