package outoftree

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/scorer"
)

// PostFilter plugins that are compiled in are told what each node was turned away with (Statuses).
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

// TakePart is part of preempt.Plugins.
func (r *Review) TakePart(ctx context.Context, node string, check *scorer.RowCheck) (failed func() error) {
	t := &dryRun{review: r, cycle: r.Cycle, node: node}
	if r.profile.filters {
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

// dryRun shows plugins one node while pods leave it and come back.
type dryRun struct {
	review *Review
	cycle  *framework.Cycle
	node   string
	// view is the node as it is then; nil: nobody has looked yet, and leaving are the pods that left.
	view    fwk.NodeInfo
	leaving map[types.UID]fwk.PodInfo
	// failed ends it.
	failed error
}

// move takes a pod from the node, or brings it back.
func (t *dryRun) move(ctx context.Context, number uint64, back bool) {
	pod, _ := t.review.plugins.Cache.PodNumbered(number)
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

func (t *dryRun) remove(ctx context.Context, info fwk.PodInfo) {
	if err := t.view.RemovePod(klog.FromContext(ctx), info.GetPod()); err != nil {
		t.fail(err)
		return
	}
	t.fail(t.cycle.RemovePod(ctx, info, t.view).AsError())
}

func (t *dryRun) fail(err error) {
	if t.failed == nil {
		t.failed = err
	}
}

// begin makes the copies, and has the pods leave that left before.
func (t *dryRun) begin(ctx context.Context) {
	node, err := t.review.plugins.snapshot.Get(t.node)
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
func (t *dryRun) ask(ctx context.Context) []scorer.Reason {
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

// Statuses tells what each node was turned away with. It looks at every row. answer is the answer of the class; nil: a built-in
// PreFilter has rejected the pod. extenders tells why they have refused a node that passes all else.
func (r *Review) Statuses(answer *answers.Answer, extenders func(node string) []scorer.Reason) *framework.NodeStatuses {
	out := framework.NewNodeStatuses()
	switch {
	case r.rejected != nil:
		out.SetAbsent(r.rejected)
		return out
	case answer == nil:
		if by := r.class.Rejected; by != nil {
			out.SetAbsent(statusOf([]scorer.Reason{{Plugin: strings.Join(by.Plugins, " "), Text: by.Message, Unresolvable: by.Unresolvable}}))
		}
		return out
	}
	if left := r.leftOut(); left != nil {
		out.SetAbsent(left)
	}
	nodes := r.plugins.Cache
	for shard := range nodes.NumShards() {
		table := nodes.Table(shard)
		for index := range table.All() {
			row, name := cache.Row{Shard: uint32(shard), Index: index}, table.Name(index)
			if r.leavesOut(name) {
				continue
			}
			if status, _ := r.Status(row, name); !status.IsSuccess() {
				out.Set(name, status)
				continue
			}
			why := answer.WhyRefused(row)
			if len(why) == 0 {
				why = extenders(name)
			}
			status := statusOf(why)
			if status == nil {
				status = fwk.NewStatus(fwk.Unschedulable)
			}
			out.Set(name, status)
		}
	}
	return out
}
