package fanout

import (
	"context"
	"slices"
	"time"

	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/scan"
)

// What a worker says decides about pods, so it is held against the own tables, which are at the very
// generations that it was asked about:
//
//	how many candidates a group has    always       the rows that a list leaves out come after its end
//	the measures that filters read     always       a sum over all rows makes rows feasible, or not
//	how many copies rows take          always       whether a gang fits, and in which domain, goes by the sums
//	all of a diagnosis                 always       a pod is refused by it, by its reasons others are evicted for the
//	                                                pod, or its nomination ends
//	a dry run without a candidate      always       nobody is evicted for a pod that would fit then
//	the row that is chosen, a dry      always       by the caller, who judges it (Result.Witnesses, Blame)
//	run's candidate
//	how many rows are feasible         always       where more than one makes the attempt fail, by the caller, who
//	                                                has the own tables answer
//	all of another answer              AuditEvery   scores, candidates
//
// So whatever workers say, no pod goes where a filter refuses it, and none is refused that fits somewhere, now
// or without pods of lower priority.
// All of an answer to one class by one worker is looked at as often as one in AuditEvery, at random: a worker
// that lies in a share p of its answers is found within n of them with a probability of 1 - (1 - p/AuditEvery)ⁿ,
// which is 99 % after 590/p. That costs the coordinator one in AuditEvery of what the workers do. Measures
// take some 2 ns a row, where the worker's answer takes 15 to 30 (BenchmarkMeasures and BenchmarkScanGroups of
// scorer); a refusal takes as long as the answer did, once for all pods that it refuses while it is held.
// Config.Compare finds every lie of one of two owners (compare.go).

// DefaultAuditEvery is one in how many answers is looked at as a whole.
const DefaultAuditEvery = 128

// verify holds what a worker has said against the own tables, on the attempt's goroutine.
func (r *round) verify(ctx context.Context, a *attempt) error {
	if len(r.dry) > 0 {
		return r.verifyDryRuns(ctx, a)
	}
	for i := range a.answers {
		ask, told := r.askOf(a.part, a.part.from+i), &a.answers[i].Result
		shards := a.answered(a.part.from + i)
		if len(shards) == 0 {
			continue
		}
		var err error
		switch {
		case r.ahead != nil:
			if own := a.audits[i]; own != nil && len(shards) == len(a.shards) { // else the class is asked for again
				err = r.hold(a, &ask, shards, told, "audit", own, differs(told))
			}
		case r.f.audits(a.session):
			err = r.audit(ctx, a, &ask, shards, told, "audit")
		case r.refuses[a.part.from+i]:
			err = r.audit(ctx, a, &ask, shards, told, "refusal")
		case ask.Options.Copies:
			err = r.verifyCopies(ctx, a, &ask, shards, told)
		case len(ask.Class.Decisive()) > 0:
			err = r.verifyMeasures(ctx, a, &ask, shards, told)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// audits tells whether an answer is to be looked at as a whole.
func (f *Fanout) audits(s *session) bool {
	if s.watched.Load() > 0 {
		s.watched.Add(-1)
		return true
	}
	return f.cfg.AuditEvery > 0 && f.cfg.Random(f.cfg.AuditEvery) == 0
}

// answered are the shards that an attempt has answered a class for.
func (a *attempt) answered(class int) []uint32 {
	left := a.shards
	for _, g := range a.gaps {
		if g.from <= class && class < g.to {
			left = without(left, g.shards)
		}
	}
	return left
}

// without is a list less the elements of another.
func without(list, less []uint32) []uint32 {
	var out []uint32
	for _, x := range list {
		if !contains(less, x) {
			out = append(out, x)
		}
	}
	return out
}

// audit compares all that a worker has said of a class.
func (r *round) audit(ctx context.Context, a *attempt, ask *scan.Ask, shards []uint32, told *scorer.Result, kind string) error {
	return r.compareWith(ctx, a, *ask, shards, told, kind, differs(told))
}

// differs compares all that a worker has said of a class with the own tables' answer.
func differs(told *scorer.Result) func(own *scorer.Result) error {
	return func(own *scorer.Result) error { return own.Differs(told) }
}

// verifyMeasures compares the sums that make rows feasible.
func (r *round) verifyMeasures(ctx context.Context, a *attempt, ask *scan.Ask, shards []uint32, told *scorer.Result) error {
	measures := scan.Ask{Class: ask.Class, Options: scorer.Options{Measure: true}}
	return r.compareWith(ctx, a, measures, shards, told, "measures", func(own *scorer.Result) error {
		return differsInMeasures(ask, own, told)
	})
}

// differsInMeasures compares the measures that filters read.
func differsInMeasures(ask *scan.Ask, own, told *scorer.Result) error {
	for _, i := range ask.Class.Decisive() {
		if err := own.DiffersIn(told, i); err != nil {
			return err
		}
	}
	return nil
}

// verifyCopies compares copies, and the sums that make rows feasible.
func (r *round) verifyCopies(ctx context.Context, a *attempt, ask *scan.Ask, shards []uint32, told *scorer.Result) error {
	o := scorer.Options{Measure: true, Copies: true, CopyKeys: ask.Options.CopyKeys}
	return r.compareWith(ctx, a, scan.Ask{Class: ask.Class, Options: o}, shards, told, "copies", func(own *scorer.Result) error {
		if err := own.DiffersInCopies(told); err != nil {
			return err
		}
		return differsInMeasures(ask, own, told)
	})
}

// compareWith evaluates shards here and compares.
func (r *round) compareWith(ctx context.Context, a *attempt, ask scan.Ask, shards []uint32, told *scorer.Result, kind string,
	compare func(own *scorer.Result) error) error {
	own := r.f.answers.Take(1)
	defer r.f.answers.Put(own)
	if err := r.f.evaluateOwn(ctx, shards, []scan.Ask{ask}, own); err != nil {
		return err
	}
	return r.hold(a, &ask, shards, told, kind, own, compare)
}

// hold compares what a worker has said of a class with the own tables' answer.
func (r *round) hold(a *attempt, ask *scan.Ask, shards []uint32, told *scorer.Result, kind string, own []scan.Answer,
	compare func(own *scorer.Result) error) error {
	r.f.metrics.checks.WithLabelValues(kind).Inc()
	if own[0].Result.Failed != nil {
		told.Failed = own[0].Result.Failed // the class's fault, and not the worker's
		return nil
	}
	if err := compare(&own[0].Result); err != nil {
		return a.session.untrue("class %x of shards %v: %w", ask.Class.ID(), shards, err)
	}
	return nil
}

// evaluateOwn evaluates shards on the own tables, and notes their pace.
func (f *Fanout) evaluateOwn(ctx context.Context, shards []uint32, asks []scan.Ask, into []scan.Answer) error {
	tables, rows := f.tables(shards), 0
	for _, t := range tables {
		rows += t.Rows()
	}
	start := f.cfg.Clock.Now()
	err := f.pool.Run(ctx, tables, asks, into)
	searches := func(a scan.Ask) bool { return a.Class.Claims() } // for devices: no pace of rows
	if err != nil || len(asks) == 0 || asks[0].Options.Measure || slices.ContainsFunc(asks, searches) {
		return err
	}
	hands := min(f.pool.Cores(), len(tables)*len(asks))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.own.observe(rows*len(asks), time.Duration(hands)*f.cfg.Clock.Since(start))
	return nil
}

// ownPace is that of one core on the own tables.
func (f *Fanout) ownPace() pace {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.own
}

// tables are those of shards.
func (f *Fanout) tables(shards []uint32) []*scorer.Table {
	out := make([]*scorer.Table, len(shards))
	for i, s := range shards {
		out[i] = f.cfg.Shards.Table(int(s))
	}
	return out
}

// verifyDryRuns is verify for dry runs: candidates are judged by the caller.
func (r *round) verifyDryRuns(ctx context.Context, a *attempt) error {
	for i := a.part.from; i < a.part.to; i++ {
		shards := a.answered(i)
		if len(shards) == 0 {
			continue
		}
		var err error
		switch {
		case r.f.audits(a.session):
			err = r.auditDryRun(ctx, a, i, shards, "audit")
		case len(r.dryRun(a, i).Candidates) == 0:
			err = r.auditDryRun(ctx, a, i, shards, "refusal")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// auditDryRun compares all that a worker has said of a dry run.
func (r *round) auditDryRun(ctx context.Context, a *attempt, i int, shards []uint32, kind string) error {
	own := make([]scorer.PreemptionResult, 1)
	if err := r.f.pool.RunPreempt(ctx, r.f.tables(shards), r.dry[i:i+1], own); err != nil {
		return err
	}
	r.f.metrics.checks.WithLabelValues(kind).Inc()
	if own[0].Failed != nil {
		return nil
	}
	if err := own[0].Differs(r.dryRun(a, i)); err != nil {
		return a.session.untrue("dry run of class %x of shards %v: %w", r.dry[i].Class.ID(), shards, err)
	}
	return nil
}
