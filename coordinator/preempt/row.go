package preempt

import (
	"context"
	"fmt"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/nominees"
	"github.com/shardsched/shardsched/scorer"
)

// triedRow is what the dry run of one row has come to, made here.
type triedRow struct {
	promised *nominees.Nominee // the pods that are nominated to it; nil: none
	result   scorer.PreemptionResult
	// changed: the row has changed since it was tried, if it was.
	changed bool
}

// try tries one row for a class.
func (f *Finder) try(class *scorer.Class, question *scorer.Preemption, row cache.Row, n *nominees.Nominee) *triedRow {
	r := &triedRow{promised: n}
	r.result.Reset(class.ID(), 1)
	var check *scorer.RowCheck
	if n != nil {
		check = f.Nominees.RowCheck(n, class.Query())
	}
	f.Rows.Inc()
	table := f.Nodes.Table(int(row.Shard))
	outcome, candidate, why := f.Engine.Evaluator().PreemptRow(table, row.Index, class, question, check)
	r.take(row, table.Name(row.Index), outcome, candidate, why)
	return r
}

// tryWithPlugins tries one row for a pod that plugins have a say in. The error is why the row can not be tried: with other
// candidates it does not count.
func (f *Finder) tryWithPlugins(ctx context.Context, x *rowByRow, row cache.Row) (*triedRow, error) {
	class, table, n := x.Answer.Class(), f.Nodes.Table(int(row.Shard)), x.promised[row]
	r, node := &triedRow{promised: n}, table.Name(row.Index)
	r.result.Reset(class.ID(), 1)
	status, judged := x.Plugins.Status(row, node)
	if judged && status.Code() != fwk.Unschedulable {
		return r, nil
	}
	check := f.Nominees.RowCheck(n, class.Query())
	check.Refused = judged
	failed := x.Plugins.TakePart(ctx, node, check)
	f.Rows.Inc()
	outcome, candidate, why := f.Engine.Evaluator().PreemptRow(table, row.Index, class, x.question, check)
	err := failed()
	if err == nil && outcome == scorer.AlreadyFits {
		err = fmt.Errorf("expected at least one victim pod on node %q", node)
	}
	if err != nil {
		r.result.Tried = 1
		return r, err
	}
	r.take(row, node, outcome, candidate, why)
	return r, nil
}

// tryNode tries one node for a pod, as it is now; nil: it is no candidate.
func (f *Finder) tryNode(ctx context.Context, x *rowByRow, node string) *scorer.PreemptionCandidate {
	row, ok := f.Nodes.RowOf(node)
	if !ok {
		return nil
	}
	if x.Plugins.Judges() {
		r, _ := f.tryWithPlugins(ctx, x, row)
		return r.result.Best()
	}
	return f.try(x.Answer.Class(), x.question, row, x.promised[row]).result.Best()
}

// take keeps what came of the row, which has a node of that name.
func (r *triedRow) take(row cache.Row, node string, outcome scorer.PreemptOutcome, candidate *scorer.PreemptionCandidate,
	why []scorer.Reason) {
	if outcome == scorer.NotTried {
		return
	}
	r.result.Tried = 1
	switch outcome {
	case scorer.Preemptable:
		c := *candidate
		c.Victims = slices.Clone(c.Victims)
		r.result.Candidates = append(r.result.Candidates, c)
		return
	case scorer.FailsPod:
		r.result.AddFailing(scorer.FailingRow{Shard: row.Shard, Row: row.Index, Name: node})
	}
	for _, x := range why {
		r.result.AddReason(x, 1)
	}
}

// checkWorkers blames the workers that have named candidates which the own tables do not have so; false: there are none.
// Rows that were tried here were not named by workers.
func (f *Finder) checkWorkers(ctx context.Context, d *dryRun, a *answers.Answer, list []*scorer.PreemptionCandidate) (wrong bool) {
	for _, c := range list {
		who := d.found.Witnesses.Of(c.Shard)
		if who == 0 || d.isTriedHere(c) || d.tried[cache.Row{Shard: c.Shard, Index: c.Row}] != nil {
			continue
		}
		outcome, own, _ := f.Engine.Evaluator().PreemptRow(f.Nodes.Table(int(c.Shard)), c.Row, a.Class(), d.questionHere(a), nil)
		if outcome != scorer.Preemptable || !own.Same(c) {
			f.Workers.Blame(ctx, who, fmt.Errorf("dry run of class %x: node %s has no such victims", a.Class().ID(), c.Name))
			wrong = true
		}
	}
	return wrong
}
