package coordinator

import (
	"context"
	"fmt"

	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/journal"
	"github.com/shardsched/shardsched/coordinator/queue"
)

// A pod group is decided as one transaction: a try holds rows for its members, one after the other in the queue's order, each as if
// those before were there. Then the verdict falls, and only then anybody else sees anything of it:
//
//	attempts ── tryGang ──> outcome ──┬─ enough members fit ──> commitGang: they are placed, in order
//	              ^  │                └─ too few, or an error ─> undo, failGang: all go back to the queue
//	              └──┘ undo, and another try: within another domain, with pods removed
//
// A try that is undone leaves no trace: rows, counters, volumes, devices and the columns of the tie rule are what they were, for
// workers too. So a gang that does not fit changes no later decision.
//
// Differs from upstream: pods are preempted only once it is known that the gang fits then. Upstream's per-member preemption
// evicts before the verdict, for gangs that then don't fit.

// Upstream's sentences for members and PodGroups.
const (
	unschedulableGroup = "pod group is unschedulable"
	preemptingGroup    = unschedulableGroup + ", pod group is waiting for preemption to complete"
	quorumMissed       = unschedulableGroup + ", waiting for minCount pods from a gang to be scheduled, one or more plugins asked to wait " +
		"and no plugin rejected pod"
	otherPodFailed = "failed to schedule other pod from a pod group: %w"
)

// gangOf are the first attempts that are of one pod group; none: the first is of no pod group.
func gangOf(attempts []attempt) []attempt {
	first := attempts[0].Pod.Group
	if first == nil {
		return nil
	}
	n := 1
	for n < len(attempts) && attempts[n].Pod.Group == first {
		n++
	}
	return attempts[:n]
}

// continues tells whether a pod is of the pod group of the last attempt.
func continues(attempts []attempt, p *queue.Pod) bool {
	return p.Group != nil && len(attempts) > 0 && attempts[len(attempts)-1].Pod.Group == p.Group
}

// decideNext decides the first attempt, or all of its pod group. It is false where the loop has to end, or the batch: then none of
// them is decided.
func (s *Scheduler) decideNext(ctx context.Context, attempts []attempt) (decided int, goOn bool) {
	if gang := gangOf(attempts); gang != nil {
		for i := range gang[1:] {
			s.queue.Rejoin(gang[i+1].Pod) // as Turn for the first: what happened before is not held against the attempt
		}
		return len(gang), s.decideGang(ctx, gang)
	}
	return 1, s.decide(ctx, &attempts[0])
}

// decideGang decides the attempts of one pod group.
func (s *Scheduler) decideGang(ctx context.Context, attempts []attempt) bool {
	g, begun := s.groups.Of(attempts[0].Pod.Obj), s.cfg.Now()
	span := beginGangSpan(g, attempts)
	o := s.keepPromise(ctx, g, attempts)
	if o == nil {
		o = s.placeGang(ctx, g, attempts)
	}
	switch {
	case o.broken != nil:
		o.undo(ctx)
		return s.broken(ctx, o.broken)
	case o.invalid:
		o.undo(ctx)
		return false
	case o.aside != nil:
		o.undo(ctx)
		s.parking.unpark(attempts)
		o.aside(attempts)
		return true
	case o.err == nil && o.parks():
		o.undo(ctx)
		s.parkGang(o)
		return true
	}
	if o.code != gangFits {
		o.undo(ctx)
		if o = s.makeRoom(ctx, o, attempts); o.aside != nil {
			s.parking.unpark(attempts)
			o.aside(attempts)
			return true
		}
	}
	s.commit()
	s.endSimulation(o)
	s.parking.unpark(attempts)
	s.endGangSpan(span, o)
	earlier := s.promises.end(s.queue, g.Name())
	if o.code != gangFits {
		s.failGang(ctx, o)
		s.gangs.Delete(earlier...)
	} else if !s.commitGang(ctx, o, earlier) {
		return false
	}
	s.tellGang(o)
	s.metrics.PodGroup(o.result(), attempts[0].Pod.Obj.Spec.SchedulerName, s.cfg.Now().Sub(begun))
	return s.err == nil
}

// placeGang is the outcome of the tries that a pod group gets.
func (s *Scheduler) placeGang(ctx context.Context, g *groups.Group, attempts []attempt) *gangOutcome {
	if err := refusedGang(g, attempts); err != nil {
		o := s.newOutcome(g, attempts)
		o.err, o.code = err, gangFailed
		return o
	}
	if s.cfg.Groups.Topology {
		return s.placeInTopology(ctx, g, attempts)
	}
	return s.tryGang(ctx, g, attempts, asked)
}

// refusedGang is why a pod group is not tried at all; nil: it is.
func refusedGang(g *groups.Group, attempts []attempt) error {
	if len(attempts) > groups.MaxMembers {
		return fmt.Errorf("pod group %s has %d pods to be scheduled together, at most %d can be", g.Name(), len(attempts), groups.MaxMembers)
	}
	if err := g.Err(); err != nil {
		return fmt.Errorf("pod group %s: %w", g.Name(), err)
	}
	name := attempts[0].Pod.Obj.Spec.SchedulerName
	for i := range attempts {
		if other := attempts[i].Pod.Obj.Spec.SchedulerName; other != name {
			return fmt.Errorf("all pods in a single pod group should have the same .spec.schedulerName set, got: %q and %q", name, other)
		}
	}
	return nil
}

// commitGang places the members that fit, in order, and sends the others back. It is false where the loop has to end. earlier are commits
// of the pod group by earlier leaders.
func (s *Scheduler) commitGang(ctx context.Context, o *gangOutcome, earlier []*journal.Commit) bool {
	from := len(s.binds.ready)
	for i := range o.members {
		m := &o.members[i]
		if !m.fits() {
			s.failMember(ctx, m, m.own())
		} else if !s.settle(ctx, m.attempt, m.decision, &m.holding) {
			return false
		}
	}
	s.keepCommit(o, from, earlier)
	if o.fit < len(o.members) {
		left := s.queue.GroupOf(o.group.Name())
		s.queue.GroupFailed(left, 0, 0)
		if s.cfg.Groups.Preemption {
			s.queue.RetryGroup(left) // who has to leave for them is found where none of them fits, and no event tells that
		}
	}
	s.helpMembers(o)
	if o.group.Name() == s.reservation.holder {
		s.reviewHold()
	}
	return true
}
