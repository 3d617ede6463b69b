package outoftree

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/rules"
)

// Review is what the out-of-tree plugins of a profile make of one attempt. The loop has it as a reviewer. A nil one is that of a
// profile without them.
type Review struct {
	// Cycle runs the plugins.
	Cycle   *framework.Cycle
	plugins *Plugins
	profile *Profile
	pod     *queue.Pod
	class   *compile.Class
	// only are the nodes that PreFilter plugins leave, by name, and narrowedBy these plugins; nil:
	// all of them.
	only       sets.Set[string]
	narrowedBy sets.Set[string]
	// asked are the rows whose nodes the plugins were shown, with what Filter said; nil: it fits.
	asked map[cache.Row]*fwk.Status
	// refused are the rows of asked that Filter has refused, in the order in which they were shown.
	refused []cache.Row
	// scores are what Score gave the rows that were left; nil: it was not asked.
	scores []fwk.NodePluginScores
	// rejected is the status of all nodes where PreFilter has rejected the pod; nil: it has not.
	rejected *fwk.Status
	// prepared is what the built-in plugins tell the others; nil: nothing yet.
	prepared *prepared
}

// Review opens the review of an attempt, and all that plugins are shown, until End; nil: the pod's profile has no plugins for it.
func (g *Plugins) Review(pod *queue.Pod, class *compile.Class) *Review {
	p := g.Of(pod.Obj)
	if p == nil {
		return nil
	}
	g.nominator.refresh()
	g.snapshot.Begin()
	return &Review{plugins: g, profile: p, pod: pod, class: class, Cycle: p.NewCycle(pod.Obj), asked: map[cache.Row]*fwk.Status{}}
}

// End closes what plugins are shown.
func (r *Review) End() {
	r.Close()
	r.plugins.snapshot.End()
}

// Wants is part of reviewer: it runs PreFilter, after the built-in plugins', which have not rejected the pod. A pod for which
// all plugins skip their part is not wanted.
func (r *Review) Wants(ctx context.Context) (wants bool, rejected *compile.Rejection, err error) {
	r.prepare()
	result, status, plugins := r.Cycle.PreFilter(ctx)
	switch {
	case status.IsSuccess():
	case status.IsRejected():
		by := sets.List(plugins)
		if status.Plugin() != "" {
			by = []string{status.Plugin()}
		}
		return false, r.reject(status, by), nil
	default:
		return false, nil, status.AsError()
	}
	if !result.AllNodes() {
		r.only, r.narrowedBy = result.NodeNames, plugins
		if own := r.class.Query.GetNarrowed(); own != nil {
			r.only = r.only.Intersection(sets.New(own.GetNames()...))
			r.narrowedBy = plugins.Clone().Insert(rules.NodeAffinity)
			if len(r.only) == 0 {
				none := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, framework.NothingLeft(r.narrowedBy))
				return false, r.reject(none, sets.List(r.narrowedBy)), nil
			}
		}
	}
	return r.only != nil || r.profile.scores || !r.skipFilters(), nil, nil
}

// skipFilters tells whether all plugins at Filter skip it for the pod.
func (r *Review) skipFilters() bool {
	skip := r.Cycle.State().GetSkipFilterPlugins()
	return !slices.ContainsFunc(r.profile.filterNames, func(name string) bool { return !skip.Has(name) })
}

// reject notes that PreFilter has rejected the pod on all nodes.
func (r *Review) reject(status *fwk.Status, by []string) *compile.Rejection {
	r.rejected = status
	return &compile.Rejection{Plugins: by, Message: status.Message(), Unresolvable: status.Code() == fwk.UnschedulableAndUnresolvable}
}

// Narrowed are the nodes that PreFilter plugins have left, if they have not left all.
func (r *Review) Narrowed() (names []string, narrowed bool) {
	if r == nil || r.only == nil {
		return nil, false
	}
	return sets.List(r.only), true
}

// Takes is part of reviewer.
func (r *Review) Takes(ctx context.Context, row answers.Row) bool {
	left, _, err := r.Narrow(ctx, []answers.Row{row})
	return err == nil && len(left) > 0
}

// Narrow is part of reviewer: it shows the nodes of rows to Filter plugins. A row that they have seen in this attempt is not
// shown again.
func (r *Review) Narrow(ctx context.Context, rows []answers.Row) (left []answers.Row, wait bool, err error) {
	if !r.profile.filters {
		return rows, false, nil
	}
	unseen := make([]answers.Row, 0, len(rows))
	for _, row := range rows {
		if _, seen := r.asked[row.Row]; !seen {
			unseen = append(unseen, row)
		}
	}
	if len(unseen) > 0 {
		nodes, err := r.show(unseen)
		if err != nil {
			return nil, false, err
		}
		defer r.measure(framework.Filter, len(nodes), r.plugins.Now())
		statuses, failed := r.Cycle.FilterNodes(ctx, nodes)
		if failed != nil {
			return nil, false, failed.AsError()
		}
		for i, row := range unseen {
			if r.asked[row.Row] = statuses[i]; !statuses[i].IsSuccess() {
				r.refused = append(r.refused, row.Row)
			}
		}
	}
	left = rows[:0]
	for _, row := range rows {
		if r.asked[row.Row].IsSuccess() {
			left = append(left, row)
		}
	}
	return left, false, nil
}

// show gives the views of rows' nodes.
func (r *Review) show(rows []answers.Row) ([]fwk.NodeInfo, error) {
	nodes := make([]fwk.NodeInfo, len(rows))
	for i, row := range rows {
		node, err := r.plugins.snapshot.Get(r.plugins.Cache.Table(int(row.Shard)).Name(row.Index))
		if err != nil {
			return nil, err
		}
		nodes[i] = node
	}
	return nodes, nil
}

// Score is part of reviewer.
func (r *Review) Score(ctx context.Context, rows []answers.Row, totals []int64) error {
	if !r.profile.scores {
		return nil
	}
	nodes, err := r.show(rows)
	if err != nil {
		return err
	}
	defer r.measure(framework.Score, len(nodes), r.plugins.Now())
	if status := r.Cycle.PreScore(ctx, nodes); !status.IsSuccess() {
		return status.AsError()
	}
	scores, status := r.Cycle.Score(ctx, nodes)
	if !status.IsSuccess() {
		return status.AsError()
	}
	r.scores = scores
	for i := range scores {
		totals[i] += scores[i].TotalScore
	}
	return nil
}

// measure counts the nodes that plugins were shown, and the time since begun.
func (r *Review) measure(at framework.Point, nodes int, begun time.Time) {
	profile, took := r.profile.Name(), r.plugins.Now().Sub(begun)
	r.plugins.Metrics.Counter("shardsched_guest_nodes_total", profile, at.String()).Add(float64(nodes))
	r.plugins.Metrics.Counter("shardsched_guest_seconds_total", profile, at.String()).Add(took.Seconds())
}

// Reasons is part of reviewer.
func (r *Review) Reasons(into answers.Reasons) (by []string) {
	for _, status := range r.asked {
		if status.IsSuccess() {
			continue
		}
		for _, text := range status.Reasons() {
			into[answers.Reason{Plugin: status.Plugin(), Text: text, Unresolvable: status.Code() == fwk.UnschedulableAndUnresolvable}]++
		}
	}
	return nil
}

// NarrowedRefusal is the message where PreFilter plugins have left some nodes only: all others are
// refused for that.
func (r *Review) NarrowedRefusal(answer *answers.Answer, reasons answers.Reasons) (string, []string) {
	left := 0
	for _, name := range sets.List(r.only) {
		row, ok := r.plugins.Cache.RowOf(name)
		if !ok {
			continue
		}
		left++
		reasons.Add(answer.WhyRefused(row), 1)
	}
	narrowed := answers.Reason{Plugin: strings.Join(sets.List(r.narrowedBy), " "), Text: framework.LeftOut(r.narrowedBy).Message()}
	reasons[narrowed] += r.plugins.Cache.Nodes() - left
	message, by := reasons.Message(r.plugins.Cache.Nodes())
	return message, sets.List(sets.New(by...).Union(r.narrowedBy))
}

// Status is part of preempt.Plugins, as are Rejected and Judges: what plugins say of a row's node, and whether they say anything.
func (r *Review) Status(row cache.Row, node string) (status *fwk.Status, said bool) {
	switch {
	case r == nil:
		return nil, false
	case r.rejected != nil:
		return r.rejected, true
	}
	if status, said = r.asked[row]; said {
		return status, true
	}
	if r.leavesOut(node) {
		return framework.LeftOut(r.narrowedBy), true
	}
	return nil, false
}

// Rejected is the status of all nodes where PreFilter has rejected the pod; nil: it has not.
func (r *Review) Rejected() *fwk.Status {
	if r == nil {
		return nil
	}
	return r.rejected
}

// leftOut is the status of the nodes that PreFilter plugins leave out; nil: they leave out none.
func (r *Review) leftOut() *fwk.Status {
	if r.only == nil {
		return nil
	}
	return framework.LeftOut(r.narrowedBy)
}

// leavesOut tells whether PreFilter plugins leave a node out. The pod's own nominated node is tried all the same.
func (r *Review) leavesOut(node string) bool {
	return r.only != nil && !r.only.Has(node) && node != r.pod.Nomination()
}

// Judges tells whether plugins have a say in which nodes can have the pod.
func (r *Review) Judges() bool {
	return r != nil && (r.profile.filters || r.only != nil || r.rejected != nil)
}

// Assume runs write, which assumes the pod on its node: plugins see it there from End on.
func (r *Review) Assume(node string, write func()) {
	r.plugins.snapshot.Assume(r.pod.Obj.UID, node, write)
}
