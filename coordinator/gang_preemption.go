package coordinator

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/preempt"
	"github.com/shardsched/shardsched/coordinator/rules"
)

// Workload-aware preemption: a pod group of which too few members fit gets room as one. Package preempt finds who has to leave, and
// where members go then; nobody leaves before the verdict:
//
//	gangShort ── makeRoom ──┬─ refused: why is added to the PodGroup's sentence
//	                        └─ gangPreempting: as many members as have to fit are nominated ──> failGang ──> makeWay, once
//	             victims are told to leave; members are gated until then, and hold the room as nominated pods until they are placed
//
// Differs from upstream: upstream nominates those members only that fit before anybody leaves, to where they fit then. The others' room
// is nobody's, so whoever comes first takes it, and the pods have left for nothing.

// makeRoom finds who has to leave for a pod group that does not fit, whose members hold nothing any more. It returns the outcome to
// go by, of which nothing is held either.
func (s *Scheduler) makeRoom(ctx context.Context, o *gangOutcome, attempts []attempt) *gangOutcome {
	if o.code != gangShort || !s.cfg.Groups.Preemption || len(o.members) == 0 || o.victimsAreLeaving() {
		return o
	}
	first := o.members[0].attempt
	g := preempt.Gang{
		Group: o.group, Need: o.need, Topology: s.cfg.TopologyPreemption,
		Registered: slices.Contains(first.Profile.PostFilters(), rules.DefaultPreemption),
	}
	for i := range o.members {
		m := &o.members[i]
		s.queue.Reserved(m.Pod)
		defer s.queue.Unreserved(m.Pod)
		g.Members = append(g.Members, preempt.GangMember{Pod: m.Pod.Obj, Class: m.Class, Reviewed: m.Extenders != nil || m.Plugins != nil})
	}
	if g.Refused() == "" && s.aside.GangsRest() > 0 {
		o.aside = s.awaitGangs
		return o
	}
	begun := s.cfg.Now()
	defer s.aside.NoteGang(begun)
	var plan preempt.GangPlan
	if o.err = s.guard.Look(first.Class, func() { plan = s.preempt.Gang(&g) }); o.err != nil {
		o.code = gangFailed
		return o
	}
	s.chargeDryRun(first.Pod, s.cfg.Now().Sub(begun))
	switch {
	case plan.Alone:
		return s.makeRoomAlone(ctx, o, attempts)
	case plan.Refused != "":
		o.refused = plan.Refused
	default:
		o.code, o.room = gangPreempting, &plan
	}
	return o
}

// makeRoomAlone has each member find the pods that have to leave for it, with the PodGroup's priority, for a pod group whose members
// need more than their requests tell. That nobody leaves before the verdict holds as well.
//
// Differs from upstream: upstream places the members anew for each pod that may come back.
func (s *Scheduler) makeRoomAlone(ctx context.Context, short *gangOutcome, attempts []attempt) *gangOutcome {
	o := s.tryGang(ctx, short.group, attempts, askedAlone)
	o.undo(ctx)
	switch {
	case o.broken != nil:
		s.broken(ctx, o.broken)
	case o.code == gangPreempting && !o.invalid && o.aside == nil && !o.parks():
		return o
	}
	short.refused = preempt.StillShort
	return short
}

// victimsAreLeaving tells whether pods are still leaving nodes that members are nominated to.
func (o *gangOutcome) victimsAreLeaving() bool {
	seen := map[string]bool{"": true}
	for i := range o.members {
		node := o.members[i].Pod.Nomination()
		if seen[node] {
			continue
		}
		if seen[node] = true; o.s.preempt.AwaitsVictims(node) {
			return true
		}
	}
	return false
}

// nominated is how a member goes back to the queue while pods leave for all: upstream's texts.
func (o *gangOutcome) nominated(i int) leaving {
	m := &o.members[i]
	nominating := &objects.Nominating{Node: o.room.Nodes[i]}
	if m.fits() {
		return leaving{message: unschedulableGroup, by: byGang, nominating: nominating}
	}
	m.help.Nominating = nominating
	return m.own()
}

// gateAll has members wait until the pods are told that have to leave for all of them.
func (s *Scheduler) gateAll(o *gangOutcome) {
	if o.room == nil || len(o.room.Victims) == 0 || s.cfg.SyncPreemption {
		return
	}
	for i := range o.members {
		s.preemptions.gated[o.members[i].Pod.Obj.UID] = struct{}{}
	}
}

// makeWay has the pods leave that have to for a pod group. Its members are back in the queue, and nominated.
func (s *Scheduler) makeWay(o *gangOutcome) {
	if o.room == nil {
		return
	}
	uids := make([]types.UID, len(o.members))
	for i := range o.members {
		uids[i] = o.members[i].Pod.Obj.UID
	}
	e := objects.Eviction{Preemptor: o.members[0].Pod.Obj, Node: objects.EveryNode, PodGroup: o.group.Spec().Object}
	s.evict(&e, o.room.Victims, nil, func(err error, begun time.Time) {
		s.told(uids[0], err, begun)
		for _, uid := range uids {
			s.ungate(uid, err)
		}
	})
}
