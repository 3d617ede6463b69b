package fanout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/klog/v2"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/scan"
)

// assignment is the shards that a session is asked for; without one, the own
// tables are.
type assignment struct {
	session *session
	shards  []uint32
	chosen  bool // the own tables are asked though there may be workers
}

// Evaluate answers every request over all shards, at the tables' generations: the
// results stand in the order of the requests and belong to the caller. Where a
// class's groups overflow it asks a second time by itself; such a Result says
// Normalised, has one group with an empty key, and carries the cluster's Extrema. What a worker can not
// evaluate the own tables do; where they can not either, the Result has Failed.
// It errs only if ctx ends, or with ErrDeposed.
func (f *Fanout) Evaluate(ctx context.Context, requests []Request) ([]*scorer.Result, error) {
	return f.measured(ctx, func() ([]merged, error) {
		plan, standby, err := f.plan(ctx)
		if err != nil {
			return nil, err
		}
		asks, refuses := f.asksOf(requests)
		all, err := f.askSome(ctx, plan, asks, refuses)
		if err == nil {
			err = f.askAgain(ctx, f.replan, asks, all)
		}
		if err == nil {
			f.warm(ctx, standby)
		}
		return all, err
	})
}

// EvaluateHere is Evaluate on the own tables alone.
func (f *Fanout) EvaluateHere(ctx context.Context, requests []Request) ([]*scorer.Result, error) {
	return f.measured(ctx, func() ([]merged, error) {
		asks, refuses := f.asksOf(requests)
		here := f.ownPlan()
		all, err := f.ask(ctx, here, asks, refuses)
		if err == nil {
			err = f.askAgain(ctx, func() []assignment { return here }, asks, all)
		}
		return all, err
	})
}

// measured has a question asked, and tells metrics and traces what it took.
func (f *Fanout) measured(ctx context.Context, ask func() ([]merged, error)) ([]*scorer.Result, error) {
	start, record := f.cfg.Clock.Now(), RecordOf(ctx)
	record.Begin(start)
	all, err := ask()
	if err != nil {
		return nil, f.note(err)
	}
	end := f.cfg.Clock.Now()
	record.Finish(end)
	f.metrics.duration.Observe(end.Sub(start).Seconds())
	return f.results(all), nil
}

// KeepUp begins to send workers what has changed, where no round asks them for a while. It reads the tables before it returns, and
// waits for nobody.
func (f *Fanout) KeepUp(ctx context.Context) error {
	primaries, standby, err := f.plan(ctx)
	if err != nil {
		return fmt.Errorf("keep workers up to date: %w", err)
	}
	all := slices.DeleteFunc(primaries, func(a assignment) bool { return a.session == nil })
	for _, x := range standby {
		at := slices.IndexFunc(all, func(a assignment) bool { return a.session == x.session })
		if at < 0 {
			all = append(all, x)
			continue
		}
		all[at].shards = append(all[at].shards, x.shards...)
		slices.Sort(all[at].shards)
	}
	f.warm(ctx, all)
	return nil
}

// asksOf are the questions of a first round, and which of them a pod may be refused by.
func (f *Fanout) asksOf(requests []Request) (asks []scan.Ask, refuses []bool) {
	asks, refuses = make([]scan.Ask, len(requests)), make([]bool, len(requests))
	for i, r := range requests {
		asks[i] = scan.Ask{Class: r.Class, Options: scorer.Options{
			Candidates: r.Candidates, Diagnose: r.Diagnose, Steps: r.Steps, Copies: r.Copies, CopyKeys: r.CopyKeys,
		}}
		refuses[i] = r.Diagnose
	}
	return asks, refuses
}

// results are what rounds have come to.
func (f *Fanout) results(all []merged) []*scorer.Result {
	results := make([]*scorer.Result, len(all))
	for i := range all {
		results[i] = all[i].result
		f.cfg.OnPasses(i, all[i].passes)
	}
	return results
}

// maxSpare is how many results are kept: as many as a caller may hold and drop at once, so that those of classes that come
// once are not made anew.
const maxSpare = 1536

// Recycle takes a result of Evaluate back that nobody reads any more, for its memory.
func (f *Fanout) Recycle(r *scorer.Result) {
	if r != nil && len(f.spare) < maxSpare {
		f.spare = append(f.spare, r)
	}
}

// result is a new one, or one that was handed back.
func (f *Fanout) result() *scorer.Result {
	last := len(f.spare) - 1
	if last < 0 {
		return &scorer.Result{}
	}
	r := f.spare[last]
	f.spare = f.spare[:last]
	return r
}

// note keeps in mind that the leader is deposed, and names the subject.
func (f *Fanout) note(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deposed = f.deposed || isDeposed(err)
	return fmt.Errorf("evaluate: %w", err)
}

// askSome asks the workers for the classes that they can be asked for, and the own tables for the others,
// whose pinned sums fit no message.
func (f *Fanout) askSome(ctx context.Context, plan []assignment, asks []scan.Ask, refuses []bool) ([]merged, error) {
	var there, here []scan.Ask
	var refused []bool // of there
	for i, a := range asks {
		if fits(a.Class) {
			there, refused = append(there, a), append(refused, refuses[i])
		} else {
			here = append(here, a)
		}
	}
	if len(here) == 0 {
		return f.ask(ctx, plan, asks, refuses)
	}
	own, err := f.ask(ctx, f.ownPlan(), here, nil)
	if err != nil || len(there) == 0 {
		return own, err
	}
	others, err := f.ask(ctx, plan, there, refused)
	if err != nil {
		return nil, err
	}
	all := make([]merged, 0, len(asks))
	for i := range asks {
		from := &others
		if !fits(asks[i].Class) {
			from = &own
		}
		all, *from = append(all, (*from)[0]), (*from)[1:]
	}
	return all, nil
}

// fits tells whether a class's pinned sums fit a message.
func fits(c *scorer.Class) bool { return c.PinnedDomains() <= pinnedBudget }

// ownPlan has all shards evaluated on the own tables.
func (f *Fanout) ownPlan() []assignment {
	own := assignment{chosen: true}
	for shard := range f.cfg.Shards.NumShards() {
		own.shards = append(own.shards, uint32(shard))
	}
	return []assignment{own}
}

// ask runs one round.
func (f *Fanout) ask(ctx context.Context, plan []assignment, asks []scan.Ask, refuses []bool) ([]merged, error) {
	r := f.newRound(ctx, plan, asks, refuses)
	err := r.run(plan)
	f.count(&r.tally)
	return r.merged, err
}

// newRound makes a round for classes.
func (f *Fanout) newRound(ctx context.Context, plan []assignment, asks []scan.Ask, refuses []bool) *round {
	f.rounds++
	r := &round{
		f: f, number: f.rounds, ctx: ctx, asks: asks, refuses: refuses, record: RecordOf(ctx),
		merged: make([]merged, len(asks)), nodes: f.allNodes(),
		outcomes: make(chan *attempt, 2*len(plan)),
	}
	r.question = newQuestion(asks, r.record)
	for i := range asks {
		r.merged[i].result = f.result()
		r.merged[i].result.Reset(asks[i].Class.ID(), asks[i].Options.Candidates)
	}
	return r
}

// askAgain asks for the classes that overflowed, with the extrema of the whole
// cluster, and puts the answers in their places.
func (f *Fanout) askAgain(ctx context.Context, plan func() []assignment, asks []scan.Ask, all []merged) error {
	var again []scan.Ask
	var at []int
	var refuses []bool
	for i := range all {
		if !all[i].result.Overflow || all[i].result.Failed != nil {
			continue
		}
		o := asks[i].Options
		refuses = append(refuses, o.Diagnose)
		o.Diagnose, o.Normalise, o.Extrema = false, true, all[i].result.Extrema
		again, at = append(again, scan.Ask{Class: asks[i].Class, Options: o}), append(at, i)
	}
	if len(again) == 0 {
		return nil
	}
	second, err := f.ask(ctx, plan(), again, refuses)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.stats.SecondRounds++
	f.mu.Unlock()
	for i, x := range at {
		first, r := &all[x], second[i].result
		r.Normalised, r.Extrema, r.Reasons, r.Hopeless = true, again[i].Options.Extrema, first.result.Reasons, first.result.Hopeless
		first.result = r
		for _, p := range second[i].passes {
			scan.AddPass(&first.passes, p)
		}
	}
	return nil
}

// count notes that what an attempt found counts.
func (r *round) count(a *attempt) {
	if len(r.dry) > 0 {
		r.mergeDryRuns(a)
		return
	}
	r.counted = append(r.counted, a)
}

// mergeAll adds up what the attempts that count have found, class by class.
func (r *round) mergeAll() {
	parts := make([]*scorer.Result, 0, len(r.counted))
	for i := range r.merged {
		m := &r.merged[i]
		parts = parts[:0]
		for _, a := range r.counted {
			if i < a.part.from || i >= a.part.to {
				continue
			}
			x := &a.answers[i-a.part.from]
			parts = append(parts, &x.Result)
			for _, p := range x.Passes {
				scan.AddPass(&m.passes, p)
			}
			if a.session != nil {
				for _, shard := range a.answered(i) {
					m.result.Witnesses.Add(shard, a.session.number)
				}
			}
		}
		m.result.MergeAll(parts)
	}
	for _, a := range r.counted {
		r.f.answers.Put(a.answers)
		a.answers = nil
	}
}

// read checks and reads what a worker said, on the attempt's goroutine: answers of several workers
// are read at the same time.
func (r *round) read(ctx context.Context, a *attempt) {
	if a.err = r.check(a); a.err != nil {
		return
	}
	if len(r.dry) > 0 {
		a.err = r.verify(ctx, a)
		return
	}
	asks := r.asks[a.part.from:a.part.to]
	a.answers = r.f.answers.Take(len(asks))
	for i := range asks {
		ask := r.askOf(a.part, a.part.from+i)
		a.answers[i].Reset(&ask)
	}
	var part scorer.Result
	for _, p := range a.pieces {
		locate := r.locate(p.shards)
		for i, result := range p.results {
			x := &a.answers[p.from+i-a.part.from]
			if len(a.pieces) == 1 {
				x.Result.SetNext(result, &p.columns, locate)
			} else {
				x.Result.AddNext(&part, result, &p.columns, locate)
			}
			addPasses(&x.Passes, p.columns.Passes(result))
		}
	}
	a.err = r.verify(ctx, a)
}

// locate finds rows of some shards, with the columns of the tie rule as they were when the round began.
func (r *round) locate(shards []uint32) scorer.Locate {
	tables := r.f.tables(shards)
	return func(shard int, row uint32) scorer.Candidate {
		c := tables[shard].Candidate(row, 0)
		if r.ahead != nil {
			if before, changed := r.ahead.before(c.Shard, row); changed {
				c.LastDecision = before
			}
		}
		return c
	}
}

// tie looks up the columns of the tie rule.
func (r *round) tie(shard, row uint32) (lastDecision, nameHash uint64, name string) {
	c := r.f.cfg.Shards.Table(int(shard)).Candidate(row, 0)
	return c.LastDecision, c.NameHash, c.Name
}

// count adds to the totals.
func (f *Fanout) count(t *roundTally) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stats.Rounds++
	f.stats.LocalShards += t.localShards
	f.stats.Hedges += t.hedges
	f.metrics.rounds.Inc()
	f.metrics.localShards.WithLabelValues("missing").Add(float64(t.localShards - t.chosenShards))
	f.metrics.localShards.WithLabelValues("chosen").Add(float64(t.chosenShards))
	f.metrics.hedges.Add(float64(t.hedges))
}

// snapshotSent counts a snapshot that a worker has taken.
func (f *Fanout) snapshotSent() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stats.Snapshots++
	f.metrics.snapshots.Inc()
}

// warm brings the shards that sessions are not first for up to date, while the
// caller goes on.
func (f *Fanout) warm(ctx context.Context, standby []assignment) {
	for _, x := range standby {
		if !x.session.warming.CompareAndSwap(false, true) {
			continue
		}
		f.warmSession(ctx, x)
	}
}

// warmSession starts what warm does for one session. Deltas go to all shards, a
// snapshot to one at a time: it is made here, where tables may be read.
func (f *Fanout) warmSession(ctx context.Context, x assignment) {
	j := f.newJob(x.session, x.shards, &question{}, nil)
	snapshots := make(map[uint32]*madeSnapshot, 1)
	j.shards = slices.DeleteFunc(j.shards, func(s shardJob) bool {
		if s.known {
			return len(s.deltas) == 0
		}
		if len(snapshots) > 0 {
			return true
		}
		made := makeSnapshot(f.cfg.Cluster, f.cfg.Term, f.cfg.Shards.Table(int(s.shard)))
		snapshots[s.shard] = &made
		return false
	})
	if len(j.shards) == 0 {
		x.session.warming.Store(false)
		return
	}
	c := &call{fanout: f, session: x.session, job: j, beside: true,
		snap: func(shard uint32, send func(*pb.LoadSnapshotRequest) error) error {
			made := snapshots[shard]
			if made == nil {
				return errRoundOver
			}
			delete(snapshots, shard)
			return made.send(send)
		}}
	ctx, cancel := f.detached(ctx, loadingFor(&f.cfg, j.snapshotRows()))
	f.running.Go(func() {
		defer cancel()
		defer x.session.warming.Store(false)
		err := caught(ctx, func() error { return c.run(ctx) })
		if err == nil || f.ctx.Err() != nil {
			return
		}
		klog.FromContext(ctx).V(3).Info("A worker's standby shards are not up to date", "worker", x.session.member.ID, "err", err)
		if errors.Is(err, errRoundOver) { // it has dropped a shard: the next round, or the next call of this, has a snapshot for it
			return
		}
		for i := range c.job.shards {
			s := &c.job.shards[i]
			if _, held := x.session.generation(s.shard); !held {
				c.refuse(ctx, s, err) // so that not every round makes a snapshot of it
			}
		}
	})
}

// caught runs fn and returns its panic as an error. Goroutines that read workers' answers run under it, for a panic there
// would end the process.
func caught(ctx context.Context, fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			p := scan.Recovered(v)
			klog.FromContext(ctx).Error(p, "A question to a worker met a bug", "stack", string(p.Stack))
			err = p
		}
	}()
	return fn()
}

// detached is a context with ctx's values that ends with the Fanout, or after the
// limit.
func (f *Fanout) detached(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(limit, maxCall))
	stop := context.AfterFunc(f.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
