package coordinator

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/tracing"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// unplaced ends an attempt that has found no node. The PostFilters are asked for help first. answer is the
// diagnosed answer of its class; nil: no node was looked at. It is false where the loop has to end.
func (s *Scheduler) unplaced(ctx context.Context, a *attempt, answer *answers.Answer, d *pb.Decision, by []string) bool {
	x := preemption{}
	switch {
	case a.failed != nil:
	case d.Nodes == 0:
		x.nominating = &objects.Nominating{}
	default:
		var err error
		if x, err = s.postFilter(ctx, a, answer, d); err != nil {
			if ctx.Err() == nil {
				s.fail(err)
			}
			return false
		}
		if s.isParked(a) {
			return true
		}
	}
	s.batch.committing = true
	a.plugins.Close()
	s.gate(a, x)
	s.record(a, d, a.failed != nil)
	s.refuse(ctx, a, d, by, x.nominating)
	s.carryOut(a, x)
	s.carryPlanOut(a, x.claims)
	return true
}

// refusal words why no node takes the pod, and names the plugins that refuse it. more is counted besides.
func (s *Scheduler) refusal(answer *answers.Answer, a *attempt, more answers.Reasons) (string, []string) {
	if own := s.answers.LeftOut(a.class, a.pod.Nomination()); own != nil {
		with, instead := own.Reasons(answer, s.nominees.Of(a.pod.Obj, a.class).ByRow()[own.Row].ForEngine())
		more.Add(with, -1)
		more.Add(instead, +1)
	}
	return answer.Message(s.state.Nodes(), more)
}

// refuse puts a pod without a node back into the queue. nominating is what becomes of its nominated
// node; nil: nothing, but for an error, which clears it.
func (s *Scheduler) refuse(ctx context.Context, a *attempt, d *pb.Decision, by []string, nominating *objects.Nominating) {
	s.attemptLog.Unplaced(klog.FromContext(ctx), a.pod.Obj, d.Message, a.failed, s.cfg.Now())
	if a.failed != nil {
		s.queue.Error(a.pod, a.failed)
	} else {
		if a.class != nil {
			a.pod.ClassID = a.class.ID()
		}
		s.queue.Unschedulable(a.pod, by, d.Message)
	}
	if nominating != nil {
		s.queue.Nominate(a.pod, nominating.Node)
	}
	if len(by) == 0 {
		s.failing[a.pod.Obj.UID] = struct{}{}
	}
	s.journal.Put(a.pod.Obj.UID, s.queue.Entry(a.pod))
	s.metrics.Unplaced(d.Profile, a.failed != nil, a.since(s.cfg.Now()))
	reason := v1.PodReasonUnschedulable
	if a.failed != nil {
		reason = ReasonSchedulerError
	}
	s.cfg.Reporter.Unscheduled(a.pod.Obj, reason, d.Message, nominating)
	a.trace.Decided(d)
	s.finish(a.trace, d, outcome(a.failed), a.failed)
}

// outcome is a trace's result of an attempt that has found no node.
func outcome(failed error) tracing.Result {
	if failed != nil {
		return tracing.Error
	}
	return tracing.Unschedulable
}
