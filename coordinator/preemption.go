package coordinator

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/choice"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/rules"
)

// The life of a preemption:
//
//	decide ── no node ──> PostFilter plugins, in the profile's order (package choice)
//	                        │  DefaultPreemption: may the pod preempt? ──> the best candidate (package preempt)
//	                        v
//	      gate       the preemptor waits, whatever happens, until the victims are told
//	      refuse     the decision is recorded, and the pod goes back to the queue: nominated to the node, or to none
//	      carryOut
//	        ├─ clearLower: pods of lower priority lose their nominations to the node
//	        ├─ victims that are only assumed on the node are called off: nothing is written
//	        └─ the others: Evictor, behind the loop ──────> evicted: on success the preemptor may be tried,
//	           (simulate: deleteVictims, at once)                    after an error it is tried at once

// preemptions are those that are being carried out.
type preemptions struct {
	// gated are the pods whose victims are being told to leave.
	gated map[types.UID]struct{}
	// underWay is how many there are.
	underWay int
	// whyLeaving is why victims have to leave.
	whyLeaving map[types.UID]string
	// log is told of those that are carried out. It may be told by any goroutine.
	log observe.PreemptionLog
}

// Evictor carries preemptions out. It is called on the loop's goroutine and must not block.
type Evictor interface {
	// Evict clears the nominations of e.Lower, then has the victims leave: each gets its
	// condition, is deleted and gets its event; all but the last together, the last one when they
	// are through. A victim that is gone is no error. done is called once, from any goroutine,
	// when all is written or something failed; what is left then is not begun. When ctx ends, so
	// does the eviction, with an error.
	Evict(ctx context.Context, e objects.Eviction, done func(error))
}

// gate has a preemptor wait until its victims are told to leave, should anything move it before.
func (s *Scheduler) gate(a *attempt, x *choice.Help) {
	if len(x.Victims) > 0 && !s.cfg.SyncPreemption {
		s.preemptions.gated[a.Pod.Obj.UID] = struct{}{}
	}
}

// carryOut has the victims leave. The preemptor is back in the queue, and nominated.
func (s *Scheduler) carryOut(a *attempt, x *choice.Help, mates map[*queue.Pod]bool) {
	if len(x.Victims) == 0 {
		return
	}
	e, uid := objects.Eviction{Preemptor: a.Pod.Obj, Node: x.Nominating.Node}, a.Pod.Obj.UID
	s.evict(&e, x.Victims, func() []*v1.Pod { return s.clearLower(a.Pod, e.Node, mates) }, func(err error, begun time.Time) {
		s.told(uid, err, begun)
		s.ungate(uid, err)
	})
}

// evict has victims leave. lower finds the pods that lose their nominations for that; nil: none do. told is called once all are told,
// or something failed; begun is zero where nobody had to be told.
func (s *Scheduler) evict(e *objects.Eviction, victims []*v1.Pod, lower func() []*v1.Pod, told func(err error, begun time.Time)) {
	leaving := slices.Clone(victims)
	if s.cfg.Evictor != nil {
		leaving = slices.DeleteFunc(leaving, func(v *v1.Pod) bool { return v.DeletionTimestamp != nil })
	}
	if s.cfg.WholeGangs {
		// Several preemptors may get room from one pod group.
		leaving = slices.DeleteFunc(leaving, s.hasToldWhole)
		s.groups.Leave(leaving, true)
	}
	if len(leaving) == 0 {
		delete(s.preemptions.gated, e.Preemptor.UID)
		return
	}
	s.metrics.Victims(len(victims))
	if lower != nil {
		e.Lower = lower()
	}
	for _, v := range leaving {
		s.explainVictim(v, e)
		_, _, assumed := s.state.Pod(v.UID)
		if assumed && s.callOff(v.UID, rules.DefaultPreemption) {
			s.cfg.Reporter.Preempted(v, e)
			continue
		}
		e.Victims = append(e.Victims, v)
	}
	s.metrics.Preempted(len(e.Victims))
	switch {
	case len(e.Victims) == 0 && len(e.Lower) == 0:
		told(nil, time.Time{})
	case s.cfg.Evictor == nil:
		s.deleteVictims(e.Victims)
		told(nil, time.Time{})
	default:
		begun := s.cfg.Now()
		s.preemptions.underWay++
		s.cfg.Evictor.Evict(s.life, *e, func(err error) {
			if err == nil {
				s.preemptions.log.Carried(klog.FromContext(s.life), e, s.cfg.Now())
			}
			s.inbox.put(func() {
				s.preemptions.underWay--
				if err != nil && s.cfg.WholeGangs {
					s.keepWhole(e.Victims)
				}
				told(err, begun)
			})
		})
	}
}

// hasToldWhole tells whether a pod of a pod group that leaves whole is told to leave already, or is gone.
func (s *Scheduler) hasToldWhole(p *v1.Pod) bool {
	g := s.groups.Of(p)
	if !g.Whole() {
		return false
	}
	if m, ok := g.Member(p.UID); ok {
		return m.Node == "" || m.Leaving
	}
	now, _, _ := s.state.Pod(p.UID)
	return now == nil
}

// keepWhole takes in that pods were not told to leave after all. Who was to get their room without a victim of its own is tried again.
func (s *Scheduler) keepWhole(pods []*v1.Pod) {
	s.groups.Leave(pods, false)
	for _, p := range pods {
		if !s.groups.Of(p).Whole() {
			continue
		}
		_, node, _ := s.state.Pod(p.UID)
		for _, other := range slices.Clone(s.queue.Nominated(node)) {
			s.queue.Activate(other.Obj.UID)
		}
	}
}

// clearLower takes their nominations to a node from pods of lower priority than a preemptor, so that they look for another
// node at once, but for mates that are nominated with it. It returns these pods.
//
// Differs from upstream: nominations are cleared in the queue at once, and in the status behind the
// loop. Without SchedulerAsyncPreemption, too, victims are told to leave behind the loop.
func (s *Scheduler) clearLower(p *queue.Pod, node string, mates map[*queue.Pod]bool) []*v1.Pod {
	var told []*v1.Pod
	for _, other := range slices.Clone(s.queue.Nominated(node)) {
		if other == p || mates[other] || compile.Priority(other.Obj) >= compile.Priority(p.Obj) {
			continue
		}
		s.queue.Nominate(other, "")
		s.journal.Put(other.Obj.UID, s.queue.Entry(other))
		// Its status may tell of the nomination by the time that it is looked at.
		told = append(told, other.Obj)
		bare := *other.Obj
		bare.Status.NominatedNodeName = node
		s.moveAll(queue.NominationEnded(&bare, nil))
	}
	return told
}

// deleteVictims deletes victims at once, where there is no Evictor, and frees their claims. The batch's answers are void then.
func (s *Scheduler) deleteVictims(victims []*v1.Pod) {
	s.batch.size.invalidate()
	for _, v := range victims {
		s.event(&objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: v})
		s.freeClaims(v)
	}
}

// told notes that all victims of a preemption are told to leave; err: why not. begun is zero where nobody had to be told.
func (s *Scheduler) told(preemptor types.UID, err error, begun time.Time) {
	if !begun.IsZero() && !s.cfg.SyncPreemption {
		s.metrics.Evicted(err, s.cfg.Now().Sub(begun))
	}
	if err != nil {
		klog.FromContext(s.life).Error(err, "Preemption is not carried out", "preemptor", preemptor)
	}
}

// ungate lets a pod be tried whose preemption has ended: at once after an error.
func (s *Scheduler) ungate(uid types.UID, err error) {
	delete(s.preemptions.gated, uid)
	if err != nil {
		s.queue.Activate(uid)
		return
	}
	s.queue.Preempted(uid, rules.DefaultPreemption)
}

// explainVictim keeps why a pod has to leave its node, for as long as it is there.
func (s *Scheduler) explainVictim(victim *v1.Pod, e *objects.Eviction) {
	why := "preempted by " + e.By() + ", which has a higher priority, on node " + e.Node
	if g := s.groups.Of(victim); s.cfg.WholeGangs && g.Whole() {
		why += "; all pods of pod group " + g.Name().String() + " leave"
	}
	s.preemptions.whyLeaving[victim.UID] = why
}
