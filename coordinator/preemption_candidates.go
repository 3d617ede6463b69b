package coordinator

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/preempt"
	"github.com/shardsched/shardsched/scorer"
)

// The candidates of a preemptor are those of all rows. Most are found on the workers; rows that are
// promised to others of no lower priority are judged here, with those and without.
//
// Preemptors mostly come in waves: thousands of pods of one class and priority, and a cluster that is
// full. What the first of them finds serves those behind it, as long as the tables are the same:
//
//	wave    c1 c2 c3 c4 … cn            the best n candidates of all rows, and what is wrong
//	        │  └─ free                    with the others
//	        └─ nominated since: judged here, once for each change of its nominations
//
// Each takes the first that is free or the best that was judged here, whichever comes first. Only
// where all n are taken, and there may be more, or a table has changed, are the workers asked again.

// waveCandidates is how many candidates a dry run looks for at the most: as many preemptors share
// one.
const waveCandidates = 256

// wave is a dry run, for preemptors of a class and priority.
type wave struct {
	class       uint64
	priority    int32
	generations []uint64
	budgets     []scorer.Budget
	asked       scorer.Preemption
	here        *scorer.Preemption // asked of rows that are judged here
	found       *scorer.PreemptionResult
	// judged are rows that are, or were, promised to others.
	judged map[cache.Row]*judgedRow
}

// judgedRow is what a row comes to with the pods that are nominated to it; nil: with none.
type judgedRow struct {
	with   *nominee
	result scorer.PreemptionResult
}

// guestVeto is asked last why a node refuses a pod while some of its pods, by their numbers, are
// gone; nothing where it takes it.
type guestVeto func(node string, gone []uint64) []scorer.Reason

// findVictims finds the best candidate of a pod that no node takes: its node and the pods that have
// to leave it, most important first. Where there is none it tells why.
func (s *Scheduler) findVictims(ctx context.Context, a *attempt, p *pick) (node string, victims []*v1.Pod, why string, err error) {
	if p == nil {
		// A PreFilter has rejected it on every node for good.
		return "", nil, s.noCandidates(&scorer.PreemptionResult{}), nil
	}
	nominees := s.nominees(a.pod.Obj, a.class)
	var best *scorer.PreemptionCandidate
	var rest *scorer.PreemptionResult
	if veto := s.vetoOf(a); veto != nil {
		rest = s.candidatesHere(a, p, nominees, veto)
		best = rest.Best()
	} else {
		best, rest, err = s.bestCandidate(ctx, a, p, nominees)
	}
	if err != nil {
		return "", nil, "", err
	}
	if best == nil {
		return "", nil, s.noCandidates(rest), nil
	}
	for _, number := range best.Victims {
		victim, _ := s.cache.PodNumbered(number)
		if victim == nil {
			return "", nil, "", fmt.Errorf("preempt for pod %s/%s on node %s: pod number %d is not known", a.pod.Obj.Namespace, a.pod.Obj.Name, best.Name, number)
		}
		victims = append(victims, victim)
	}
	return best.Name, victims, "", nil
}

// vetoOf is what guests have to say of candidates; nil: nothing.
func (s *Scheduler) vetoOf(a *attempt) guestVeto {
	if s.guestVeto == nil {
		return nil
	}
	return s.guestVeto(a)
}

// candidatesHere tries every row here, for guests have a say in it.
func (s *Scheduler) candidatesHere(a *attempt, p *pick, nominees []*nominee, veto guestVeto) *scorer.PreemptionResult {
	asked := &scorer.Preemption{
		Priority: compile.Priority(a.pod.Obj), NowMicros: s.cfg.QueueNow().UnixMicro(), Budgets: s.budgets(), Whole: p.result,
	}
	with := make(map[cache.Row]*nominee, len(nominees))
	for _, n := range nominees {
		with[n.row] = n
	}
	var all scorer.PreemptionResult
	all.Reset(p.class.ID(), 1)
	for shard := range s.cache.NumShards() {
		table := s.cache.Table(shard)
		for index := range table.All() {
			row := cache.Row{Shard: uint32(shard), Index: index}
			check := s.checkOf(p, with[row], table)
			check.Ask = func(gone []uint64) []scorer.Reason { return veto(table.Name(index), gone) }
			outcome, candidate, why := s.eval.PreemptRow(table, index, p.class, asked, check)
			s.metrics.dryRunRows.Inc()
			r := judgedRow{}
			r.result.Reset(p.class.ID(), 1)
			r.take(outcome, candidate, why)
			all.Merge(&r.result)
		}
	}
	return &all
}

// checkOf is what a table does not know of a row: the pods that are nominated to it, if any.
func (s *Scheduler) checkOf(p *pick, n *nominee, table *scorer.Table) *scorer.RowCheck {
	if n == nil {
		return &scorer.RowCheck{}
	}
	return &scorer.RowCheck{
		Join:   func(totals *scorer.RowTotals) { n.join(table, totals) },
		Adjust: func(v *scorer.Verdict) { n.addTo(v, p.class.Query()) },
	}
}

// noCandidates words a dry run without candidates as upstream's FitError does.
func (s *Scheduler) noCandidates(r *scorer.PreemptionResult) string {
	var parts []string
	counts := map[string]int{}
	for _, c := range r.Reasons {
		counts[c.Text] += c.Nodes
	}
	counts[preempt.NotHelpful] += s.cache.Nodes() - r.Tried
	for text, n := range counts {
		if n > 0 {
			parts = append(parts, strconv.Itoa(n)+" "+text)
		}
	}
	return fitError(s.cache.Nodes(), parts)
}

// bestCandidate is the best of all rows, or what there is to say of them where there is none.
func (s *Scheduler) bestCandidate(ctx context.Context, a *attempt, p *pick, nominees []*nominee) (*scorer.PreemptionCandidate, *scorer.PreemptionResult, error) {
	for {
		w, fresh, err := s.waveFor(ctx, a, p, nominees)
		if err != nil {
			return nil, nil, err
		}
		own := s.judgeNominated(w, a, p, nominees)
		best, settled := w.best(own)
		if settled || fresh {
			return best, w.sum(own), nil
		}
		s.wave = nil
	}
}

// best is the first candidate that is free, or the best of the rows that were judged here. It is not
// settled where the workers may know of a better one, or of reasons that have changed.
func (w *wave) best(own []*judgedRow) (best *scorer.PreemptionCandidate, settled bool) {
	for i := range w.found.Candidates {
		c := &w.found.Candidates[i]
		if w.judged[cache.Row{Shard: c.Shard, Index: c.Row}] == nil {
			best = c
			break
		}
	}
	settled = best != nil || len(w.found.Candidates) < w.asked.Limit()
	for _, r := range own {
		if c := r.result.Best(); c != nil && (best == nil || scorer.BeforeCandidate(c, best)) {
			best = c
		}
	}
	if best == nil {
		// The reasons of the rows that were judged here are not to be counted twice.
		settled = len(w.judged) == len(w.asked.Skip)
	}
	return best, settled
}

// sum is what there is to say of all rows where none is a candidate.
func (w *wave) sum(own []*judgedRow) *scorer.PreemptionResult {
	var all scorer.PreemptionResult
	all.Reset(w.class, 1)
	all.Merge(w.found)
	for _, r := range own {
		all.Merge(&r.result)
	}
	return &all
}

// waveFor is the dry run that serves a pod, and whether it was made for it.
func (s *Scheduler) waveFor(ctx context.Context, a *attempt, p *pick, nominees []*nominee) (w *wave, fresh bool, err error) {
	priority, budgets := compile.Priority(a.pod.Obj), s.budgets()
	if w := s.wave; w != nil && w.class == p.class.ID() && w.priority == priority && slices.Equal(w.budgets, budgets) && w.holds(s.cache) {
		return w, false, nil
	}
	w = &wave{class: p.class.ID(), priority: priority, budgets: budgets, judged: map[cache.Row]*judgedRow{}}
	for i := range s.cache.NumShards() {
		w.generations = append(w.generations, s.cache.Table(i).Generation())
	}
	w.asked = scorer.Preemption{
		Priority: priority, NowMicros: s.cfg.QueueNow().UnixMicro(), Budgets: budgets, Whole: p.result,
		All: min(waveCandidates, s.cfg.BatchSize) + len(nominees),
	}
	for _, n := range nominees {
		w.asked.Skip = append(w.asked.Skip, scorer.RowRef{Shard: n.row.Shard, Row: n.row.Index})
	}
	slices.SortFunc(w.asked.Skip, func(a, b scorer.RowRef) int {
		if a.Shard != b.Shard {
			return int(a.Shard) - int(b.Shard)
		}
		return int(a.Row) - int(b.Row)
	})
	s.metrics.dryRuns.Inc()
	w.found, err = s.fanout.Preempt(a.trace.Again(ctx, w.class), fanout.PreemptRequest{Class: p.class, Preemption: &w.asked})
	if err != nil {
		return nil, false, err
	}
	s.metrics.dryRunRows.Add(float64(w.found.Tried))
	s.wave = w
	return w, true, nil
}

// holds tells whether the tables are still those of the dry run.
func (w *wave) holds(shards fanout.Shards) bool {
	for i, g := range w.generations {
		if shards.Table(i).Generation() != g {
			return false
		}
	}
	return true
}

// judgeNominated judges the rows that are promised to others, and those that were when the dry run
// was made and are not any more, where that was not done before.
func (s *Scheduler) judgeNominated(w *wave, a *attempt, p *pick, nominees []*nominee) []*judgedRow {
	out := make([]*judgedRow, 0, len(nominees))
	named := make(map[cache.Row]struct{}, len(nominees))
	for _, n := range nominees {
		named[n.row] = struct{}{}
		out = append(out, s.judgeRow(w, p, n.row, n))
	}
	if len(w.judged) == len(named) && len(w.asked.Skip) <= len(named) {
		return out
	}
	for _, x := range w.asked.Skip {
		row := cache.Row{Shard: x.Shard, Index: x.Row}
		if _, ok := named[row]; !ok {
			out = append(out, s.judgeRow(w, p, row, nil))
			named[row] = struct{}{}
		}
	}
	for row := range w.judged {
		if _, ok := named[row]; !ok {
			out = append(out, s.judgeRow(w, p, row, nil))
		}
	}
	return out
}

// judgeRow runs the dry run of one row with the pods that are nominated to it.
func (s *Scheduler) judgeRow(w *wave, p *pick, row cache.Row, n *nominee) *judgedRow {
	r := w.judged[row]
	if r != nil && r.with == n {
		return r
	}
	r = &judgedRow{with: n}
	r.result.Reset(w.class, 1)
	w.judged[row] = r
	s.metrics.dryRunRows.Inc()
	table := s.cache.Table(int(row.Shard))
	var check *scorer.RowCheck
	if n != nil {
		check = s.checkOf(p, n, table)
	}
	outcome, candidate, why := s.eval.PreemptRow(table, row.Index, p.class, w.askedHere(p), check)
	r.take(outcome, candidate, why)
	return r
}

// askedHere is the question for rows that are judged here: the measures are the pick's of now, which
// are the same, in memory that is not used for something else meanwhile.
func (w *wave) askedHere(p *pick) *scorer.Preemption {
	if w.here == nil || w.here.Whole != p.result {
		here := w.asked
		here.Whole, here.All = p.result, 0
		w.here = &here
	}
	return w.here
}

// take keeps what came of the row.
func (r *judgedRow) take(outcome scorer.PreemptOutcome, candidate *scorer.PreemptionCandidate, why []scorer.Reason) {
	if outcome == scorer.NotTried {
		return
	}
	r.result.Tried = 1
	if outcome == scorer.Preemptable {
		c := *candidate
		c.Victims = slices.Clone(c.Victims)
		r.result.Candidates = append(r.result.Candidates, c)
		return
	}
	for _, x := range why {
		r.result.AddReason(x, 1)
	}
}
