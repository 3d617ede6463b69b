package coordinator

import (
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/bind"
	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/tracing"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// A placement is handed to package bind, and the loop hears of its outcome:
//
//	place ── dispatch ──> bind.Cycles ── outcome ──> bound ─┬─ nil ──────> committed
//	                                                        └─ an error ─> takeBack ── again

// pendingBind is a placement whose outcome is not yet known.
//
//	                 news: newest
//	                  +------+
//	                  v      |
//	place ---------> pending ---gone, not ours-------------> let go --+
//	                  |   ^                                    |      |
//	                  |   +-----------ours again---------------+      |
//	   outcome: nil   |   outcome: an error                           | any outcome
//	       +----------+---------+                                     |
//	       v                    v                                     v
//	  assumed until      room free, and tried again              room free, unless
//	  it is seen         with the newest object                  it was bound
type pendingBind struct {
	pod      *queue.Pod
	decision *pb.Decision
	// popped is when its attempt began.
	popped time.Time
	// newest is the pod's object where that has changed since; the bind will find
	// out. nil: it has not.
	newest *v1.Pod
	// letGo says that the pod is not to be tried again if its bind fails.
	letGo bool
	// gang is the pod group that it is placed with, where others of it are bound, too; nil: it is alone.
	gang *gangBinds
}

// binds are the placements on their way to their nodes.
type binds struct {
	// ready are those of the running batch.
	ready []bind.Job
	// gangs are those of pod groups, which wait until the commit is kept.
	gangs []gangJobs
	// pending are assumed, and the outcome of their binds is not known.
	pending  map[types.UID]*pendingBind
	outcomes bind.Outcomes
	failures bind.FailureLog
}

// bindPending keeps in mind that a pod's bind is pending.
func (s *Scheduler) bindPending(a *attempt, d *pb.Decision) {
	s.binds.pending[a.Pod.Obj.UID] = &pendingBind{pod: a.Pod, decision: d, popped: a.begun}
}

// dispatch hands the batch's placements over to be bound. Once the term is to end nothing is bound any more: the next leader
// decides.
func (s *Scheduler) dispatch() {
	jobs, gangs := s.binds.ready, s.binds.gangs
	s.binds.ready, s.binds.gangs = nil, nil
	if s.err != nil {
		return
	}
	if len(jobs) > 0 {
		s.cycles.Put(jobs)
	}
	for _, g := range gangs {
		s.dispatchGang(g)
	}
}

// outcome takes the outcome of a bind to the loop, from any goroutine.
func (s *Scheduler) outcome(job bind.Job, err error) {
	if s.binds.outcomes.Add(job, err) {
		s.inbox.put(func() { s.bound(s.binds.outcomes.Take()) })
	}
}

// bindProgress takes to the loop how far a binding cycle has come, from any goroutine.
func (s *Scheduler) bindProgress(job *bind.Job, how bind.Progress) {
	pod, node, cycle := job.Binding.Pod, job.Binding.Node, job.Cycle
	s.inbox.put(func() {
		p := s.binds.pending[pod.UID]
		switch {
		case how == bind.PostBound:
			s.activate(cycle)
		case p == nil:
		case how == bind.Delayed:
			s.cfg.Reporter.Expected(pod, node)
		case how == bind.Permitted:
			s.queue.End(p.pod)
		}
	})
}

// bound takes in the outcomes of binds.
func (s *Scheduler) bound(jobs []bind.Job, errs []error) {
	now, queueNow := s.cfg.Now(), s.cfg.QueueNow()
	for i := range jobs {
		job, err := &jobs[i], errs[i]
		uid := job.Binding.Pod.UID
		p := s.binds.pending[uid]
		delete(s.binds.pending, uid)
		s.endGangBind(p, err)
		s.metrics.BindEnded(job.Binding.Pod.Spec.SchedulerName, job.PreBindTook, job.BindTook, job.Cycle != nil, err)
		switch {
		case err == nil:
			s.committed(job, p, now, queueNow)
		case errors.Is(err, lease.ErrDeposed):
			s.fail(err)
		default:
			s.takeBack(job, p, err, now)
		}
	}
}

// committed takes in that a pod is bound. It stays assumed until it is seen on its node.
func (s *Scheduler) committed(job *bind.Job, p *pendingBind, now, queueNow time.Time) {
	uid := job.Binding.Pod.UID
	s.claimsEnd(s.state.SettleDevices, job.Claims)
	s.queue.End(p.pod) // where it has waited on Permit: Permitted may come behind the outcome
	s.finish(job.Trace, p.decision, tracing.Scheduled, nil)
	s.cfg.Recorder.Bound(p.decision, job.Claims.Written())
	s.metrics.Bound(job.Binding.Pod.Spec.SchedulerName, p.pod, now.Sub(p.popped), queueNow)
	if !p.letGo {
		s.metrics.SubmittedToBound(now.Sub(p.pod.Arrived))
		s.admission.bound(uid)
	}
	s.cfg.Reporter.Scheduled(job.Binding.Pod, job.Binding.Node)
	if p.pod.Attempts > 1 {
		// The bind took its entry away, but a write of an earlier attempt may come after.
		s.journal.Put(uid, nil)
	}
	if s.cfg.Binder != nil {
		return
	}
	// Nobody will tell of the pod on its node: it is there.
	there := withNode(job.Binding.Pod, job.Binding.Node)
	s.seen(there)
	s.outOfTree.Bound(there)
}

// takeBack forgets a placement that was not committed, and has the pod tried again with its
// newest object, unless it is gone, or on a node by now.
func (s *Scheduler) takeBack(job *bind.Job, p *pendingBind, err error, now time.Time) {
	uid := job.Binding.Pod.UID
	s.finish(job.Trace, p.decision, tracing.Error, err)
	s.metrics.NotBound(job.Binding.Pod.Spec.SchedulerName, now.Sub(p.popped))
	free := s.state.Storage().Unreserve(job.Work)
	// Pods that wait for room are told of this room. Where plugins have turned the pod away that does not include the pod, which
	// has to be back in the queue to be left out.
	refusal := (*bind.Error)(nil)
	turnedAway := errors.As(err, &refusal) && refusal.Status.IsRejected()
	room, freed := s.freeRoom(uid)
	if freed && !turnedAway {
		s.queue.Move(room)
	}
	for _, pv := range free {
		s.queue.Move(queue.VolumeUpdated(pv, pv))
	}
	s.claimsEnd(s.state.UnreserveDevices, job.Claims)
	s.again(job, p, err)
	if freed && turnedAway {
		s.queue.Move(room.Except(uid))
	}
	s.cfg.Recorder.TakenBack(p.decision, err, s.queue.Has(uid), append(job.Work.Latest(), job.Claims.Written()...))
	s.journal.Put(uid, s.queue.Entry(p.pod))
}

// again has a pod tried again whose bind has failed, where there is sense in that.
//
// Differs from upstream: one that is being deleted is dropped now, not when its turn comes.
func (s *Scheduler) again(job *bind.Job, p *pendingBind, err error) {
	uid := job.Binding.Pod.UID
	newest := job.Binding.Pod
	if p.newest != nil {
		newest = p.newest
	}
	_, node, _ := s.state.Pod(uid)
	defer s.queue.End(p.pod) // where it does not come back
	switch {
	case p.letGo || node != "" || errors.Is(err, objects.ErrNotFound) || errors.Is(err, objects.ErrAlreadyBound):
		if refusal := (*bind.Error)(nil); errors.As(err, &refusal) && refusal.InFlight {
			s.cfg.Reporter.Abandoned(newest, refusal.Error())
		}
	case newest.DeletionTimestamp != nil:
		s.cfg.Reporter.Skipped(newest)
	default:
		text := bind.Told(err)
		reason := s.requeue(p.pod, err, text)
		if s.queue.Get(uid) != p.pod {
			return
		}
		if reason == ReasonSchedulerError {
			s.binds.failures.Note(klog.FromContext(s.life), job, err, s.cfg.Now())
		}
		if newest != job.Binding.Pod {
			s.queue.Update(newest)
			s.queue.Nominate(p.pod, "") // as after any error
		}
		s.cfg.Reporter.Unscheduled(newest, reason, text, nil)
	}
}

// requeue puts a pod back into the queue whose bind has failed, and gives the reason for its condition.
func (s *Scheduler) requeue(p *queue.Pod, err error, text string) (reason string) {
	reason = ReasonSchedulerError
	refusal := (*bind.Error)(nil)
	if errors.As(err, &refusal) {
		if refusal.Status.IsRejected() {
			reason = v1.PodReasonUnschedulable
		}
		if refusal.Unschedulable() {
			s.queue.Refused(p, []string{refusal.Status.Plugin()}, text)
			return reason
		}
	}
	s.queue.Retry(p, errors.New(text))
	return reason
}

// release gives the room of an assumed pod to others.
func (s *Scheduler) release(uid types.UID) {
	if room, freed := s.freeRoom(uid); freed {
		s.queue.Move(room)
	}
}

// freeRoom takes the room of an assumed pod back. It gives the event that tells others of the room; false: the pod was not
// assumed.
func (s *Scheduler) freeRoom(uid types.UID) (room queue.Event, freed bool) {
	pod, node, assumed := s.state.Pod(uid)
	if !assumed {
		return queue.Event{}, false
	}
	s.intake.Forget(pod, node)
	s.cfg.Recorder.Released(uid, node)
	return queue.AssignedPodDeleted(withNode(pod, node)), true
}

// callOff ends the binding cycle of a pod that waits on Permit, or whose PreBind is at work, for the
// sake of a preemptor. It is false where it is too late for that, or there is no such pod.
func (s *Scheduler) callOff(uid types.UID, plugin string) bool {
	if off, waits := s.outOfTree.CallOff(uid, plugin); waits {
		return off
	}
	return s.cycles.CallOff(uid, "preempted by "+plugin)
}

// withNode is a pod as it would be on a node.
func withNode(p *v1.Pod, nodeName string) *v1.Pod {
	c := *p
	c.Spec.NodeName = nodeName
	return &c
}
