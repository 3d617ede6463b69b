package coordinator

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/coordinator/tracing"
	"github.com/shardsched/shardsched/coordinator/volumes"
)

// The binding cycle of a placement with out-of-tree plugins runs on a goroutine of its own:
//
//	PreBindPreFlight ─ WaitOnPermit ─ PreBind ─ Bind ─ PostBind    off the loop
//	       └────────────────┴───────────┴───────┴─ no: Unreserve;  then, on the loop:
//	                                                   forget, back to the queue

// oneNode words a refusal after the node was chosen.
func oneNode(status *fwk.Status) string {
	counts := map[string]int{}
	for _, text := range status.Reasons() {
		counts[text]++
	}
	return answers.FitError(1, counts)
}

// reservation is what a placement holds besides its room, and what the built-in plugins that act on
// one pod do with it. It stands in the cycle's state.
type reservation struct {
	// work is what its claims need before it can be bound; nil: nothing. failed is why they can't
	// have it.
	work     *volumes.Work
	failed   error
	patience time.Duration
}

const reservationKey fwk.StateKey = "shardsched.io/reservation"

// Clone is part of fwk.StateData: there is one for all copies.
func (r *reservation) Clone() fwk.StateData { return r }

func reservationOf(state fwk.CycleState) (*reservation, error) {
	data, err := state.Read(reservationKey)
	if err != nil {
		return nil, err
	}
	r, ok := data.(*reservation)
	if !ok {
		return nil, errors.New("the reservation was replaced in the cycle's state")
	}
	return r, nil
}

// cycleError is why a binding cycle has failed.
type cycleError struct {
	status *fwk.Status
	// early says that the pod is still in flight: it can be unschedulable, and is not only to be
	// tried again.
	early bool
	// cause is what the binder said; nil: it was not asked.
	cause error
}

// Error is what the pod's owner is told.
func (e *cycleError) Error() string {
	if e.early && e.status.IsRejected() {
		return oneNode(e.status)
	}
	return e.status.Message()
}

// Unwrap is the binder's error.
func (e *cycleError) Unwrap() error { return e.cause }

// reason is that of the pod's condition.
func (e *cycleError) reason() string {
	if e.status.IsRejected() {
		return v1.PodReasonUnschedulable
	}
	return ReasonSchedulerError
}

// bindHosted is the binding cycle of a hosted placement, on a goroutine of its own. Once ctx has
// ended nothing is bound, and nothing reported.
func (s *Scheduler) bindHosted(ctx context.Context, job bindJob) {
	outer := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	status, early := s.runBindingCycle(ctx, cancel, &job)
	if outer.Err() != nil {
		return
	}
	if status.IsSuccess() {
		s.outcome(job, nil)
		job.cycle.PostBind(outer, job.binding.Node)
		s.inbox.put(func() { s.activate(job.cycle) })
		return
	}
	klog.FromContext(ctx).V(2).Info("The binding cycle has failed", "pod", klog.KObj(job.binding.Pod), "node", job.binding.Node, "status", status.Message())
	job.cycle.Unreserve(outer, job.binding.Node)
	s.outcome(job, &cycleError{status: status, early: early, cause: bindError(status)})
}

// bindError is what the binder said of a placement, if it did.
func bindError(status *fwk.Status) error {
	err := status.AsError()
	for _, known := range []error{lease.ErrDeposed, objects.ErrNotFound, objects.ErrAlreadyBound} {
		if errors.Is(err, known) {
			return err
		}
	}
	return nil
}

// runBindingCycle is all of it up to the bind. early tells whether the pod is still in flight.
func (s *Scheduler) runBindingCycle(ctx context.Context, cancel context.CancelCauseFunc, job *bindJob) (status *fwk.Status, early bool) {
	pod, node, cycle := job.binding.Pod, job.binding.Node, job.cycle
	waits := cycle.WillWait()
	preFlight := cycle.PreBindPreFlight(ctx, node)
	if preFlight.Code() == fwk.Error || preFlight.IsRejected() {
		return preFlight, waits
	}
	if preFlight.IsSuccess() || waits {
		s.inbox.put(func() {
			if s.binding[pod.UID] != nil {
				s.cfg.Reporter.Expected(pod, node)
			}
		})
	}
	if waits {
		if status := cycle.WaitOnPermit(ctx); !status.IsSuccess() {
			return status, true
		}
		s.inbox.put(func() { s.queue.End(job.pod) })
	}
	if preFlight.IsSuccess() {
		job.trace.Begin(tracing.PreBind)
		begin := s.cfg.Now()
		pre := s.outOfTree.PreBinding()
		pre.Add(pod.UID, cancel)
		defer pre.Remove(pod.UID)
		status := cycle.PreBind(ctx, node)
		job.preBind = max(s.cfg.Now().Sub(begin), 1)
		job.trace.End(tracing.PreBind)
		if !status.IsSuccess() {
			return status, false
		}
		if in := pre.Get(pod.UID); in != nil && !in.MarkPrebound() {
			return fwk.AsStatus(context.Cause(ctx)), false
		}
	}
	if ctx.Err() != nil {
		return fwk.AsStatus(context.Cause(ctx)), false
	}
	begin := s.cfg.Now()
	if bound, err := s.bindings.extendedFirst(ctx, job); bound {
		status = fwk.AsStatus(err)
	} else {
		status = cycle.Bind(ctx, node)
	}
	job.bind = max(s.cfg.Now().Sub(begin), 1)
	return status, false
}

// callOff ends the binding cycle of a pod that waits on Permit, or whose PreBind is at work, for the
// sake of a preemptor. It is false where it is too late for that, or there is no such pod.
func (s *Scheduler) callOff(uid types.UID, plugin string) bool {
	if off, known := s.outOfTree.CallOff(uid, plugin); known {
		return off
	}
	return s.bindings.callOff(uid, "preempted by "+plugin)
}

// rejectWaiting has a pod that is gone, or about to be, wait on Permit no longer; false: it did not.
func (s *Scheduler) rejectWaiting(uid types.UID) bool {
	return s.outOfTree.RejectWaiting(uid)
}

// acts is what runs of a built-in plugin that acts on one pod; nil: its part is done elsewhere.
func (s *Scheduler) acts(name string) framework.PluginFactory {
	switch name {
	case rules.VolumeBinding:
		return func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return volumeBinder{s}, nil }
	case rules.DefaultBinder:
		return func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return podBinder{s}, nil }
	}
	return nil
}

// volumeBinder is VolumeBinding from Reserve on. The volumes themselves are reserved, and given
// back, by the loop.
type volumeBinder struct{ *Scheduler }

var (
	_ fwk.ReservePlugin = volumeBinder{}
	_ fwk.PreBindPlugin = volumeBinder{}
)

// Name is part of fwk.Plugin.
func (volumeBinder) Name() string { return rules.VolumeBinding }

// Reserve is part of fwk.ReservePlugin.
func (volumeBinder) Reserve(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ string) *fwk.Status {
	r, err := reservationOf(state)
	if err == nil {
		err = r.failed
	}
	return fwk.AsStatus(err)
}

// Unreserve is part of fwk.ReservePlugin.
func (volumeBinder) Unreserve(context.Context, fwk.CycleState, *v1.Pod, string) {}

// PreBindPreFlight is part of fwk.PreBindPlugin.
func (volumeBinder) PreBindPreFlight(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	r, err := reservationOf(state)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if !r.work.PreBindNeeded() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return &fwk.PreBindPreFlightResult{AllowParallel: true}, nil
}

// PreBind is part of fwk.PreBindPlugin.
func (b volumeBinder) PreBind(ctx context.Context, state fwk.CycleState, _ *v1.Pod, _ string) *fwk.Status {
	r, err := reservationOf(state)
	if err == nil && r.work.PreBindNeeded() {
		err = b.bindings.preBinder.PreBind(ctx, r.work, r.patience)
	}
	return fwk.AsStatus(err)
}

// podBinder is DefaultBinder.
type podBinder struct{ *Scheduler }

var _ fwk.BindPlugin = podBinder{}

// Name is part of fwk.Plugin.
func (podBinder) Name() string { return rules.DefaultBinder }

// Bind is part of fwk.BindPlugin: through the loop's own binder, behind its fence.
func (b podBinder) Bind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if b.cfg.Binder == nil {
		return nil // there is nowhere to write to
	}
	return fwk.AsStatus(b.bindings.bindOne(ctx, objects.Binding{Pod: withNode(pod, ""), Node: node}))
}
