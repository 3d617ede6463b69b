package coordinator

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/intake"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
)

// event takes in one change of an object.
func (s *Scheduler) event(e *objects.Event) {
	gone := e.Type == objects.Deleted
	defer s.intake.QuarantineOnPanic(e.Any(), gone)
	s.cfg.Recorder.Change(e.Any(), gone, false)
	begin := s.cfg.Now()
	s.happened = s.happened[:0]
	s.take(e, gone)
	if len(s.happened) == 0 {
		return
	}
	took := s.cfg.Now().Sub(begin)
	for _, k := range s.happened {
		s.metrics.Event(k, took)
	}
}

// take calls the one method for the kind of the object and for whether it is gone.
func (s *Scheduler) take(e *objects.Event, gone bool) {
	switch e.Kind {
	case objects.KindNode:
		if gone {
			s.intake.RemoveNode(e.Node)
		} else {
			s.intake.SetNode(e.Node)
		}
	case objects.KindPod:
		if gone || objects.IsTerminal(e.Pod) {
			s.podGone(e.Pod)
		} else {
			s.podSet(e.Pod)
		}
	default:
		if gone {
			s.intake.Remove(e.Object)
		} else {
			s.intake.Set(e.Object)
		}
	}
}

// takeInFound takes in an object that exists when the term begins.
func (s *Scheduler) takeInFound(obj objects.Object, take func()) {
	defer s.intake.QuarantineOnPanic(obj, false)
	take()
}

// pluginsSaw tells out-of-tree plugins of a change.
func (s *Scheduler) pluginsSaw(e *objects.Event) {
	defer s.intake.QuarantineOnPanic(e.Any(), e.Type == objects.Deleted)
	s.outOfTree.Saw(e)
}

// forIntake is the loop as changes of objects know it.
type forIntake struct{ *Scheduler }

var _ intake.Loop = forIntake{}

// Move, Fail, NodeAdded and RowsMade are part of intake.Loop.
func (l forIntake) Move(e queue.Event)      { l.move(e) }
func (l forIntake) Fail(err error)          { l.fail(err) }
func (l forIntake) ClaimGone(pod types.UID) { l.queue.ClaimGone(pod) }
func (l forIntake) NodeAdded()              { clear(l.failing) }

// PodGroupSet is part of intake.Loop. A change of its status alone helps no pod.
func (l forIntake) PodGroupSet(old, now *v1alpha2.PodGroup) {
	changed := old == nil || !groups.Same(old, now)
	l.queue.Regroup(types.NamespacedName{Namespace: now.Namespace, Name: now.Name}, changed)
}

// PodGroupGone is part of intake.Loop. A pod group that was given up is not any more.
func (l forIntake) PodGroupGone(last *v1alpha2.PodGroup) {
	l.queue.Regroup(types.NamespacedName{Namespace: last.Namespace, Name: last.Name}, false)
	if l.cfg.FreeClaims {
		l.freePodGroupClaims(last)
	}
}

func (l forIntake) RowsMade() {
	if l.answers.Deciding() {
		l.batch.size.invalidate()
	}
}

// podSet takes in a new or changed pod.
func (s *Scheduler) podSet(p *v1.Pod) {
	if p.Spec.NodeName != "" {
		s.seen(p)
		return
	}
	if s.cfg.Profiles[p.Spec.SchedulerName] == nil {
		s.groups.PodSet(p, false)
		s.disown(p.UID) // it may have been ours before
		return
	}
	if err := s.pend(p); err != nil {
		s.leaveUnqueued(p, err)
		return
	}
	s.intake.EndQuarantine(p)
}

// leaveUnqueued keeps a pod out of the queue, and tells its owner by the pod's status.
func (s *Scheduler) leaveUnqueued(p *v1.Pod, why error) {
	s.intake.Quarantine(p, why)
	if err := s.dequeue(p); err != nil {
		klog.FromContext(s.life).Error(err, "A pod in quarantine is still in the queue", "pod", klog.KObj(p))
	}
	s.cfg.Reporter.Unscheduled(p, ReasonSchedulerError, "the scheduler can not take the pod in: "+why.Error(), nil)
}

// dequeue drops a pending pod, as far as that is possible.
func (s *Scheduler) dequeue(p *v1.Pod) (err error) {
	defer s.state.RecoverInto(&err)
	s.disown(p.UID)
	s.state.Budgets().RemovePod(p)
	return nil
}

// pend takes in a pod that is on no node.
func (s *Scheduler) pend(p *v1.Pod) (err error) {
	defer s.state.RecoverInto(&err)
	s.state.Pend(p)
	if s.updateAssumed(p) {
		return nil
	}
	if q := s.queue.Get(p.UID); q != nil {
		old := q.Obj
		delete(s.failing, p.UID)
		s.happened = append(s.happened, queue.PendingPodUpdated)
		s.queue.Update(p)
		s.moveAll(queue.NominationEnded(old, p))
		if compile.Respecified(old, p) {
			s.queue.Activate(p.UID)
		}
		return nil
	}
	s.happened = append(s.happened, queue.PendingPodAdded)
	s.queue.Add(p)
	return nil
}

// updateAssumed takes in a change of a pending pod that is assumed on a node, or whose bind is under way;
// false: it is neither. The change may be older than the pod's bind, whose outcome may
// have come first.
func (s *Scheduler) updateAssumed(p *v1.Pod) bool {
	_, _, assumed := s.state.Pod(p.UID)
	pending := s.binds.pending[p.UID]
	if pending == nil && !assumed {
		return false
	}
	if pending != nil {
		if pending.letGo {
			// The pod is ours again: it goes back to the queue if its bind fails.
			pending.letGo, pending.pod.Arrived = false, s.cfg.Now()
		}
		pending.newest = p
	}
	if p.DeletionTimestamp != nil && !s.outOfTree.RejectWaiting(p.UID) {
		// The API server binds no pod that is being deleted.
		s.release(p.UID)
	}
	return true
}

// seen takes in a pod that is bound to a node.
func (s *Scheduler) seen(p *v1.Pod) {
	before, was, assumed := s.state.Pod(p.UID)
	old := s.intake.SetPod(p)
	s.admission.seen(p)
	if x := s.groups.Of(p); x != nil {
		s.queue.Regroup(x.Name(), false)
	}
	s.unqueue(p.UID)
	if was != "" && was != p.Spec.NodeName {
		// Another scheduler has bound it to another node: the room that it was assumed to take is free again.
		s.move(queue.AssignedPodDeleted(withNode(before, was)))
	}
	if old != nil {
		s.moveAll(queue.AssignedPodUpdated(old, p))
		return
	}
	if !assumed {
		s.metrics.PodPresent()
	}
	s.move(queue.AssignedPodAdded(p))
}

// podGone takes in that a pod is deleted or has ended.
func (s *Scheduler) podGone(p *v1.Pod) {
	pending := s.queue.Get(p.UID)
	s.outOfTree.RejectWaiting(p.UID)
	old, node := s.intake.RemovePod(p)
	if s.cfg.FreeClaims {
		s.freeClaims(p)
	}
	s.removeLeftBehind(p)
	s.disown(p.UID)
	s.admission.left(p)
	s.history.Depart(p, node, s.preemptions.whyLeaving[p.UID], s.cfg.Now())
	delete(s.preemptions.whyLeaving, p.UID)
	if pending != nil {
		s.happened = append(s.happened, queue.PendingPodDeleted)
		s.moveAll(queue.NominationEnded(pending.Obj, nil))
	}
	if old != nil {
		s.move(queue.AssignedPodDeleted(withNode(old, node)))
	}
}

// disown drops a pending pod that is not ours to decide any more. If a bind of it is under
// way and fails, its room is given back.
func (s *Scheduler) disown(uid types.UID) {
	if pending := s.binds.pending[uid]; pending != nil {
		pending.letGo = true
	}
	s.unqueue(uid)
}

// unqueue takes a pod out of the queue and its journal.
func (s *Scheduler) unqueue(uid types.UID) {
	delete(s.failing, uid)
	if s.queue.Has(uid) {
		s.queue.Delete(uid)
		s.journal.Put(uid, nil)
	}
}

// moveAll has the queue try those pods again that one of the events may help.
func (s *Scheduler) moveAll(events []queue.Event) {
	for i := range events {
		s.move(events[i])
	}
}

func (s *Scheduler) move(e queue.Event) {
	s.happened = append(s.happened, e.Kind())
	if !s.cfg.Observe { // nobody tries pods again
		s.queue.Move(e)
	}
}
