package scan

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/shardsched/shardsched/scorer"
)

// PreemptAsk is one dry run of preemption.
type PreemptAsk struct {
	Class      *scorer.Class
	Preemption *scorer.Preemption
}

// preemptRows is how many rows of a table are tried at a time: dozens of microseconds of
// work.
const preemptRows = 1024

// preemptRun is one call of Pool.RunPreempt.
type preemptRun struct {
	pool   *Pool
	ctx    context.Context
	tables []*scorer.Table
	asks   []PreemptAsk
	// starts are the number of the first item of each table, and that of all items at the
	// end; an item is some rows of a table for one ask.
	starts []int64
	left   allowances
	next   atomic.Int64
}

// RunPreempt makes every dry run over all tables and leaves its answer in the element of
// into with the same index. Nobody may write to the tables meanwhile. It errs only when ctx
// ends; into is then not to be read. A dry run that panics has failed, by itself.
func (p *Pool) RunPreempt(ctx context.Context, tables []*scorer.Table, asks []PreemptAsk, into []scorer.PreemptionResult) error {
	var first *hand
	select {
	case first = <-p.idle:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { p.idle <- first }()
	r := &preemptRun{pool: p, ctx: ctx, tables: tables, asks: asks, starts: []int64{0}}
	r.left = newAllowances(asks, func(a *PreemptAsk) int64 { return a.Preemption.Steps })
	for _, t := range tables {
		chunks := (t.Rows() + preemptRows - 1) / preemptRows
		r.starts = append(r.starts, r.starts[len(r.starts)-1]+int64(chunks*len(asks)))
	}
	others := p.recruit(int(r.starts[len(tables)]) - 1)
	partial := make([][]scorer.PreemptionResult, len(others))
	var wg sync.WaitGroup
	for i, h := range others {
		partial[i] = make([]scorer.PreemptionResult, len(asks))
		wg.Go(func() { r.work(h, partial[i]) })
	}
	r.work(first, into)
	wg.Wait()
	for i, h := range others {
		for k := range asks {
			into[k].Merge(&partial[i][k])
		}
		p.idle <- h
	}
	return ctx.Err()
}

// work takes items until none is left or the run's context ends.
func (r *preemptRun) work(h *hand, into []scorer.PreemptionResult) {
	for i := range r.asks {
		into[i].Reset(r.asks[i].Class.ID(), r.asks[i].Preemption.Limit())
	}
	table := 0
	for r.ctx.Err() == nil {
		item := r.next.Add(1) - 1
		for table < len(r.tables) && item >= r.starts[table+1] {
			table++
		}
		if table == len(r.tables) {
			return
		}
		item -= r.starts[table]
		if i := item % int64(len(r.asks)); into[i].Failed == nil {
			r.left.allow(h.eval, int(i), r.asks[i].Preemption.Steps)
			r.try(h, r.tables[table], &r.asks[i], int(item/int64(len(r.asks)))*preemptRows, &into[i])
		}
	}
}

// try makes a dry run over some rows of a table, as run.evaluate does an evaluation.
func (r *preemptRun) try(h *hand, t *scorer.Table, ask *PreemptAsk, from int, into *scorer.PreemptionResult) {
	defer func() {
		if v := recover(); v != nil {
			*into = scorer.PreemptionResult{}
			into.Reset(ask.Class.ID(), ask.Preemption.Limit())
			into.Failed = h.recovered(v)
		}
	}()
	if r.pool.Before != nil {
		r.pool.Before(ask.Class)
	}
	h.eval.PreemptRange(t, ask.Class, ask.Preemption, from, from+preemptRows, into)
}
