package coordinator

import (
	"time"

	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/queue"
)

const (
	// prepareTime is how long a turn prepares pods: events and reads wait for the turn's end. The pods that are left keep
	// their places in the queue for the next turn.
	prepareTime = 10 * time.Millisecond
	// decideTime is how long a turn decides pods, once the workers have answered, for the same reason. The pods that are left
	// have to be prepared again.
	decideTime = 20 * time.Millisecond
	// tellCostlyEvery is the shortest time between two log lines about costly pods: whoever creates such pods must not fill
	// the log.
	tellCostlyEvery = time.Minute
)

// budget bounds the time that a turn may take.
type budget struct {
	// free says that time has no consequences: the decisions of a simulation must not depend on it.
	free bool
	told time.Time // when the log was last told of a costly pod
}

// over tells whether a part of a turn has used up its time.
func (b *budget) over(took, most time.Duration) bool { return !b.free && took > most }

// cut gives the attempts of a batch back to the queue, from one index on, and makes the next batch as short.
func (s *Scheduler) cut(attempts []attempt, from int) {
	s.giveBack(s.life, attempts[from:], nil)
	s.batch.size.cut(from)
}

// charge notes the cost of an attempt's preparation.
func (s *Scheduler) charge(a *attempt, cost time.Duration, now time.Time) {
	s.metrics.Compiled(cost)
	if s.budget.free {
		return
	}
	if a.Pod.Cost = cost; cost <= queue.Costly || now.Sub(s.budget.told) < tellCostlyEvery {
		return
	}
	s.budget.told = now
	klog.FromContext(s.life).Info("A pod is costly to prepare: it waits behind the others when it is tried again",
		"pod", klog.KObj(a.Pod.Obj), "took", cost)
}

// chargeSettling notes how long it took to fill the counters that a batch has brought, where that is long. The attempt that
// reads the most counters is charged.
func (s *Scheduler) chargeSettling(attempts []attempt, took time.Duration) {
	if !s.budget.over(took, queue.Costly) || len(attempts) == 0 {
		return
	}
	most, n := &attempts[0], -1
	for i := range attempts {
		if c := attempts[i].Class; c != nil && c.Scorer != nil && len(c.Scorer.Counters()) > n {
			most, n = &attempts[i], len(c.Scorer.Counters())
		}
	}
	most.Pod.Cost += took
}

// chargeDryRun notes how long it took to find victims for a pod, where that is long. A pod that uses the dry run of another pod is
// not charged.
func (s *Scheduler) chargeDryRun(p *queue.Pod, took time.Duration) {
	if s.budget.over(took, queue.Costly) {
		p.Cost += took
	}
}
