package coordinator

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/queue"
)

// Where SchedulerConfig.GangReservation is set, room is held for one gang: the first in the queue's order that can't start. Its members
// that fit are nominated to their nodes, so that pods of its priority and below leave the room alone that they would take; all others
// may fill what is left. It goes before pods of its priority where more room becomes free, and so it gains room until it starts. That ends
// once it has started, is gone, gated or given up, or the next gang that fails is of higher priority.
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

// reviewHold gives the room to others that is held for a pod group which does not wait for room any more. It is called with each turn.
func (s *Scheduler) reviewHold() {
	if s.holder == (types.NamespacedName{}) {
		return
	}
	g, x := s.queue.GroupOf(s.holder), s.groups.Get(s.holder)
	waits := g != nil && slices.ContainsFunc(g.Pods(), func(p *queue.Pod) bool { return p.Place() != queue.Gated })
	if waits && x != nil && x.Spec() != nil && x.Scheduled() < x.Spec().MinCount {
		return
	}
	if g != nil {
		s.letGo(g)
	}
	s.holder = types.NamespacedName{}
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
