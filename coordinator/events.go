package coordinator

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
)

// event takes in one change of an object.
func (s *Scheduler) event(e *objects.Event) {
	gone := e.Type == objects.Deleted
	defer s.quarantineOnPanic(e.Any(), gone)
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
			s.nodeGone(e.Node)
		} else {
			s.nodeSet(e.Node)
		}
	case objects.KindPod:
		if gone || objects.IsTerminal(e.Pod) {
			s.podGone(e.Pod)
		} else {
			s.podSet(e.Pod)
		}
	default:
		if gone {
			s.clusterGone(e.Object)
		} else {
			s.clusterSet(e.Object)
		}
	}
}

func (s *Scheduler) nodeSet(n *v1.Node) {
	if s.staysOut(n) {
		return
	}
	old, err := s.state.SetNode(n)
	if err != nil {
		s.leaveOut(n, err)
		return
	}
	s.endQuarantine(n)
	if old == nil {
		s.rows++
		clear(s.failing)
		s.move(queue.NodeAdded(n))
		return
	}
	s.moveAll(queue.NodeUpdated(old, n))
}

func (s *Scheduler) nodeGone(n *v1.Node) {
	s.endQuarantine(n)
	old, err := s.state.RemoveNode(n)
	if err != nil {
		s.fail(err)
		return
	}
	if old != nil {
		s.rows++
		s.move(queue.NodeDeleted(old))
	}
}

// clusterSet takes in a new or changed object that is neither node nor pod.
func (s *Scheduler) clusterSet(now objects.Object) { s.clusterObject(s.state.Keep(now), now) }

// clusterGone takes in that such an object is deleted.
func (s *Scheduler) clusterGone(last objects.Object) {
	old := s.state.Drop(last)
	if old == nil {
		s.endQuarantine(last)
		return
	}
	s.clusterObject(old, nil)
}

// clusterObject takes in one change of an object that is neither node nor pod. old is nil where
// the object is new, and now is nil where it is gone. Pods that wait may fit after the change.
func (s *Scheduler) clusterObject(old, now objects.Object) {
	if err := s.changeCluster(old, now); err != nil {
		s.leaveObjectOut(cmp.Or(now, old), err)
		if now == nil {
			s.endQuarantine(old)
		}
		return
	}
	s.endQuarantine(cmp.Or(now, old))
	s.moveAll(queue.Changes(old, now))
	s.moveClaims()
}

// changeCluster brings an object into the state of the cluster as it is now.
func (s *Scheduler) changeCluster(old, now objects.Object) error {
	// A pod that is nominated to a node holds no devices there.
	if kind := objects.KindOf(cmp.Or(now, old)); kind != objects.KindPodDisruptionBudget && !kind.OfDevices() {
		s.nominees.Forget()
	}
	return s.state.Change(old, now)
}

// podSet takes in a new or changed pod.
func (s *Scheduler) podSet(p *v1.Pod) {
	if p.Spec.NodeName != "" {
		s.seen(p)
		return
	}
	if s.cfg.Profiles[p.Spec.SchedulerName] == nil {
		s.disown(p.UID) // it may have been ours before
		return
	}
	if err := s.pend(p); err != nil {
		s.leaveUnqueued(p, err)
		return
	}
	s.endQuarantine(p)
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
	s.arrivals[p.UID] = s.cfg.Now()
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
			pending.letGo = false
			s.arrivals[p.UID] = s.cfg.Now()
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
	met := s.outside.Met()
	old, err := s.state.SetPod(p)
	if err != nil {
		s.keepRoom(p, was, err)
	} else if s.outside.Met() == met {
		s.endQuarantine(p)
	}
	s.unqueue(p.UID)
	if _, ok := s.binds.pending[p.UID]; !ok {
		delete(s.arrivals, p.UID) // no outcome of a bind comes to delete it
	}
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
	before, was, _ := s.state.Pod(p.UID)
	old, node, err := s.state.RemovePod(p)
	if err != nil {
		s.quarantineObject(p, err)
		s.state.DropPod(p.UID)
		s.mend(was, err)
		old, node = before, was
	}
	s.endQuarantine(p)
	s.letIn(was)
	s.disown(p.UID)
	s.history.Forget(p.UID)
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
	delete(s.arrivals, uid)
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
	s.queue.Move(e)
}
