package fanout

import (
	"context"
	"fmt"
	"slices"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/scan"
)

// PreemptRequest asks for a dry run of preemption for a pod of a class.
type PreemptRequest struct {
	Class      *scorer.Class
	Preemption *scorer.Preemption
}

// Preempt makes a dry run over all shards, at the tables' generations: as Evaluate, the
// answer is the same whatever workers there are and whichever of them fail, and errs only
// if ctx ends, or with ErrDeposed. The answer belongs to the caller.
func (f *Fanout) Preempt(ctx context.Context, request PreemptRequest) (*scorer.PreemptionResult, error) {
	all, err := f.PreemptAll(ctx, []PreemptRequest{request})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// PreemptAll is Preempt for several pods at once, each as if the others did nothing: the
// answers stand in the order of the requests.
func (f *Fanout) PreemptAll(ctx context.Context, requests []PreemptRequest) ([]*scorer.PreemptionResult, error) {
	plan, standby, err := f.plan(ctx)
	if err != nil {
		return nil, fmt.Errorf("preempt: %w", err)
	}
	out, err := f.preempt(ctx, plan, requests)
	if err == nil {
		f.warm(ctx, standby)
	}
	return out, err
}

// PreemptHere is Preempt on the own tables alone.
func (f *Fanout) PreemptHere(ctx context.Context, request PreemptRequest) (*scorer.PreemptionResult, error) {
	all, err := f.preempt(ctx, f.ownPlan(), []PreemptRequest{request})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// preempt makes dry runs as planned.
func (f *Fanout) preempt(ctx context.Context, plan []assignment, requests []PreemptRequest) ([]*scorer.PreemptionResult, error) {
	asks := make([]scan.PreemptAsk, len(requests))
	for i, r := range requests {
		if !fits(r.Class) {
			plan = f.ownPlan()
		}
		asks[i] = scan.PreemptAsk{Class: r.Class, Preemption: r.Preemption}
	}
	r := &round{
		f: f, ctx: ctx, dry: asks, question: newDryRuns(asks),
		found:    make([]scorer.PreemptionResult, len(asks)),
		outcomes: make(chan *attempt, 2*len(plan)),
	}
	for i := range asks {
		r.found[i].Reset(asks[i].Class.ID(), asks[i].Preemption.Limit())
	}
	err := r.run(plan)
	f.count(&r.tally)
	if err != nil {
		return nil, f.note(err)
	}
	out := make([]*scorer.PreemptionResult, len(asks))
	for i := range out {
		out[i] = &r.found[i]
	}
	return out, nil
}

// preemptHere makes dry runs over an attempt's shards on the coordinator's own tables.
func (r *round) preemptHere(ctx context.Context, a *attempt) {
	asks := r.dry[a.part.from:a.part.to]
	a.found = make([]scorer.PreemptionResult, len(asks))
	open := r.reading(func() {
		a.err = r.f.pool.RunPreempt(ctx, r.f.tables(a.shards), asks, a.found)
	})
	if !open {
		a.err = errRoundOver
	}
}

// mergeDryRuns adds what an attempt found.
func (r *round) mergeDryRuns(a *attempt) {
	for i := range a.found {
		r.found[a.part.from+i].Merge(&a.found[i])
	}
	for _, p := range a.pieces {
		for i, result := range p.preemptions {
			r.found[p.from+i].AddProto(result, r.tie)
			for _, shard := range a.answered(p.from + i) {
				r.found[p.from+i].Witnesses.Add(shard, a.session.number)
			}
		}
	}
}

// checkDryRun holds an answer against the attempt: its candidates are nodes of shards that
// were asked for, with pods that are on them, and there are no more rows than nodes.
func (r *round) checkDryRun(a *attempt, ask *scan.PreemptAsk, result *pb.PreemptionResult, nodes int) error {
	if int(result.GetTried()) > nodes {
		return fmt.Errorf("%d rows tried of %d", result.GetTried(), nodes)
	}
	if n := len(result.GetCandidates()); n > ask.Preemption.Limit() {
		return fmt.Errorf("%d candidates, %d were asked for", n, ask.Preemption.Limit())
	}
	for i, shard := range result.GetFailingShards() {
		if _, asked := slices.BinarySearch(a.shards, shard); !asked || !r.f.cfg.Shards.Table(int(shard)).HasNode(result.FailingRows[i]) {
			return fmt.Errorf("a row fails the pod that was not asked for or has no node: shard %d row %d", shard, result.FailingRows[i])
		}
	}
	for _, c := range result.GetCandidates() {
		if _, asked := slices.BinarySearch(a.shards, c.GetShard()); !asked {
			return fmt.Errorf("candidate of shard %d, which was not asked", c.GetShard())
		}
		table := r.f.cfg.Shards.Table(int(c.GetShard()))
		if !table.HasNode(c.GetRow()) {
			return fmt.Errorf("candidate without a node: shard %d row %d", c.GetShard(), c.GetRow())
		}
		if ask.Preemption.Skips(scorer.RowRef{Shard: c.GetShard(), Row: c.GetRow()}) {
			return fmt.Errorf("candidate that is to be skipped: shard %d row %d", c.GetShard(), c.GetRow())
		}
		for _, number := range c.GetVictims() {
			if !table.HasPod(c.GetRow(), number) {
				return fmt.Errorf("victim %d is not on shard %d row %d", number, c.GetShard(), c.GetRow())
			}
		}
	}
	return nil
}
