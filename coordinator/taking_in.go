package coordinator

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/quarantine"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/scan"
)

// The own tables may refuse an object, or the loop may panic while it takes the object in. The object is in quarantine
// then: the log and a metric tell of it, and it is left out as far as that is safe. The term goes on, as does the term of the
// next leader, who finds the same objects.
//
//	a pod on a node     its requests count, without those of its terms, labels, volumes and budgets that failed. Where
//	                    its requests fail, its node is left out
//	a pending pod       is not in the queue
//	a node              is left out: it has no row, and no pod is placed there
//	a CSINode           is ignored, and its node is left out
//	any other object    is ignored
//	a row               that refuses a change is made anew of the node and its pods; where that fails, the node is left out
//
// Each change of the object is another try.

// quarantineOnPanic quarantines an object if a panic comes up while its change is taken in, or while plugins are told of it. It is
// deferred.
func (s *Scheduler) quarantineOnPanic(obj objects.Object, gone bool) {
	if v := recover(); v != nil {
		s.metrics.Panicked(whileTakingIn)
		s.quarantineObject(obj, scan.Recovered(v))
		if gone { // no further change comes to end the quarantine
			s.endQuarantine(obj)
		}
	}
}

// takeInFound takes in an object that exists when the term begins.
func (s *Scheduler) takeInFound(obj objects.Object, take func()) {
	defer s.quarantineOnPanic(obj, false)
	take()
}

func (s *Scheduler) pluginsSaw(e *objects.Event) {
	defer s.quarantineOnPanic(e.Any(), e.Type == objects.Deleted)
	s.outOfTree.Saw(e)
}

// quarantineObject puts an object into quarantine. The log tells of it once.
func (s *Scheduler) quarantineObject(obj objects.Object, why error) {
	if !s.outside.Add(obj, why) {
		return
	}
	ref := objects.RefOf(obj)
	s.metrics.Quarantined(ref.Kind, 1)
	var stack []byte
	if p := (*scan.Panic)(nil); errors.As(why, &p) {
		stack = p.Stack
	}
	klog.FromContext(s.life).Error(why, "An object is in quarantine: it could not be taken in as a whole",
		"kind", ref.Kind, "object", klog.KRef(ref.Namespace, ref.Name), "stack", string(stack))
}

// partLeftOut is called by the cache with the part of a pod that it had to leave out.
func (s *Scheduler) partLeftOut(p *v1.Pod, what string, why error) {
	if errors.As(why, new(*scan.Panic)) {
		s.metrics.Panicked(whileTakingIn)
	}
	s.quarantineObject(p, fmt.Errorf("%s can not be told: %w", what, why))
}

// endQuarantine ends the quarantine of an object that was taken in as a whole, or is gone. If a node was left out because of
// the object, it is tried again.
func (s *Scheduler) endQuarantine(obj objects.Object) {
	ended, on := s.outside.End(obj)
	if !ended {
		return
	}
	s.metrics.Quarantined(objects.KindOf(obj), -1)
	if on != "" {
		s.letIn(on)
	}
}

// letIn tries again to take in a node that is left out.
func (s *Scheduler) letIn(name string) {
	if n := s.outside.LeftOut(name); n != nil {
		s.nodeSet(n)
	}
}

// staysOut keeps a node out because of its CSINode or one of its pods; false: the node may be taken in.
func (s *Scheduler) staysOut(n *v1.Node) bool {
	if !s.outside.KeepsOut(n) {
		return false
	}
	s.quarantineObject(n, errors.New("what is on it is in quarantine"))
	s.outside.LeaveOut(n)
	return true
}

// leaveOut leaves a node out.
func (s *Scheduler) leaveOut(n *v1.Node, why error) {
	s.quarantineObject(n, why)
	s.outside.LeaveOut(n)
	_, err := s.state.RemoveNode(n)
	if err != nil {
		s.fail(err) // pods might be placed there
		return
	}
	s.rowsMade()
	s.move(queue.NodeDeleted(n))
}

// rowsMade notes that rows were added or removed. In the middle of a batch that ends the batch.
func (s *Scheduler) rowsMade() {
	s.rows++
	if s.answers.Deciding() {
		s.batch.size.invalidate()
	}
}

// mend makes a node's row anew, after the row has refused a change and no longer agrees with its pods.
func (s *Scheduler) mend(name string, why error) {
	n := s.state.Node(name)
	if n == nil {
		return
	}
	klog.FromContext(s.life).Error(why, "The tables refuse a change, the node's row is made anew", "node", name)
	s.rowsMade()
	if err := s.state.Redo(name); err != nil {
		s.leaveOut(n, errors.Join(why, err))
	}
}

// keepRoom keeps other pods off the room of a bound pod that could not be taken in. was is the node that it was on.
func (s *Scheduler) keepRoom(p *v1.Pod, was string, why error) {
	s.quarantineObject(p, why)
	name := p.Spec.NodeName
	if now, _, _ := s.state.Pod(p.UID); now == p {
		s.mend(name, why)
	} else if s.outside.Unknown(p); s.state.Node(name) != nil {
		s.leaveOut(s.state.Node(name), fmt.Errorf("what pod %s/%s takes is not known: %w", p.Namespace, p.Name, why))
	}
	if was != name {
		s.mend(was, why)
	}
}

// leaveUnqueued keeps a pod out of the queue, and tells its owner by the pod's status.
func (s *Scheduler) leaveUnqueued(p *v1.Pod, why error) {
	s.quarantineObject(p, why)
	if err := s.dequeue(p); err != nil {
		klog.FromContext(s.life).Error(err, "A pod in quarantine is still in the queue", "pod", klog.KObj(p))
	}
	s.cfg.Reporter.Unscheduled(p, ReasonSchedulerError, "the scheduler can not take the pod in: "+why.Error(), nil)
}

// leaveObjectOut makes the state ignore an object that is neither node nor pod.
func (s *Scheduler) leaveObjectOut(obj objects.Object, why error) {
	s.quarantineObject(obj, why)
	s.state.Drop(obj)
	if err := s.changeCluster(obj, nil); err != nil {
		klog.FromContext(s.life).Error(err, "An object in quarantine is not left out as a whole",
			"kind", objects.KindOf(obj), "object", klog.KObj(obj))
	}
	if _, ok := obj.(*storagev1.CSINode); !ok {
		return
	}
	if n := s.state.Node(obj.GetName()); n != nil {
		s.leaveOut(n, why)
	}
}

// dequeue drops a pending pod, as far as that is possible.
func (s *Scheduler) dequeue(p *v1.Pod) (err error) {
	defer s.state.RecoverInto(&err)
	s.disown(p.UID)
	s.state.Budgets().RemovePod(p)
	return nil
}

// assume reserves room for a pod on its node. After an error the pod is not assumed, and its class is in quarantine.
func (s *Scheduler) assume(a *attempt, d *pb.Decision) error {
	err := s.state.Assume(a.pod.Obj, d.Node, a.class.Usage, d.Seq)
	if err == nil {
		return nil
	}
	if known, _, _ := s.state.Pod(a.pod.Obj.UID); known == a.pod.Obj {
		s.forget(known, d.Node)
	}
	s.mend(d.Node, err)
	s.batch.size.invalidate() // the answers of this batch do not know the row that was made anew
	return s.suspects.Add(quarantine.Suspect{Class: a.class.ID()}, err)
}

// forget gives the room of an assumed pod back.
func (s *Scheduler) forget(p *v1.Pod, node string) {
	if _, err := s.state.Forget(p); err != nil {
		s.quarantineObject(p, err)
		s.state.DropPod(p.UID)
		s.mend(node, err)
	}
}
