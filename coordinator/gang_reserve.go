package coordinator

import (
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/queue"
)

// Where SchedulerConfig.GangReservation is set, room is held for one gang: the first in the queue's order that can't start. Its members
// that fit are nominated to their nodes, so that pods of its priority and below leave the room alone that they would take; all others
// may fill what is left. It goes before pods of its priority where more room becomes free, and so it gains room until it starts. The next
// gang that fails takes its place once it has started, is gone, gated or given up, or fails against one of higher priority.
//
// Differs from upstream: no room is held there, and a big gang waits for as long as small pods keep coming.

// holdsFor tells whether the room that an attempt has found stays held for the pod group, which was too little for it.
func (s *Scheduler) holdsFor(o *gangOutcome) bool {
	g, spec := o.members[0].Pod.Group, o.group.Spec()
	if !s.cfg.GangReservation || o.code != gangShort || g == nil || spec == nil || !spec.Gang || o.group.Scheduled() >= spec.MinCount {
		return false
	}
	holder := s.queue.GroupOf(s.holder)
	if holder == g {
		return true
	}
	if holder != nil {
		if lead := s.queue.Lead(holder); lead != nil && s.queue.Before(lead, s.queue.Lead(g)) {
			return false
		}
		s.letGo(holder)
	}
	s.holder = g.Name()
	s.queue.Favour(g, true)
	return true
}

// letGo gives the room that is held for a pod group to others.
func (s *Scheduler) letGo(g *queue.Group) {
	s.queue.Favour(g, false)
	for _, p := range g.Pods() {
		if node := p.NominatedNode; node != "" {
			s.queue.Nominate(p, "")
			s.move(queue.AssignedPodDeleted(withNode(p.Obj, node)))
		}
	}
}

// reserved is the room that is held for a pod group; nil: none is.
func (s *Scheduler) reserved() *observe.HeldRoom {
	g := s.queue.GroupOf(s.holder)
	if g == nil {
		return nil
	}
	x := &observe.HeldRoom{PodGroup: g.Name(), Nodes: map[string]int{}}
	for _, p := range g.Pods() {
		if p.NominatedNode != "" {
			x.Nodes[p.NominatedNode]++
			x.Priority = max(x.Priority, p.Priority)
		}
	}
	return x
}
