package coordinator

import (
	"fmt"

	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/queue"
)

// gaveUp takes in that a pod group is given up: the numbers of its verdict stay as the last attempt has found them.
func (s *Scheduler) gaveUp(g *queue.Group) {
	x := s.groups.Get(g.Name())
	v := groups.Verdict{Exist: x.Existing(), Scheduled: x.Scheduled()}
	if last := x.Verdict(); last != nil {
		v = *last
	}
	giveUp(&v, x.Spec())
	v.Follow(x.Verdict(), s.cfg.Now())
	x.SetVerdict(&v)
}

// giveUp makes a verdict that of a pod group which is given up.
func giveUp(v *groups.Verdict, spec *groups.Spec) {
	v.State, v.Base = groups.GivenUp, fmt.Sprintf("pod group is given up after %v", spec.Asks.GiveUpAfter)
	v.Waits = "a new member, or a change of its PodGroup"
	if after := spec.Asks.RetryAfter; after > 0 {
		v.Waits = fmt.Sprintf("its next try, after %v", after)
	}
}
