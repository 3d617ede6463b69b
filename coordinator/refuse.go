package coordinator

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/choice"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/tracing"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// unplaced ends an attempt that has found no node. The PostFilters are asked for help first. answer is the
// diagnosed answer of its class; nil: no node was looked at. It is false where the loop has to end.
func (s *Scheduler) unplaced(ctx context.Context, a *attempt, answer *answers.Answer, d *pb.Decision, by []string) bool {
	var x choice.Help
	switch {
	case a.failed != nil:
	case d.Nodes == 0:
		x.Nominating = &objects.Nominating{}
	default:
		var err error
		if x, err = s.chooser.PostFilter(ctx, &a.Try, answer); err != nil {
			return s.broken(ctx, err)
		}
		if x.Parked {
			s.park(a)
			return true
		}
		tell(d, &x)
		a.preemption = observe.Preempting(a.Pod.Obj, x.Victims, s.state.Budgets())
	}
	s.commit()
	a.Plugins.Close()
	s.gate(a, &x)
	s.record(a, d, a.failed != nil)
	s.refuse(ctx, a, d, by, x.Nominating)
	s.carryOut(a, &x, nil)
	s.carryPlanOut(a.Pod.Obj, x.Claims)
	return true
}

// tell completes a decision with what may help the pod.
func tell(d *pb.Decision, x *choice.Help) {
	if x.Text != "" {
		d.Message += " " + x.Text
	}
	if x.Nominating != nil {
		d.Nominated = x.Nominating.Node
	}
	for _, victim := range x.Victims {
		d.Victims = append(d.Victims, victim.Namespace+"/"+victim.Name)
	}
}

// refuse puts a pod without a node back into the queue. nominating is what becomes of its nominated
// node; nil: nothing, but for an error, which clears it.
func (s *Scheduler) refuse(ctx context.Context, a *attempt, d *pb.Decision, by []string, nominating *objects.Nominating) {
	s.attemptLog.Unplaced(klog.FromContext(ctx), a.Pod.Obj, d.Message, a.failed, s.cfg.Now())
	if a.failed != nil {
		s.queue.Error(a.Pod, a.failed)
	} else {
		if a.Class != nil {
			a.Pod.ClassID, a.Pod.Matched = a.Class.ID(), a.Class.Matched
		}
		s.queue.Unschedulable(a.Pod, by, d.Message)
	}
	if nominating != nil {
		s.queue.Nominate(a.Pod, nominating.Node)
	}
	if len(by) == 0 {
		s.failing[a.Pod.Obj.UID] = struct{}{}
	}
	s.journal.Put(a.Pod.Obj.UID, s.queue.Entry(a.Pod))
	s.metrics.Unplaced(d.Profile, a.failed != nil, a.since(s.cfg.Now()))
	reason := v1.PodReasonUnschedulable
	if a.failed != nil {
		reason = ReasonSchedulerError
	}
	message := d.Message
	if a.beside != nil {
		message = a.beside(message)
	}
	s.cfg.Reporter.Unscheduled(a.Pod.Obj, reason, message, nominating)
	a.Trace.Decided(d)
	s.finish(a.Trace, d, outcome(a.failed), a.failed)
}

// outcome is a trace's result of an attempt that has found no node.
func outcome(failed error) tracing.Result {
	if failed != nil {
		return tracing.Error
	}
	return tracing.Unschedulable
}
