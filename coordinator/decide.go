package coordinator

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/aside"
	"github.com/shardsched/shardsched/coordinator/bind"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/choice"
	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/quarantine"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/state"
	"github.com/shardsched/shardsched/coordinator/tracing"
	"github.com/shardsched/shardsched/coordinator/volumes"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// decide makes one pod's decision; false where the loop has to end. A panic before the decision begins to change
// anything ends the attempt.
func (s *Scheduler) decide(ctx context.Context, a *attempt) bool {
	if a.failed == nil && a.Class.Rejected == nil {
		if a.failed = s.guard.WhyNot(a.Class); s.aside.HasUnfinished(a.Class) {
			s.awaitSearches(a)
			return true
		}
	}
	s.batch.committing = false
	s.aside.AllowDecision()
	goOn, panicked := s.decideCaught(ctx, a)
	s.aside.NoteSteps()
	switch {
	case panicked == nil:
		return goOn
	case aside.IsUnfinished(panicked):
		s.awaitSearches(a)
		return true
	}
	return s.end(ctx, a, s.decisionOf(a), &choice.Ending{Failed: panicked})
}

func (s *Scheduler) decideCaught(ctx context.Context, a *attempt) (goOn bool, panicked error) {
	defer func() {
		if s.batch.committing || a.Class == nil {
			return
		}
		if v := recover(); v != nil {
			panicked = s.guard.Confine(a.Class, v)
		}
	}()
	return s.decideOne(ctx, a), nil
}

// awaitSearches sets an attempt aside for which not all devices are found.
func (s *Scheduler) awaitSearches(a *attempt) {
	s.metrics.Unfinished()
	s.aside.ForDevices(a.Pod, a.Class)
	a.Trace.Finish(tracing.GivenBack, nil)
}

// decideOne takes a pod through the steps of a decision, in their order. It is false where the loop has to end, or the batch.
func (s *Scheduler) decideOne(ctx context.Context, a *attempt) bool {
	d := s.decisionOf(a)

	// The class as of now: a placement before this pod may have changed the storage that the class was made of. All else goes by
	// the class.
	if err := s.renew(a); err != nil {
		return s.broken(ctx, err)
	}
	if s.batch.size.invalid { // a row was made anew, of which held answers know nothing: the next batch decides
		return false
	}
	if a.volatile() && s.waits(a) { // the new class counts what no row has yet
		s.state.ForgetPostponed()
		return true
	}

	// What out-of-tree plugins are shown, of the class as of now, until the attempt ends.
	if a.Plugins = s.outOfTree.Review(a.Pod, a.Class); a.Plugins != nil {
		defer a.Plugins.End()
	}

	// Whatever needs no look at a node: nobody is asked for nothing.
	if end := s.endsEarly(a, d); end != nil {
		return s.end(ctx, a, d, end)
	}

	// The best row, with what reviewers make of the rows: package choice.
	c, reviewed, end, err := s.chooser.Choose(ctx, &a.Try)
	d.Feasible = uint32(c.Feasible)
	switch {
	case err != nil:
		return s.broken(ctx, err)
	case end != nil: // with what may help the pod: PostFilter
		return s.end(ctx, a, d, end)
	case !reviewed:
		a.top = s.history.SpellOut(s.answers.Reader(), a.Class, &c, s.batch.begun, s.cfg.Now)
	}

	// The placement, which the next pod of the batch sees.
	s.aside.Afford(a.Class, c.Row)
	return s.place(ctx, a, d, c)
}

// commit begins what a panic may not stop any more.
func (s *Scheduler) commit() {
	s.batch.committing = true
	s.aside.LiftBound()
}

// broken ends the loop for an error, unless it is ending.
func (s *Scheduler) broken(ctx context.Context, err error) bool {
	if ctx.Err() == nil {
		s.fail(err)
	}
	return false
}

// end ends an attempt short of a node.
func (s *Scheduler) end(ctx context.Context, a *attempt, d *pb.Decision, end *choice.Ending) bool {
	if end.Parked {
		s.park(a)
		return true
	}
	a.failed, d.Message = end.Failed, end.Message
	if end.Failed != nil {
		d.Message = end.Failed.Error()
	}
	return s.unplaced(ctx, a, end.Answer, d, end.By)
}

// endsEarly is how an attempt ends without a look at any node; nil: it does not.
func (s *Scheduler) endsEarly(a *attempt, d *pb.Decision) *choice.Ending {
	switch {
	case d.Nodes == 0:
		return &choice.Ending{Message: noNodes}
	case a.failed != nil:
		return &choice.Ending{Failed: a.failed}
	case a.Class.Rejected != nil:
		return s.chooser.Rejected(a.Class.Rejected)
	}
	return nil
}

// nameOf is the name of a row's node.
func (s *Scheduler) nameOf(r cache.Row) string { return s.state.Table(int(r.Shard)).Name(r.Index) }

// place reserves the chosen row for a pod, and queues its bind:
//
//	volumes, devices ─ room ─ Reserve ─ Permit ──┐                 loop
//	   └───────────────┴────────┴─────────┴─ no: Unreserve, forget, back to the queue
//	┌───────────────────────────────────┘
//	└ the binding cycle                                            off the loop
//
// Volumes and devices come before the room: if they are not available any more, only what plugins hold has to be taken back.
// Out-of-tree plugins come last: they see the room as taken.
func (s *Scheduler) place(ctx context.Context, a *attempt, d *pb.Decision, c answers.Choice) bool {
	s.commit()
	a.Plugins.Close()
	a.Trace.Begin(tracing.Assume)
	d.Node, d.Score = s.nameOf(c.Row), c.Score
	pod := a.Pod.Obj
	got := s.state.Reserve(pod, a.Profile, a.Class, c.Row, s.answers.Evaluator())
	if got.NoVolumes != nil {
		s.metrics.AssumeFailed()
	}
	if got.NoDevices != nil {
		s.answers.Recovered() // it may have come by a panic
	}
	var held *bind.Reservation // what VolumeBinding and DynamicResources act on from Reserve on, where plugins run
	if a.Plugins != nil {
		held = &bind.Reservation{
			Work: got.Volumes, Failed: got.NoVolumes, Patience: a.Profile.BindTimeout(),
			Claims: got.Claims, ClaimsFailed: got.NoDevices, DevicesPatience: a.Profile.DevicesTimeout(),
		}
		held.KeepIn(a.Plugins.Cycle.State())
	}
	status := s.reserve(ctx, a, d, &got)
	if !status.IsSuccess() && !status.IsWait() {
		return s.unplace(ctx, a, d, &got, status)
	}
	d.Claims = got.Claims.Allocated()
	a.Trace.Decided(d)
	s.record(a, d, false, s.assumed(&got)...)
	s.bindPending(a, d)
	if status.IsWait() {
		// The pod is in flight until the wait is over: if it is refused then, events of the meantime count.
		s.queue.Reserved(a.Pod)
	} else {
		s.queue.Done(pod.UID)
	}
	if err := s.complete(a, &got, held); err != nil {
		return s.broken(ctx, err)
	}
	if log := klog.FromContext(ctx).V(4); log.Enabled() { // else the arguments alone are allocations
		log.Info("Placed", "pod", klog.KObj(pod), "node", d.Node, "score", d.Score, "feasible", d.Feasible, "waits", status.IsWait())
	}
	s.queueBind(a, d, &got)
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
func (s *Scheduler) unplace(ctx context.Context, a *attempt, d *pb.Decision, got *state.Reserved, status *fwk.Status) bool {
	if a.Plugins != nil {
		a.Plugins.Cycle.Unreserve(ctx, d.Node)
	}
	free := s.state.Storage().Unreserve(got.Volumes)
	if _, _, assumed := s.state.Pod(a.Pod.Obj.UID); assumed {
		s.intake.Forget(a.Pod.Obj, d.Node)
		s.batch.size.invalidate() // the answers of this batch know nothing of that
	}
	d.Node, d.Score, d.Feasible = "", 0, 0
	var by []string
	if status.IsRejected() {
		d.Message, by = oneNode(status), []string{status.Plugin()}
	} else {
		a.failed = status.AsError()
		d.Message = a.failed.Error()
	}
	s.record(a, d, a.failed != nil)
	s.refuse(ctx, a, d, by, &objects.Nominating{})
	for _, pv := range free {
		s.queue.Move(queue.VolumeUpdated(pv, pv))
	}
	s.claimsEnd(s.state.UnreserveDevices, got.Claims)
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

// decisionOf begins the decision of an attempt.
func (s *Scheduler) decisionOf(a *attempt) *pb.Decision {
	return &pb.Decision{
		Seq:     s.seq + 1,
		Pod:     a.Pod.Obj.Namespace + "/" + a.Pod.Obj.Name,
		Uid:     string(a.Pod.Obj.UID),
		Profile: a.Pod.Obj.Spec.SchedulerName,
		Nodes:   uint32(s.state.Nodes()),
	}
}

// record numbers a decision, keeps and logs it.
func (s *Scheduler) record(a *attempt, d *pb.Decision, failed bool, assumed ...objects.Object) {
	s.seq = d.Seq
	var trace string
	if a.Trace.Sampled() {
		trace = a.Trace.TraceID()
	}
	var top []*pb.ScoredNode
	if d.Node != "" {
		top = a.top
	}
	now := s.cfg.Now()
	kind, workload := observe.WorkloadOf(a.Pod.Obj)
	s.history.Remember(d, now, a.Pod.Attempts, observe.Circumstances{
		Top: top, Reviews: a.Reviews(d.Node), Trace: trace, Waited: s.cfg.QueueNow().Sub(a.Pod.Timestamp), Took: a.since(now),
		Kind: kind, Workload: workload, Preemption: a.preemption,
	})
	s.cfg.Decisions.Write(d)
	s.cfg.Recorder.Decision(d, failed, assumed)
	s.metrics.Decided()
}

// finish ends an attempt's trace, and keeps in mind where there is one.
func (s *Scheduler) finish(trace *tracing.Attempt, d *pb.Decision, r tracing.Result, err error) {
	if !trace.Finish(r, err) {
		return
	}
	s.history.Traced(types.UID(d.Uid), d.Seq, trace.TraceID())
}
