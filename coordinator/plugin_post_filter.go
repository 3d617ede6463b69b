package coordinator

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/outoftree"
	"github.com/shardsched/shardsched/coordinator/preempt"
	"github.com/shardsched/shardsched/scorer"
)

// PostFilter plugins that are compiled in are told what each node was turned away with (statuses).
//
// Where plugins have a say in a pod's node they have one in its candidates, too. Every row is tried
// here then, and each row that the built-in plugins would take is shown to them without its victims:
//
//	status of the row (built-in plugins', else the plugins') exactly Unschedulable
//	  └─ its pods of lower priority leave ── RemovePod each, in the view's order ── Filter
//	       └─ one after the other comes back ── AddPod ── Filter ── RemovePod where that refuses
//
// on a copy of the view, with a copy of the cycle's state, for each row.
//
// Differs from upstream: the plugins are asked behind the built-in plugins, whatever the profile's
// order, and are told of no pod on a row that the built-in plugins refuse even without all of its victims.

// answerFor is the answer that a dry run uses: answer, or where a plugin's PreFilter has rejected the pod in
// a way that victims may change, on all nodes, the answer of the class; nil: nothing helps.
func (s *Scheduler) answerFor(a *attempt, answer *answers.Answer) *answers.Answer {
	switch rejected := a.plugins.Rejected(); {
	case rejected == nil:
		return answer
	case rejected.Code() != fwk.Unschedulable:
		return nil
	}
	return s.answers.Repaired(a.class)
}

// pluginDryRuns are the plugins' part in the dry run of an attempt.
type pluginDryRuns struct {
	*Scheduler
	attempt *attempt
}

var _ preempt.Plugins = pluginDryRuns{}

// Judged is part of preempt.Plugins.
func (x pluginDryRuns) Judged(row cache.Row, node string) (judged, helps bool) {
	status, asked := x.attempt.plugins.Status(row, node)
	return asked, status.Code() == fwk.Unschedulable
}

// TakePart is part of preempt.Plugins.
func (x pluginDryRuns) TakePart(ctx context.Context, node string, check *scorer.RowCheck) (failed func() error) {
	review := x.attempt.plugins
	t := &pluginDryRun{Scheduler: x.Scheduler, review: review, cycle: review.Cycle, node: node}
	if review.Filters() {
		moved := check.Moved
		check.Ask = func() []scorer.Reason { return t.ask(ctx) }
		check.Moved = func(number uint64, back bool) {
			if moved != nil {
				moved(number, back)
			}
			t.move(ctx, number, back)
		}
	}
	return func() error { return t.failed }
}

// pluginDryRun shows plugins one node while pods leave it and come back.
type pluginDryRun struct {
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
func (t *pluginDryRun) move(ctx context.Context, number uint64, back bool) {
	pod, _ := t.state.PodNumbered(number)
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

func (t *pluginDryRun) remove(ctx context.Context, info fwk.PodInfo) {
	if err := t.view.RemovePod(klog.FromContext(ctx), info.GetPod()); err != nil {
		t.fail(err)
		return
	}
	t.fail(t.cycle.RemovePod(ctx, info, t.view).AsError())
}

func (t *pluginDryRun) fail(err error) {
	if t.failed == nil {
		t.failed = err
	}
}

// begin makes the copies, and has the pods leave that left before.
func (t *pluginDryRun) begin(ctx context.Context) {
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

// ask is why the plugins refuse the node as it is now; nothing where they take it.
func (t *pluginDryRun) ask(ctx context.Context) []scorer.Reason {
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

// statuses tells what each node was turned away with. It looks at every row.
func (s *Scheduler) statuses(a *attempt, answer *answers.Answer) *framework.NodeStatuses {
	out := framework.NewNodeStatuses()
	h := a.plugins
	switch {
	case h.Rejected() != nil:
		out.SetAbsent(h.Rejected())
		return out
	case answer == nil:
		if r := a.class.Rejected; r != nil {
			out.SetAbsent(outoftree.StatusOf([]scorer.Reason{{Plugin: strings.Join(r.Plugins, " "), Text: r.Message, Unresolvable: r.Unresolvable}}))
		}
		return out
	}
	if left := h.LeftOut(); left != nil {
		out.SetAbsent(left)
	}
	for shard := range s.state.NumShards() {
		for index := range s.state.Table(shard).All() {
			row := cache.Row{Shard: uint32(shard), Index: index}
			name := s.nameOf(row)
			if h.LeavesOut(name) {
				continue
			}
			if status, _ := h.Status(row, name); !status.IsSuccess() {
				out.Set(name, status)
				continue
			}
			why := answer.WhyRefused(row)
			if len(why) == 0 {
				why = a.extenders.WhyRefused(name)
			}
			status := outoftree.StatusOf(why)
			if status == nil {
				status = fwk.NewStatus(fwk.Unschedulable)
			}
			out.Set(name, status)
		}
	}
	return out
}
