package coordinator

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/outoftree"
	"github.com/shardsched/shardsched/scorer"
)

// Where guests have a say in a pod's node they have one in its candidates, too. Every row is tried
// here then, and each that the built-in plugins would take is shown to them without its victims:
//
//	status of the row (built-in plugins', else the guests') exactly Unschedulable
//	  └─ its pods of lower priority leave ── RemovePod each, in the view's order ── Filter
//	       └─ one after the other comes back ── AddPod ── Filter ── RemovePod where that refuses
//
// on a copy of the view, with a copy of the cycle's state, for each row.
//
// Differs from upstream: the guests are asked behind the built-in plugins, whatever the profile's
// order, and are told of no pod on a row that those refuse even without all of its victims.

// answerFor is the answer that a dry run goes by: p, or where a guest's PreFilter has rejected the pod in
// a way that victims may change, on all nodes, that of the class; nil: nothing helps.
func (s *Scheduler) answerFor(a *attempt, p *answers.Answer) *answers.Answer {
	switch rejected := a.plugins.Rejected(); {
	case rejected == nil:
		return p
	case rejected.Code() != fwk.Unschedulable:
		return nil
	}
	return s.answers.Repaired(a.class)
}

// tryHere tries one row for an attempt that guests have a say in. The error is why a row can not be
// tried: with other candidates it does not count.
func (s *Scheduler) tryHere(ctx context.Context, a *attempt, p *answers.Answer, asked *scorer.Preemption, row cache.Row, n *nominee) (scorer.PreemptionResult, error) {
	out := judgedRow{}
	out.result.Reset(p.Class().ID(), 1)
	table := s.cache.Table(int(row.Shard))
	name := table.Name(row.Index)
	check := s.checkOf(p, n, table)
	status, known := a.plugins.Status(row, name)
	if known && status.Code() != fwk.Unschedulable {
		return out.result, nil
	}
	check.Refused = known
	t := &rehearsal{Scheduler: s, review: a.plugins, cycle: a.plugins.Cycle, node: name}
	if a.plugins.Filters() {
		moved := check.Moved
		check.Ask = func() []scorer.Reason { return t.ask(ctx) }
		check.Moved = func(number uint64, back bool) {
			if moved != nil {
				moved(number, back)
			}
			t.move(ctx, number, back)
		}
	}
	s.metrics.dryRunRows.Inc()
	outcome, candidate, why := s.eval().PreemptRow(table, row.Index, p.Class(), asked, check)
	switch {
	case t.failed != nil:
		out.result.Tried = 1
		return out.result, t.failed
	case outcome == scorer.AlreadyFits:
		out.result.Tried = 1
		return out.result, fmt.Errorf("expected at least one victim pod on node %q", name)
	}
	out.take(outcome, candidate, why)
	return out.result, nil
}

// rehearsal shows guests one node while pods leave it and come back.
type rehearsal struct {
	*Scheduler
	review *outoftree.Review
	cycle  *framework.Cycle
	node   string
	// view is the node as it is then; nil: nobody has looked yet, and leaving are the pods that left.
	view    fwk.NodeInfo
	leaving map[types.UID]fwk.PodInfo
	// failed ends it.
	failed error
}

// move takes a pod from the node, or brings it back.
func (t *rehearsal) move(ctx context.Context, number uint64, back bool) {
	pod, _ := t.cache.PodNumbered(number)
	switch {
	case t.failed != nil || pod == nil:
	case t.view == nil:
		if t.leaving == nil {
			t.leaving = map[types.UID]fwk.PodInfo{}
		}
		t.leaving[pod.UID] = nil
	case back:
		info := t.leaving[pod.UID]
		t.view.AddPodInfo(info)
		t.fail(t.cycle.AddPod(ctx, info, t.view).AsError())
	default:
		t.remove(ctx, t.leaving[pod.UID])
	}
}

func (t *rehearsal) remove(ctx context.Context, info fwk.PodInfo) {
	if err := t.view.RemovePod(klog.FromContext(ctx), info.GetPod()); err != nil {
		t.fail(err)
		return
	}
	t.fail(t.cycle.RemovePod(ctx, info, t.view).AsError())
}

func (t *rehearsal) fail(err error) {
	if t.failed == nil {
		t.failed = err
	}
}

// begin makes the copies, and has the pods leave that left before.
func (t *rehearsal) begin(ctx context.Context) {
	node, err := t.review.View(t.node)
	if err != nil {
		t.fail(err)
		return
	}
	t.view, t.cycle = node.Snapshot(), t.cycle.Clone()
	for _, info := range node.GetPods() {
		if _, leaves := t.leaving[info.GetPod().UID]; leaves && t.failed == nil {
			t.leaving[info.GetPod().UID] = info
			t.remove(ctx, info)
		}
	}
}

// ask is why the guests refuse the node as it is now; nothing where they take it.
func (t *rehearsal) ask(ctx context.Context) []scorer.Reason {
	first := t.view == nil
	if first {
		t.begin(ctx)
	}
	if t.failed != nil {
		return []scorer.Reason{{Text: t.failed.Error()}}
	}
	status := t.cycle.Filter(ctx, t.view)
	if status.IsSuccess() {
		return nil
	}
	if first && !status.IsRejected() {
		t.fail(status.AsError())
	}
	var out []scorer.Reason
	for _, text := range status.Reasons() {
		out = append(out, scorer.Reason{Plugin: status.Plugin(), Text: text, Unresolvable: status.Code() == fwk.UnschedulableAndUnresolvable})
	}
	if len(out) == 0 {
		out = append(out, scorer.Reason{Plugin: status.Plugin()})
	}
	return out
}

// victimsOf are the pods of a candidate.
func (s *Scheduler) victimsOf(by *v1.Pod, c *scorer.PreemptionCandidate) ([]*v1.Pod, error) {
	out := make([]*v1.Pod, 0, len(c.Victims))
	for _, number := range c.Victims {
		victim, _ := s.cache.PodNumbered(number)
		if victim == nil {
			return nil, fmt.Errorf("preempt for pod %s/%s on node %s: pod number %d is not known", by.Namespace, by.Name, c.Name, number)
		}
		out = append(out, victim)
	}
	return slices.Clip(out), nil
}
