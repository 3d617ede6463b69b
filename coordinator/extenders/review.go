package extenders

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/tracing"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// MaxRounds is how often extenders are asked in one attempt: again where nothing of what they have kept is left by then, and
// there are nodes that they were not asked about. An extender whose nodes are always gone by then holds the pod up no longer.
const MaxRounds = 3

// Review is what the extenders that are interested in a pod make of one attempt for it.
type Review struct {
	lane  *Lane
	pod   *queue.Pod
	trace *tracing.Attempt
	said  *answer // nil: nothing, since the attempt has begun or they were asked last
}

// answer is what extenders have said of nodes.
type answer struct {
	// asked are the nodes that they were asked about, by name. A node that is feasible now and that they were not asked about is
	// not chosen.
	asked map[string]struct{}
	// refused says why nodes among them, or others, can not have the pod.
	refused map[string]scorer.Reason
	// scores are added to the nodes' totals, with their weights.
	scores map[string]int64
	// plugins are counted among those that have rejected the pod, should it find no node.
	plugins []string
	// err ends the attempt; nil: it goes on.
	err error
	// rounds is how often they were asked in this attempt.
	rounds int
	// told are the reasons of the nodes that pass all else, at the last look at them.
	told []scorer.Reason
	// reviews is what each extender refused, for people, and added what it added to the scores of nodes, by name; nil: it scored none.
	reviews []*pb.Review
	added   []map[string]int64
}

// unsaid is why a node is refused of which an extender says nothing: no preemption changes that,
// and no message tells it.
var unsaid = scorer.Reason{Plugin: extender.Rejector, Unresolvable: true}

// Review opens the review of an attempt; nil: no extender has a say in where the pod goes.
func (l *Lanes) Review(p *queue.Pod, trace *tracing.Attempt) *Review {
	list := l.Interested(p.Obj)
	if len(list) == 0 {
		return nil
	}
	return &Review{lane: l.Lane("", list), pod: p, trace: trace}
}

// Answered tells whether the extenders have answered. nil will do, here and for WhyRefused.
func (r *Review) Answered() bool { return r != nil && r.said != nil }

// WhyRefused is why a node is out, also where nobody was asked about it; nil: it is not, or nobody has answered.
func (r *Review) WhyRefused(node string) []scorer.Reason {
	if !r.Answered() {
		return nil
	}
	return r.said.whyRefused(node)
}

func (x *answer) whyRefused(node string) []scorer.Reason {
	if r, ok := x.refused[node]; ok {
		return []scorer.Reason{r}
	}
	if _, asked := x.asked[node]; !asked {
		return []scorer.Reason{unsaid}
	}
	return nil
}

// Wants is true: a pod in which no extender is interested has no review.
func (r *Review) Wants(context.Context) (bool, *compile.Rejection, error) { return true, nil, nil }

// Takes tells whether the extenders have kept a node. They are not asked about one alone.
func (r *Review) Takes(_ context.Context, row answers.Row) bool {
	return r.Answered() && r.WhyRefused(r.name(row)) == nil
}

// Narrow leaves of the rows those that the extenders have kept. With wait they are about to be asked: the attempt is to be
// parked.
//
// Differs from upstream: scores are of the nodes as they are. Upstream's see what an extender
// without a cache of nodes returns, without pods and images. Reasons of nodes that an extender was
// not asked about are not counted.
func (r *Review) Narrow(ctx context.Context, rows []answers.Row) (left []answers.Row, wait bool, err error) {
	if len(rows) == 0 && !(r.Answered() && r.said.err != nil) {
		return rows, false, nil
	}
	if r.Answered() {
		r.trace.End(tracing.Extenders)
	}
	if !r.serves(rows) && r.ask(ctx, rows) {
		return nil, true, nil
	}
	if r.said.err != nil {
		return nil, false, r.said.err
	}
	r.said.told = r.said.told[:0]
	left = rows[:0]
	for _, row := range rows {
		if why := r.said.whyRefused(r.name(row)); why != nil {
			r.said.told = append(r.said.told, why...)
		} else {
			left = append(left, row)
		}
	}
	return left, false, nil
}

// Score adds the extenders' scores.
func (r *Review) Score(_ context.Context, rows []answers.Row, totals []int64) error {
	for i, row := range rows {
		totals[i] += r.said.scores[r.name(row)]
	}
	return nil
}

// Reasons adds why nodes were refused that pass all else, and names who has refused without a reason.
func (r *Review) Reasons(into answers.Reasons) (by []string) {
	if !r.Answered() {
		return nil
	}
	by = slices.Clone(r.said.plugins)
	for _, why := range r.said.told {
		if why == unsaid {
			by = append(by, why.Plugin)
		} else {
			into.Add([]scorer.Reason{why}, 1)
		}
	}
	return by
}

func (r *Review) name(row answers.Row) string {
	return r.lane.all.cache.Table(int(row.Shard)).Name(row.Index)
}

// serves tells whether there is an answer that serves: it keeps a row that passes, or there is
// nothing more to ask.
func (r *Review) serves(rows []answers.Row) bool {
	x := r.said
	if x == nil {
		return false
	}
	if x.err != nil || x.rounds >= MaxRounds {
		return true
	}
	more := false
	for _, row := range rows {
		name := r.name(row)
		_, asked := x.asked[name]
		if _, refused := x.refused[name]; asked && !refused {
			return true
		}
		more = more || !asked
	}
	return !more
}

// ask asks about the nodes that the pod could have, if it is its turn. An answer to a question before is void.
func (r *Review) ask(ctx context.Context, rows []answers.Row) (wait bool) {
	all := r.lane.all
	q := question{list: r.lane.list, pod: r.pod.Obj, own: r.pod.Nomination(), round: 1}
	if r.said != nil {
		q.round += r.said.rounds
	}
	r.said = nil
	r.trace.Begin(tracing.Extenders)
	if !r.lane.Turn(r.pod) {
		return true
	}
	for _, row := range rows {
		q.nodes = append(q.nodes, all.cache.Node(r.name(row)))
	}
	if !all.inline {
		all.loop.Rejoin(r.pod) // the answer may not know of what happens from now on
	}
	wait = r.lane.Ask(ctx, r.pod, func(ctx context.Context) func() {
		said := q.ask(ctx)
		return func() { r.said = said }
	})
	if !wait {
		r.trace.End(tracing.Extenders)
	}
	return wait
}

// question is what extenders are asked about one pod.
type question struct {
	list  []*extender.Extender
	pod   *v1.Pod
	own   string // the node that it is nominated to
	nodes []*v1.Node
	round int
}

// ask asks, and puts the answer into words for the pod's decision.
func (q *question) ask(ctx context.Context) *answer {
	slices.SortFunc(q.nodes, func(x, y *v1.Node) int { return cmp.Compare(x.Name, y.Name) })
	own := -1
	if q.own != "" {
		own = slices.IndexFunc(q.nodes, func(n *v1.Node) bool { return n.Name == q.own })
	}
	out := &answer{rounds: q.round, asked: make(map[string]struct{}, len(q.nodes)), refused: map[string]scorer.Reason{}}
	said, err := extender.Ask(ctx, q.list, extender.Inquiry{Pod: q.pod, Nodes: q.nodes, Own: own})
	if err != nil {
		out.err = err
		return out
	}
	if said.Alone {
		// Nobody has said anything of the others.
		out.asked[q.own] = struct{}{}
		return out
	}
	out.reviews, out.added = q.reviews(said), q.added(said)
	out.scores = said.Kept
	if said.Narrowed {
		out.plugins = []string{extender.Rejector}
	}
	for name, r := range said.Refused {
		if _, kept := said.Kept[name]; !kept && !r.Silent {
			out.refused[name] = scorer.Reason{Text: r.Reason, Unresolvable: r.Unresolvable}
		}
	}
	for _, n := range q.nodes {
		out.asked[n.Name] = struct{}{}
		_, kept := said.Kept[n.Name]
		if _, told := out.refused[n.Name]; !kept && !told {
			out.refused[n.Name] = unsaid
		}
	}
	return out
}
