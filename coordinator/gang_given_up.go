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
	v.State, v.Base, v.Waits = groups.GivenUp, "", "a new member, or a change of its PodGroup"
	if after := x.Spec().Asks.RetryAfter; after > 0 {
		v.Waits = fmt.Sprintf("its next try, after %v", after)
	}
	v.Follow(x.Verdict(), s.cfg.Now())
	x.SetVerdict(&v)
}
