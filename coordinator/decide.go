package coordinator

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/aside"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/choice"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/tracing"
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

// awaitSearchesFor is awaitSearches for all attempts of a pod group: they wait for one class.
func (s *Scheduler) awaitSearchesFor(attempts []attempt, class *compile.Class) {
	s.metrics.Unfinished()
	for i := range attempts {
		s.aside.ForDevices(attempts[i].Pod, class)
		attempts[i].Trace.Finish(tracing.GivenBack, nil)
	}
}

// decideOne takes a pod through the steps of a decision, in their order. It is false where the loop has to end, or the batch.
func (s *Scheduler) decideOne(ctx context.Context, a *attempt) bool {
	a.Pod.Backfills = s.backfills(a.Pod) // a pod group before it in the batch may hold room since
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
		return s.chooser.Rejected(a.Class.Rejected, a.Within)
	}
	return nil
}

// nameOf is the name of a row's node.
func (s *Scheduler) nameOf(r cache.Row) string { return s.state.Table(int(r.Shard)).Name(r.Index) }

// decisionOf begins the decision of an attempt.
func (s *Scheduler) decisionOf(a *attempt) *pb.Decision {
	d := &pb.Decision{
		Seq:     s.seq + 1,
		Pod:     a.Pod.Obj.Namespace + "/" + a.Pod.Obj.Name,
		Uid:     string(a.Pod.Obj.UID),
		Profile: a.Pod.Obj.Spec.SchedulerName,
		Nodes:   uint32(s.state.Nodes()),
	}
	if g := a.Pod.Backfills; g != nil {
		d.Backfills = g.Name().String()
	}
	return d
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
