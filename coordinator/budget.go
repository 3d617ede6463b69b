package coordinator

import (
	"time"

	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/queue"
)

const (
	// prepareTime is for how long a turn prepares pods. Those that are left keep their places for the next turn.
	prepareTime = 10 * time.Millisecond
	// decideTime is likewise for deciding them, once the workers have answered.
	decideTime = 20 * time.Millisecond
	// tellCostlyEvery is how often the log is told of a costly pod at the most.
	tellCostlyEvery = time.Minute
)

// budget measures what it costs to prepare attempts.
type budget struct {
	// free says that cost has no consequences, as where a run is not to depend on how long it takes.
	free bool
	told time.Time // when the log was told of a costly pod last
}

// over tells whether a part of a turn has taken its time.
func (b *budget) over(took, most time.Duration) bool { return !b.free && took > most }

// cut gives the attempts of a batch from one on back to the queue, and has the next batch be as short.
func (s *Scheduler) cut(attempts []attempt, from int) {
	s.giveBack(s.life, attempts[from:], nil)
	s.size.cut(from)
}

// charge takes note of what an attempt's preparation has cost.
func (s *Scheduler) charge(a *attempt, cost time.Duration, now time.Time) {
	s.metrics.Compiled(cost)
	if s.budget.free {
		return
	}
	if a.pod.Cost = cost; cost <= queue.Costly || now.Sub(s.budget.told) < tellCostlyEvery {
		return
	}
	s.budget.told = now
	klog.FromContext(s.life).Info("A pod is costly to prepare: it waits behind the others when it is tried again", "pod", klog.KObj(a.pod.Obj), "took", cost)
}

// chargeSettling takes note of what it took to fill the counters that a batch has brought, where that is much: it is
// the cost of the attempt that reads the most of them.
func (s *Scheduler) chargeSettling(attempts []attempt, took time.Duration) {
	if !s.budget.over(took, queue.Costly) || len(attempts) == 0 {
		return
	}
	most, n := &attempts[0], -1
	for i := range attempts {
		if c := attempts[i].class; c != nil && c.Scorer != nil && len(c.Scorer.Counters()) > n {
			most, n = &attempts[i], len(c.Scorer.Counters())
		}
	}
	most.pod.Cost += took
}

// chargeDryRun takes note of what it took to find whom an attempt's pod could preempt, where that is much. Who finds a dry
// run that another has made is not charged for it.
func (s *Scheduler) chargeDryRun(a *attempt, begun time.Time) {
	if took := s.cfg.Now().Sub(begun); s.budget.over(took, queue.Costly) {
		a.pod.Cost += took
	}
}
