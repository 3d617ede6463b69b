package coordinator

import (
	"context"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/bind"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/quarantine"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/state"
	"github.com/shardsched/shardsched/coordinator/tracing"
	"github.com/shardsched/shardsched/coordinator/volumes"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// A chosen row is held for a pod, and then its bind is queued:
//
//	volumes, devices ─ room ─ Reserve ─ Permit ──┐  hold           loop
//	   └───────────────┴────────┴─────────┴─ no: Unreserve, forget, back to the queue
//	┌────────────────────────────────────────────┘  settle
//	└ the binding cycle                                            off the loop
//
// Volumes and devices come before the room: if they are not available any more, only what plugins hold has to be taken back.
// Out-of-tree plugins come last: they see the room as taken. A gang's members are all held before the first is settled (gang.go).

// holding is what a pod holds until its placement is settled or taken back.
type holding struct {
	got state.Reserved
	// acts is what VolumeBinding and DynamicResources act on from Reserve on, where plugins run.
	acts *bind.Reservation
	// status is what Reserve and Permit plugins say.
	status *fwk.Status
}

// refused tells whether the pod may not have the row after all.
func (h *holding) refused() bool { return !h.status.IsSuccess() && !h.status.IsWait() }

// place gives the chosen row to a pod.
func (s *Scheduler) place(ctx context.Context, a *attempt, d *pb.Decision, c answers.Choice) bool {
	s.commit()
	a.Plugins.Close()
	d.Node, d.Score = s.nameOf(c.Row), c.Score
	var h holding
	if s.hold(ctx, a, d, c.Row, &h); h.refused() {
		return s.unplace(ctx, a, d, &h)
	}
	return s.settle(ctx, a, d, &h)
}

// hold reserves a row for a pod.
func (s *Scheduler) hold(ctx context.Context, a *attempt, d *pb.Decision, row cache.Row, h *holding) {
	a.Trace.Begin(tracing.Assume)
	h.got = s.state.Reserve(a.Pod.Obj, a.Profile, a.Class, row, s.answers.Evaluator())
	if h.got.NoVolumes != nil {
		s.metrics.AssumeFailed()
	}
	if h.got.NoDevices != nil {
		s.answers.Recovered() // it may have come by a panic
	}
	if a.Plugins != nil {
		h.acts = &bind.Reservation{
			Work: h.got.Volumes, Failed: h.got.NoVolumes, Patience: a.Profile.BindTimeout(),
			Claims: h.got.Claims, ClaimsFailed: h.got.NoDevices, DevicesPatience: a.Profile.DevicesTimeout(),
		}
		h.acts.KeepIn(a.Plugins.Cycle.State())
	}
	h.status = s.reserve(ctx, a, d, &h.got)
}

// settle records a placement, and queues its bind. It is false where the loop has to end.
func (s *Scheduler) settle(ctx context.Context, a *attempt, d *pb.Decision, h *holding) bool {
	d.Claims = h.got.Claims.Allocated()
	a.Trace.Decided(d)
	s.record(a, d, false, s.assumed(&h.got)...)
	s.bindPending(a, d)
	if h.status.IsWait() {
		// The pod is in flight until the wait is over: if it is refused then, events of the meantime count.
		s.queue.Reserved(a.Pod)
	} else {
		s.queue.Done(a.Pod.Obj.UID)
	}
	if err := s.complete(a, &h.got, h.acts); err != nil {
		return s.broken(ctx, err)
	}
	if log := klog.FromContext(ctx).V(4); log.Enabled() { // else the arguments alone are allocations
		log.Info("Placed", "pod", klog.KObj(a.Pod.Obj), "node", d.Node, "score", d.Score, "feasible", d.Feasible, "waits", h.status.IsWait())
	}
	s.queueBind(a, d, &h.got)
	return s.err == nil
}

// assumed are the volumes and claims that a placement rests on, for the recorder.
func (s *Scheduler) assumed(got *state.Reserved) []objects.Object {
	if s.cfg.Recorder == nil {
		return nil
	}
	return append(got.Volumes.Assumed(), got.Claims.InFlight()...)
}

// complete has a placement's volumes and claims written at once, where nobody writes them.
func (s *Scheduler) complete(a *attempt, got *state.Reserved, held *bind.Reservation) error {
	if (got.Volumes != nil || a.Plugins == nil) && (s.cfg.Binder == nil || s.cfg.VolumeWriter == nil) {
		if err := s.completeVolumes(got.Volumes); err != nil {
			return err
		}
		if got.Volumes = nil; held != nil {
			held.Work = nil
		}
	}
	if got.Claims != nil && (s.cfg.Binder == nil || s.cfg.ClaimWriter == nil) {
		if err := s.completeClaims(got); err != nil {
			return err
		}
		if held != nil {
			held.Claims = nil
		}
	}
	return nil
}

// queueBind has the batch's end hand a placement to the binder.
func (s *Scheduler) queueBind(a *attempt, d *pb.Decision, got *state.Reserved) {
	pod := got.Pod
	job := bind.Job{
		Binding: objects.Binding{Pod: pod, Node: d.Node}, Work: got.Volumes, Patience: a.Profile.BindTimeout(),
		Claims: got.Claims, DevicesPatience: a.Profile.DevicesTimeout(),
		Extender: extender.Binder(s.extenders.List(), pod), Trace: a.Trace,
	}
	switch {
	case a.Plugins != nil:
		job.Cycle = a.Plugins.Cycle
		s.activate(job.Cycle)
	case s.cfg.Binder == nil:
		// There is nowhere to write to: it is as good as there.
		s.bound([]bind.Job{job}, []error{nil})
		return
	}
	s.binds.ready = append(s.binds.ready, job)
}

// reserve assumes a pod on its node, and asks Reserve and Permit plugins.
func (s *Scheduler) reserve(ctx context.Context, a *attempt, d *pb.Decision, got *state.Reserved) *fwk.Status {
	if a.Plugins != nil {
		return s.reserveWithPlugins(ctx, a, d)
	}
	err := got.Failure()
	if err != nil {
		return fwk.AsStatus(err)
	}
	if err = s.assume(a, d); err == nil {
		a.Trace.End(tracing.Assume)
	}
	return fwk.AsStatus(err)
}

// reserveWithPlugins is reserve with out-of-tree plugins. If volumes or devices could not be reserved, the Reserve of VolumeBinding
// or DynamicResources tells it, at its place among the plugins.
func (s *Scheduler) reserveWithPlugins(ctx context.Context, a *attempt, d *pb.Decision) *fwk.Status {
	cycle, pod := a.Plugins.Cycle, a.Pod.Obj
	var err error
	a.Plugins.Assume(d.Node, func() { err = s.assume(a, d) })
	if err != nil {
		return fwk.AsStatus(err)
	}
	a.Trace.End(tracing.Assume)
	cycle.Assume(withNode(pod, d.Node))
	if status := cycle.Reserve(ctx, d.Node); !status.IsSuccess() {
		return status
	}
	return cycle.Permit(ctx, d.Node)
}

// assume reserves room for a pod on its node. After an error the pod is not assumed, and its class is in quarantine.
func (s *Scheduler) assume(a *attempt, d *pb.Decision) error {
	err := s.state.Assume(a.Pod.Obj, d.Node, a.Class.Usage, d.Seq)
	if err == nil {
		return nil
	}
	if known, _, _ := s.state.Pod(a.Pod.Obj.UID); known == a.Pod.Obj {
		s.intake.Forget(known, d.Node)
	}
	s.intake.Mend(d.Node, err)
	s.batch.size.invalidate() // the answers of this batch do not know the row that was made anew
	return s.guard.Add(quarantine.Suspect{Class: a.Class.ID()}, err)
}

// completeVolumes has a placement's claims bound at once, where nobody writes them.
func (s *Scheduler) completeVolumes(work *volumes.Work) error {
	for _, obj := range s.state.Storage().Complete(work) {
		s.cfg.Recorder.Change(obj, false, true)
		s.intake.Set(obj)
	}
	return s.state.Settle()
}

// unplace takes a placement back for which Reserve or Permit failed, and the pod goes back to the queue.
func (s *Scheduler) unplace(ctx context.Context, a *attempt, d *pb.Decision, h *holding) bool {
	if a.Plugins != nil {
		a.Plugins.Cycle.Unreserve(ctx, d.Node)
	}
	free := s.state.Storage().Unreserve(h.got.Volumes)
	if _, _, assumed := s.state.Pod(a.Pod.Obj.UID); assumed {
		s.intake.Forget(a.Pod.Obj, d.Node)
		s.batch.size.invalidate() // the answers of this batch know nothing of that
	}
	d.Node, d.Score, d.Feasible = "", 0, 0
	var by []string
	if h.status.IsRejected() {
		d.Message, by = oneNode(h.status), []string{h.status.Plugin()}
	} else {
		a.failed = h.status.AsError()
		d.Message = a.failed.Error()
	}
	s.record(a, d, a.failed != nil)
	s.refuse(ctx, a, d, by, &objects.Nominating{})
	for _, pv := range free {
		s.queue.Move(queue.VolumeUpdated(pv, pv))
	}
	s.claimsEnd(s.state.UnreserveDevices, h.got.Claims)
	return true
}

// oneNode words a refusal after the node was chosen.
func oneNode(status *fwk.Status) string {
	counts := map[string]int{}
	for _, text := range status.Reasons() {
		counts[text]++
	}
	return answers.FitError(1, counts)
}
