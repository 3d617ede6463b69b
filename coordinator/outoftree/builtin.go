package outoftree

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// Out-of-tree plugins may ask by their Handle what the built-in plugins say of a node whose view they have
// changed, as a preemption of their own does. The view's row is judged then, without the pods that
// are missing in the view and with those that it has besides:
//
//	view ── pods of the row that are not in it ──> gone
//	  └──── pods in it that are not on the row ──> joined ──> filters of the pod's class
//
// One question takes as long as one row of a dry run of preemption, and the questions about one
// attempt are answered one after the other. What a class counts over all nodes is counted anew,
// once in an attempt, and for each question about scores.
//
// Differs from upstream: the built-in plugins judge the pod of the cycle that the state is from,
// whatever pod is asked about, and nodes of the snapshot only; what they count over all nodes
// moves with the view's pods, not with RunPreFilterExtensionAddPod and RemovePod, and not with other
// views. Scores are of nodes as they are, and a plugin that has none to give is left out. They answer
// from PreFilter until Score or PostFilter has ended.

// prepared is what the built-in plugins know of one attempt. It stands in the cycle's state. Any
// goroutine may use it; while it is open the loop writes to no table.
type prepared struct {
	plugins *Plugins
	pod     *v1.Pod
	class   *compile.Class

	mu    sync.Mutex
	ended bool
	eval  *scorer.Evaluator // nil: nobody has asked yet
	wide  *scorer.Class     // that of class, without what a PreFilter narrows
	asked *scorer.Preemption
}

const preparedKey fwk.StateKey = "shardsched.io/prepared"

// Clone is part of fwk.StateData: there is one for all copies.
func (b *prepared) Clone() fwk.StateData { return b }

// prepare has the built-in plugins answer to the others of an attempt, until it ends.
func (r *Review) prepare() {
	r.prepared = &prepared{plugins: r.plugins, pod: r.pod.Obj, class: r.class}
	r.Cycle.State().Write(preparedKey, r.prepared)
}

// Close has the built-in plugins answer no more, for the loop is about to write to tables.
func (r *Review) Close() {
	if r == nil || r.prepared == nil {
		return
	}
	r.prepared.mu.Lock()
	defer r.prepared.mu.Unlock()
	r.prepared.ended = true
}

// begin gets ready for the first question.
func (b *prepared) begin() {
	if b.eval != nil {
		return
	}
	class := b.class.Scorer.Unnarrowed()
	b.eval, b.wide, b.asked = scorer.NewEvaluator(nil), class.Pin(b.plugins.Cache.Tables), &scorer.Preemption{}
	if class.FiltersGroups() {
		b.asked.Whole = b.count()
	}
}

// errCycleOver is what is said to those who ask too late.
var errCycleOver = errors.New("the built-in plugins can be asked during a scheduling cycle only, up to Score and PostFilter")

// filter judges a node as its view is.
func (b *prepared) filter(node fwk.NodeInfo) *fwk.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return fwk.AsStatus(errCycleOver)
	}
	b.begin()
	name := node.Node().Name
	row, ok := b.plugins.Cache.RowOf(name)
	if !ok {
		return fwk.AsStatus(fmt.Errorf("the built-in plugins know nodes of the snapshot only: there is no node %s", name))
	}
	gone, joined := b.compare(node)
	table := b.plugins.Cache.Table(int(row.Shard))
	var check *scorer.RowCheck
	if len(joined) > 0 {
		var left []*v1.Pod
		for _, number := range gone {
			pod, _ := b.plugins.Cache.PodNumbered(number)
			left = append(left, pod)
		}
		check = b.plugins.Loop.Joining(row, name, joined, left, b.pod, b.class)
	}
	return statusOf(b.eval.WhyRefused(table, row.Index, b.wide, b.asked, gone, check))
}

// compare finds the pods of a node that are not in its view, by number, and those that are in the
// view besides.
func (b *prepared) compare(node fwk.NodeInfo) (gone []uint64, joined []*v1.Pod) {
	c := b.plugins.Cache
	there := make(map[types.UID]struct{}, len(node.GetPods()))
	for _, p := range node.GetPods() {
		uid := p.GetPod().UID
		there[uid] = struct{}{}
		if _, on, _ := c.Pod(uid); on != node.Node().Name {
			joined = append(joined, p.GetPod())
		}
	}
	for p := range c.PodsOn(node.Node().Name) {
		if _, ok := there[p.UID]; !ok {
			gone = append(gone, c.NumberOf(p.UID))
		}
	}
	slices.Sort(gone)
	return gone, joined
}

// statusOf is a refusal as plugins see it; nil: there is none.
func statusOf(why []scorer.Reason) *fwk.Status {
	if len(why) == 0 {
		return nil
	}
	code, plugin := fwk.Unschedulable, ""
	texts := make([]string, 0, len(why))
	for _, r := range why {
		if r.Unresolvable {
			code = fwk.UnschedulableAndUnresolvable
		}
		texts, plugin = append(texts, r.Text), r.Plugin
	}
	return fwk.NewStatus(code, texts...).WithPlugin(plugin)
}

// builtIns runs the built-in plugins for the others.
type builtIns struct{}

var _ framework.BuiltInRunner = builtIns{}

// Filter is part of framework.BuiltInRunner.
func (builtIns) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	b, err := preparedIn(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	return b.filter(node)
}

func preparedIn(state fwk.CycleState) (*prepared, error) {
	data, err := state.Read(preparedKey)
	if err != nil {
		return nil, fmt.Errorf("the built-in plugins have prepared nothing in this state: %w", err)
	}
	b, ok := data.(*prepared)
	if !ok {
		return nil, errors.New("what the built-in plugins had prepared was replaced in the cycle's state")
	}
	return b, nil
}

// Move is part of framework.BuiltInRunner: Filter sees it by the view.
func (builtIns) Move(context.Context, fwk.CycleState, *v1.Pod, fwk.PodInfo, fwk.NodeInfo, bool) *fwk.Status {
	return nil
}

// Score is part of framework.BuiltInRunner.
func (builtIns) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, nodes []fwk.NodeInfo) ([][]fwk.PluginScore, *fwk.Status) {
	b, err := preparedIn(state)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	return b.score(nodes)
}

// score scores nodes as they are in the tables, as if no others were feasible.
func (b *prepared) score(nodes []fwk.NodeInfo) ([][]fwk.PluginScore, *fwk.Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return nil, fwk.AsStatus(errCycleOver)
	}
	b.begin()
	if b.class.ScoreError != nil {
		return nil, fwk.AsStatus(b.class.ScoreError)
	}
	groups := make([]int, len(nodes))
	whole := b.count()
	for i := range whole.Groups {
		whole.Groups[i].Rows = 0
	}
	var v scorer.Verdict
	for i, node := range nodes {
		name := node.Node().Name
		row, ok := b.plugins.Cache.RowOf(name)
		if ok {
			b.eval.Row(b.plugins.Cache.Table(int(row.Shard)), row.Index, nil, b.wide, true, &v)
			groups[i] = whole.GroupOf(&v)
		}
		if !ok || groups[i] < 0 {
			return nil, fwk.AsStatus(fmt.Errorf("the built-in plugins score nodes that they let through only: not %s", name))
		}
		whole.Groups[groups[i]].Rows++
	}
	var standing scorer.Standing
	b.wide.Settle(whole, &standing)
	out := make([][]fwk.PluginScore, len(nodes))
	for i, node := range nodes {
		if !standing.Groups[groups[i]].Feasible {
			return nil, fwk.AsStatus(fmt.Errorf("the built-in plugins score nodes that they let through only: not %s", node.Node().Name))
		}
		row, _ := b.plugins.Cache.RowOf(node.Node().Name)
		own := map[pb.Plugin]fwk.PluginScore{}
		for _, x := range b.eval.Scores(b.plugins.Cache.Table(int(row.Shard)), row.Index, nil, b.wide) {
			own[x.Plugin] = fwk.PluginScore{Name: x.Name(), Score: x.Raw * x.Weight}
		}
		for _, x := range b.wide.GroupScores(whole, &standing, groups[i]) {
			own[x.Plugin] = fwk.PluginScore{Name: scorer.PluginName(x.Plugin), Score: x.Normalised * x.Weight}
		}
		for _, w := range b.class.Query.Scores {
			if x, ok := own[w.Plugin]; ok {
				out[i] = append(out[i], x)
			}
		}
	}
	return out, nil
}

// count is the class's answer over all rows, with every row that is in a group.
func (b *prepared) count() *scorer.Result {
	whole := &scorer.Result{}
	whole.Reset(b.wide.ID(), 0)
	var v scorer.Verdict
	for shard := range b.plugins.Cache.NumShards() {
		t := b.plugins.Cache.Table(shard)
		for row := range t.All() {
			b.eval.Row(t, row, nil, b.wide, true, &v)
			whole.Move(b.wide, &v, +1)
		}
	}
	return whole
}
