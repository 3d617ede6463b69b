package coordinator

import (
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/coordinator/tracing"
)

// promise is a placement whose bind is not yet reported.
//
//	                 news: newest
//	                  +------+
//	                  v      |
//	place ---------> promised ---gone, not ours------------> let go --+
//	                  |   ^                                    |      |
//	                  |   +-----------ours again---------------+      |
//	   outcome: nil   |   outcome: an error                           | any outcome
//	       +----------+---------+                                     |
//	       v                    v                                     v
//	  assumed until      room free, and tried again              room free, unless
//	  it is seen         with the newest object                  it was bound
type promise struct {
	// newest is the pod's object where that has changed since; the bind will find
	// out. nil: it has not.
	newest *v1.Pod
	// letGo says that the pod is not to be tried again if its bind fails.
	letGo bool
}

// dispatch hands the batch's placements to the binder.
func (s *Scheduler) dispatch() {
	jobs := s.ready
	s.ready = nil
	if len(jobs) == 0 {
		return
	}
	s.bindings.put(jobs)
}

// outcome takes the news of a bind, from any goroutine, to the loop.
func (s *Scheduler) outcome(job bindJob, err error) {
	if s.outcomes.add(job, err) {
		s.inbox.put(func() { s.bound(s.outcomes.take()) })
	}
}

// bound takes in the outcomes of binds.
func (s *Scheduler) bound(jobs []bindJob, errs []error) {
	now, queueNow := s.cfg.Now(), s.cfg.QueueNow()
	for i := range jobs {
		job, err := &jobs[i], errs[i]
		uid := job.binding.Pod.UID
		p := s.binding[uid]
		delete(s.binding, uid)
		s.metrics.BindEnded(job.binding.Pod.Spec.SchedulerName, job.preBind, job.bind, job.cycle != nil, err)
		switch {
		case err == nil:
			s.committed(job, now, queueNow)
		case errors.Is(err, lease.ErrDeposed):
			s.fail(err)
		default:
			s.takeBack(job, err, p, now)
		}
	}
}

// committed takes in that a pod is bound. It stays assumed until it is seen on its node.
func (s *Scheduler) committed(job *bindJob, now, queueNow time.Time) {
	uid := job.binding.Pod.UID
	s.finish(job.trace, job.decision, tracing.Scheduled, nil)
	s.cfg.Recorder.Bound(job.decision)
	s.metrics.Bound(job.binding.Pod.Spec.SchedulerName, job.pod, now.Sub(job.popped), queueNow)
	if at, ok := s.arrivals[uid]; ok {
		s.metrics.SubmittedToBound(now.Sub(at))
		delete(s.arrivals, uid)
	}
	s.cfg.Reporter.Scheduled(job.binding.Pod, job.binding.Node)
	if job.pod.Attempts > 1 {
		// The bind took its entry away, but a write of an earlier attempt may come after.
		s.journal.put(uid, nil)
	}
	if s.cfg.Binder != nil {
		return
	}
	// Nobody will tell of the pod on its node: it is there.
	there := withNode(job.binding.Pod, job.binding.Node)
	s.seen(there)
	s.outOfTree.Bound(there)
}

// takeBack forgets a placement that was not committed, and has the pod tried again with its
// newest object, unless it is gone, or on a node by now.
func (s *Scheduler) takeBack(job *bindJob, err error, p *promise, now time.Time) {
	s.finish(job.trace, job.decision, tracing.Error, err)
	s.metrics.NotBound(job.binding.Pod.Spec.SchedulerName, now.Sub(job.popped))
	free := s.cache.volumes.Unreserve(job.work)
	released := s.releaseHosted(job, err)
	for _, pv := range free {
		s.queue.Move(queue.VolumeUpdated(pv, pv))
	}
	s.again(job, err, p)
	if released != nil {
		s.queue.Move(*released)
	}
	s.cfg.Recorder.TakenBack(job.decision, err, s.queue.Has(job.binding.Pod.UID), job.work.Latest())
	s.journal.put(job.binding.Pod.UID, s.queue.Entry(job.pod))
}

// again has a pod tried again whose bind has failed, where there is sense in that.
//
// Differs from upstream: one that is being deleted is dropped now, not when its turn comes.
func (s *Scheduler) again(job *bindJob, err error, p *promise) {
	uid := job.binding.Pod.UID
	newest := job.binding.Pod
	if p != nil && p.newest != nil {
		newest = p.newest
	}
	_, node, _ := s.cache.Pod(uid)
	defer s.queue.End(job.pod) // where it does not come back
	switch {
	case p == nil || p.letGo || node != "" || errors.Is(err, objects.ErrNotFound) || errors.Is(err, objects.ErrAlreadyBound):
		delete(s.arrivals, uid)
		if hosted := (*cycleError)(nil); errors.As(err, &hosted) && hosted.early {
			s.cfg.Reporter.Abandoned(newest, hosted.Error())
		}
	case newest.DeletionTimestamp != nil:
		delete(s.arrivals, uid)
		s.cfg.Reporter.Skipped(newest)
	default:
		text := told(err)
		reason := s.retry(job, err, text)
		if s.queue.Get(uid) != job.pod {
			return
		}
		if reason == ReasonSchedulerError {
			s.failures.note(klog.FromContext(s.life), job, err, s.cfg.Now())
		}
		if newest != job.binding.Pod {
			s.queue.Update(newest)
			s.queue.Nominate(job.pod, "") // as after any error
		}
		s.cfg.Reporter.Unscheduled(newest, reason, text, nil)
	}
}

// told is what users are told of a bind that failed, worded as upstream's framework does
// where the API server has refused it.
func told(err error) string {
	if hosted := (*cycleError)(nil); errors.As(err, &hosted) {
		return hosted.Error()
	}
	var refused interface{ Told() string }
	if errors.As(err, &refused) {
		return fmt.Sprintf("running Bind plugin %q: %s", rules.DefaultBinder, refused.Told())
	}
	return err.Error()
}

// release takes back what a pod is promised, where it is promised anything, and gives the
// room to others.
func (s *Scheduler) release(uid types.UID) {
	pod, node, assumed := s.cache.Pod(uid)
	if !assumed {
		return
	}
	s.forget(pod, node)
	s.cfg.Recorder.Released(uid, node)
	s.queue.Move(queue.AssignedPodDeleted(withNode(pod, node)))
}

// withNode is a pod as it would be on a node.
func withNode(p *v1.Pod, nodeName string) *v1.Pod {
	c := *p
	c.Spec.NodeName = nodeName
	return &c
}
