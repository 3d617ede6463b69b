package coordinator

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/preempt"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
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
// Each takes the first that is free or the best that was judged here, whichever comes first. Rows that
// have changed since are judged here, too, and rows of pods that a budget counts which allows more or less since. Only
// where all n are taken, and there may be more, where many rows have changed, or what a class counts over all rows has,
// are the workers asked again.

// waveCandidates is how many candidates a dry run looks for at the most: as many preemptors share
// one.
const waveCandidates = 256

// maxMoved is how many rows may change at the most for a dry run to be kept.
const maxMoved = 256

// maxWaves is of how many classes and priorities dry runs are kept.
const maxWaves = 32

// waveKey is whom a dry run is for.
type waveKey struct {
	class    uint64
	priority int32
}

// wave is a dry run, for preemptors of a class and priority.
type wave struct {
	key         waveKey
	served      uint64 // the Scheduler's count of pods that were served when it served one last
	generations []uint64
	budgets     []scorer.Budget
	asked       scorer.Preemption
	here        *scorer.Preemption // asked of rows that are judged here
	found       *scorer.PreemptionResult
	// judged are rows that are, or were, promised to others, or have changed since.
	judged map[cache.Row]*judgedRow
	// measures are those that it went by, where the class's filters look beyond a row; class has the
	// pinned sums.
	measures []scorer.MeasureResult
	class    *scorer.Class
	// moved and rows are scratch memory.
	moved []cache.Row
	rows  []uint32
}

// judgedRow is what a row comes to with the pods that are nominated to it; nil: with none.
type judgedRow struct {
	with   *nominee
	result scorer.PreemptionResult
	// stale: the row has changed since it was judged, if it was.
	stale bool
}

// findings are what a dry run has found for one pod.
type findings struct {
	// list are the best ones, best first: as many as were asked for, if there are so many.
	list []*scorer.PreemptionCandidate
	// all is what there is to say of all rows.
	all *scorer.PreemptionResult
	// failed are why rows could not be tried.
	failed []error
}

// findVictims finds the best candidate of a pod that no node takes: its node and the pods that have
// to leave it, most important first. Where there is none it gives what is told of it.
func (s *Scheduler) findVictims(ctx context.Context, a *attempt, p *answers.Answer) (node string, victims []*v1.Pod, r *fwk.PostFilterResult, none *fwk.Status, err error) {
	found, err := s.findCandidates(ctx, a, p, s.nominees(a.pod.Obj, a.class), 1)
	if err != nil {
		return "", nil, nil, nil, err
	}
	if len(found.list) == 0 {
		r, none = s.nobody(found)
		return "", nil, r, none, nil
	}
	best := found.list[0]
	victims, err = s.victimsOf(a.pod.Obj, best)
	return best.Name, victims, nil, nil, err
}

// nobody is what is said of a dry run without candidates.
func (s *Scheduler) nobody(found findings) (*fwk.PostFilterResult, *fwk.Status) {
	if len(found.failed) > 0 {
		return nil, fwk.NewStatus(fwk.Error, preempt.Prefix+utilerrors.NewAggregate(found.failed).Error())
	}
	return preempt.Nominate(""), preempt.Unhelpful(s.noCandidates(found.all))
}

// findCandidates finds the best candidates of a pod, n of them at the most. An answer of nil says that no
// row can be helped.
func (s *Scheduler) findCandidates(ctx context.Context, a *attempt, p *answers.Answer, nominees []*nominee, n int) (findings, error) {
	defer s.chargeDryRun(a, s.cfg.Now())
	switch {
	case p == nil:
		return findings{all: &scorer.PreemptionResult{}}, nil
	case a.plugins.Judges():
		return s.candidatesHere(ctx, a, p, nominees, n), nil
	case p.Diagnosed() && !s.cache.HasBelow(compile.Priority(a.pod.Obj)):
		if found, ok, err := s.nobodyBelow(a, p); ok || err != nil {
			return found, err
		}
	}
	return s.candidatesThere(ctx, a, p, nominees, n)
}

// nobodyBelow is what a dry run would find where no pod on a node is of lower priority, which it takes
// no look at any row to tell; false: there is a node that it knows nothing of.
func (s *Scheduler) nobodyBelow(a *attempt, p *answers.Answer) (findings, bool, error) {
	if _, class, err := s.ownOutside(a); class != nil || err != nil {
		return findings{}, false, err
	}
	all := &scorer.PreemptionResult{Tried: p.Resolvable(s.cache.Nodes())}
	all.AddReason(scorer.NoVictimsFound(), all.Tried)
	return findings{all: all}, true, nil
}

// candidatesHere tries every row here, for out-of-tree plugins have a say in it.
func (s *Scheduler) candidatesHere(ctx context.Context, a *attempt, p *answers.Answer, nominees []*nominee, n int) findings {
	asked := s.askHere(a, p)
	with := byRow(nominees)
	found := findings{all: &scorer.PreemptionResult{}}
	found.all.Reset(p.Class().ID(), n)
	for shard := range s.cache.NumShards() {
		for index := range s.cache.Table(shard).All() {
			row := cache.Row{Shard: uint32(shard), Index: index}
			r, err := s.tryHere(ctx, a, p, asked, row, with[row])
			found.all.Merge(&r)
			if err != nil {
				found.failed = append(found.failed, err)
			}
		}
	}
	for i := range found.all.Candidates {
		found.list = append(found.list, &found.all.Candidates[i])
	}
	return found
}

// askHere is what is asked of rows one by one.
func (s *Scheduler) askHere(a *attempt, p *answers.Answer) *scorer.Preemption {
	return &scorer.Preemption{
		Priority: compile.Priority(a.pod.Obj), NowMicros: s.cfg.QueueNow().UnixMicro(), Budgets: s.budgets(), Whole: p.Result(),
	}
}

func byRow(nominees []*nominee) map[cache.Row]*nominee {
	out := make(map[cache.Row]*nominee, len(nominees))
	for _, n := range nominees {
		out[n.Row] = n
	}
	return out
}

// candidateAt tries one node for a pod, as it is now; nil: it is no candidate.
func (s *Scheduler) candidateAt(ctx context.Context, a *attempt, p *answers.Answer, asked *scorer.Preemption, with map[cache.Row]*nominee, node string) *scorer.PreemptionCandidate {
	row, ok := s.cache.RowOf(node)
	if !ok {
		return nil
	}
	n := with[row]
	if a.plugins.Judges() {
		r, _ := s.tryHere(ctx, a, p, asked, row, n)
		return r.Best()
	}
	r := judgedRow{}
	r.result.Reset(p.Class().ID(), 1)
	table := s.cache.Table(int(row.Shard))
	s.metrics.dryRunRows.Inc()
	r.take(s.eval().PreemptRow(table, row.Index, p.Class(), asked, s.checkOf(p, n, table)))
	return r.result.Best()
}

// checkOf is what a table does not know of a row: the pods that are nominated to it, if any.
func (s *Scheduler) checkOf(p *answers.Answer, n *nominee, table *scorer.Table) *scorer.RowCheck {
	if n == nil {
		return &scorer.RowCheck{}
	}
	check := &scorer.RowCheck{
		Join:   func(totals *scorer.RowTotals) { n.Join(totals, n.Volumes) },
		Adjust: func(v *scorer.Verdict) { n.AddTo(v, p.Class().Query(), true) },
	}
	if !s.cache.volumes.Attaches(n.pods) {
		return check
	}
	// What the nominated pods attach beside those that are there depends on who has left.
	var left []*v1.Pod
	check.Moved = func(number uint64, back bool) {
		pod, _ := s.cache.PodNumbered(number)
		if left = slices.DeleteFunc(left, func(x *v1.Pod) bool { return x == pod }); !back && pod != nil {
			left = append(left, pod)
		}
	}
	check.Join = func(totals *scorer.RowTotals) {
		n.Join(totals, s.cache.volumes.Joining(n.node, n.pods, n.beside, left...))
	}
	return check
}

// noCandidates words a dry run without candidates as upstream's FitError does.
func (s *Scheduler) noCandidates(r *scorer.PreemptionResult) string {
	counts := map[string]int{}
	for _, c := range r.Reasons {
		counts[c.Text] += c.Nodes
	}
	counts[preempt.NotHelpful] += s.cache.Nodes() - r.Tried
	return answers.FitError(s.cache.Nodes(), counts)
}

// candidatesThere finds the best candidates of all rows, most of which the workers try.
func (s *Scheduler) candidatesThere(ctx context.Context, a *attempt, p *answers.Answer, nominees []*nominee, n int) (findings, error) {
	for here := false; ; {
		w, fresh, err := s.waveFor(ctx, a, p, nominees, n, here)
		if err != nil {
			return findings{}, err
		}
		own := s.judgeNominated(w, p, nominees)
		outside, err := s.judgeOutside(a, w, p, nominees)
		if err != nil {
			return findings{}, err
		}
		if outside != nil {
			own = append(own, outside)
		}
		list, settled := w.best(own, n)
		if here = s.lied(ctx, w, p, list); here {
			delete(s.waves, w.key)
			continue
		}
		if settled || fresh {
			return findings{list: list, all: w.sum(own)}, nil
		}
		delete(s.waves, w.key)
	}
}

// lied puts the workers in quarantine that have named candidates of a dry run that the own tables do not have so;
// false: there are none. Rows that have changed since were judged here.
func (s *Scheduler) lied(ctx context.Context, w *wave, p *answers.Answer, list []*scorer.PreemptionCandidate) bool {
	lied := false
	for _, c := range list {
		who := w.found.Witnesses.Of(c.Shard)
		if who == 0 || w.judged[cache.Row{Shard: c.Shard, Index: c.Row}] != nil {
			continue
		}
		outcome, own, _ := s.eval().PreemptRow(s.cache.Table(int(c.Shard)), c.Row, p.Class(), w.askedHere(p), nil)
		if outcome != scorer.Preemptable || !own.Same(c) {
			s.fanout.Blame(ctx, who, fmt.Errorf("dry run of class %x: node %s has no such victims", p.Class().ID(), c.Name))
			lied = true
		}
	}
	return lied
}

// best are the first candidates that are free and those among the rows that were judged here, n of
// them at the most. They are not settled where the workers may know of better ones, or of reasons that
// have changed.
func (w *wave) best(own []*judgedRow, n int) (list []*scorer.PreemptionCandidate, settled bool) {
	for i := range w.found.Candidates {
		c := &w.found.Candidates[i]
		if w.judged[cache.Row{Shard: c.Shard, Index: c.Row}] == nil {
			if list = append(list, c); len(list) == n {
				break
			}
		}
	}
	settled = len(list) == n || len(w.found.Candidates) < w.asked.Limit()
	for _, r := range own {
		c := r.result.Best()
		if c == nil || len(list) == n && !scorer.BeforeCandidate(c, list[n-1]) {
			continue
		}
		at, _ := slices.BinarySearchFunc(list, c, func(x, y *scorer.PreemptionCandidate) int {
			if scorer.BeforeCandidate(x, y) {
				return -1
			}
			return 1
		})
		list = slices.Insert(list, at, c)
		list = list[:min(len(list), n)]
	}
	if len(list) == 0 {
		// The reasons of the rows that were judged here are not to be counted twice.
		settled = len(w.judged) == len(w.asked.Skip)
	}
	return list, settled
}

// sum is how many rows were tried, and why those are no candidates that are none. It has no
// candidates: sorting those of a thousand rows for each preemptor is most of its work.
func (w *wave) sum(own []*judgedRow) *scorer.PreemptionResult {
	var all scorer.PreemptionResult
	all.Reset(w.key.class, 1)
	add := func(r *scorer.PreemptionResult) {
		all.Tried += r.Tried
		for _, c := range r.Reasons {
			all.AddReason(scorer.Reason{Plugin: c.Plugin, Text: c.Text, Unresolvable: c.Unresolvable}, c.Nodes)
		}
	}
	add(w.found)
	for _, r := range own {
		add(&r.result)
	}
	return &all
}

// waveFor is the dry run that serves a pod, with n candidates for it, and whether it was made for it. With
// here it is made on the own tables.
func (s *Scheduler) waveFor(ctx context.Context, a *attempt, p *answers.Answer, nominees []*nominee, n int, here bool) (w *wave, fresh bool, err error) {
	key, budgets := waveKey{p.Class().ID(), compile.Priority(a.pod.Obj)}, s.budgets()
	if w := s.waves[key]; w != nil && s.catchUpBudgets(w, budgets) && w.catchUp(s.cache, p, len(nominees), s.cfg.QueueNow().UnixMicro()) {
		s.serves(w)
		return w, false, nil
	}
	delete(s.waves, key) // it may hold for some of the changes only
	w = &wave{key: key, class: p.Class(), budgets: budgets, judged: map[cache.Row]*judgedRow{}}
	for i := range s.cache.NumShards() {
		w.generations = append(w.generations, s.cache.Table(i).Generation())
	}
	if p.Class().FiltersGroups() {
		w.measures = copyMeasures(p.Result().Measures)
	}
	w.asked = scorer.Preemption{
		Priority: key.priority, NowMicros: s.cfg.QueueNow().UnixMicro(), Budgets: budgets, Whole: p.Result(),
		All: min(max(min(waveCandidates, s.cfg.BatchSize), n)+len(nominees), pb.MaxCandidates),
	}
	for _, n := range nominees {
		w.asked.Skip = append(w.asked.Skip, scorer.RowRef{Shard: n.Row.Shard, Row: n.Row.Index})
	}
	slices.SortFunc(w.asked.Skip, func(a, b scorer.RowRef) int {
		if a.Shard != b.Shard {
			return int(a.Shard) - int(b.Shard)
		}
		return int(a.Row) - int(b.Row)
	})
	s.metrics.dryRuns.Inc()
	ask := s.fanout.Preempt
	if here {
		ask = s.fanout.PreemptHere
	}
	w.found, err = ask(a.trace.Again(ctx, w.key.class), fanout.PreemptRequest{Class: p.Class(), Preemption: &w.asked})
	if err != nil {
		return nil, false, err
	}
	if w.found.Failed != nil {
		panic(w.found.Failed)
	}
	s.metrics.dryRunRows.Add(float64(w.found.Tried))
	s.keep(w)
	return w, true, nil
}

// keep has a dry run serve other pods, in the place of the one that has served none for the longest, where there are too
// many.
func (s *Scheduler) keep(w *wave) {
	if s.waves == nil {
		s.waves = map[waveKey]*wave{}
	}
	s.waves[w.key] = w
	s.serves(w)
	if len(s.waves) > maxWaves {
		oldest := w
		for _, x := range s.waves {
			if x.served < oldest.served {
				oldest = x
			}
		}
		delete(s.waves, oldest.key)
	}
}

// serves takes note that a dry run serves a pod now.
func (s *Scheduler) serves(w *wave) {
	s.served++
	w.served = s.served
}

// catchUpBudgets has a dry run hold for what budgets allow now, and leaves in w.moved the rows of pods that the changed
// ones count; false: another is to be made. Nobody knows any more whom a budget counted that is gone.
func (s *Scheduler) catchUpBudgets(w *wave, budgets []scorer.Budget) bool {
	w.moved = w.moved[:0]
	old := w.budgets
	for _, b := range budgets {
		if len(old) > 0 && old[0].ID <= b.ID {
			was := old[0]
			if old = old[1:]; was == b {
				continue
			} else if was.ID < b.ID {
				return false
			}
		}
		pods, ok := s.cache.budgets.CountedBy(b.ID, maxMoved-len(w.moved))
		if !ok {
			return false
		}
		for _, uid := range pods {
			_, node, _ := s.cache.Pod(uid)
			if row, ok := s.cache.RowOf(node); ok {
				w.moved = append(w.moved, row)
			}
		}
	}
	if len(old) > 0 {
		return false
	}
	if !slices.Equal(w.budgets, budgets) {
		w.budgets, w.here = budgets, nil
	}
	return true
}

// catchUp has a dry run hold for the tables of now, where few rows have changed since and what all rows
// count together has not; false: another is to be made. Rows that have changed are judged here, and those that are
// in w.moved already.
func (w *wave) catchUp(shards fanout.Shards, p *answers.Answer, nominees int, nowMicros int64) bool {
	for i, g := range w.generations {
		table := shards.Table(i)
		if table.Generation() == g {
			continue
		}
		var ok bool
		if w.rows, ok = table.ChangedSince(g, maxMoved-len(w.moved), w.rows[:0]); !ok {
			return false
		}
		for _, index := range w.rows {
			w.moved = append(w.moved, cache.Row{Shard: uint32(i), Index: index})
		}
	}
	if len(w.moved) == 0 {
		return true
	}
	// Pods that have not started count as starting now.
	old := nowMicros-w.asked.NowMicros > time.Second.Microseconds()
	if old || len(w.judged) > nominees+2*maxMoved || p.Class().FiltersGroups() && !(sameMeasures(w.measures, p.Result().Measures) && w.class.PinnedAs(p.Class())) {
		return false
	}
	for _, row := range w.moved {
		w.judged[row] = &judgedRow{stale: true}
	}
	for i := range w.generations {
		w.generations[i] = shards.Table(i).Generation()
	}
	return true
}

func copyMeasures(list []scorer.MeasureResult) []scorer.MeasureResult {
	out := slices.Clone(list)
	for i := range out {
		out[i].Cells = slices.Clone(out[i].Cells)
	}
	return out
}

// sameMeasures tells whether two answers count the same.
func sameMeasures(a, b []scorer.MeasureResult) bool {
	return slices.EqualFunc(a, b, func(x, y scorer.MeasureResult) bool { return sameCells(x.Cells, y.Cells) })
}

// sameCells compares cells; those without rows count as none.
func sameCells(a, b []scorer.MeasureCell) bool {
	i := 0
	for _, c := range a {
		if c.Rows <= 0 {
			continue
		}
		for i < len(b) && b[i].Rows <= 0 {
			i++
		}
		if i == len(b) || b[i] != c {
			return false
		}
		i++
	}
	return !slices.ContainsFunc(b[i:], func(c scorer.MeasureCell) bool { return c.Rows > 0 })
}

// judgeNominated judges the rows that are promised to others, and those that were when the dry run
// was made and are not any more or have changed since, where that was not done before.
func (s *Scheduler) judgeNominated(w *wave, p *answers.Answer, nominees []*nominee) []*judgedRow {
	out := make([]*judgedRow, 0, len(nominees))
	named := make(map[cache.Row]struct{}, len(nominees))
	for _, n := range nominees {
		named[n.Row] = struct{}{}
		out = append(out, s.judgeRow(w, p, n.Row, n))
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
func (s *Scheduler) judgeRow(w *wave, p *answers.Answer, row cache.Row, n *nominee) *judgedRow {
	r := w.judged[row]
	if r != nil && r.with == n && !r.stale {
		return r
	}
	r = s.tryRow(w, p, p.Class(), row, n)
	w.judged[row] = r
	return r
}

// judgeOutside runs the dry run of the pod's own nominated node where a PreFilter has narrowed the
// nodes to others; nil: there is no such node.
func (s *Scheduler) judgeOutside(a *attempt, w *wave, p *answers.Answer, nominees []*nominee) (*judgedRow, error) {
	row, class, err := s.ownOutside(a)
	if class == nil || err != nil {
		return nil, err
	}
	return s.tryRow(w, p, class, row, byRow(nominees)[row]), nil
}

func (s *Scheduler) tryRow(w *wave, p *answers.Answer, class *scorer.Class, row cache.Row, n *nominee) *judgedRow {
	r := &judgedRow{with: n}
	r.result.Reset(w.key.class, 1)
	s.metrics.dryRunRows.Inc()
	table := s.cache.Table(int(row.Shard))
	var check *scorer.RowCheck
	if n != nil {
		check = s.checkOf(p, n, table)
	}
	outcome, candidate, why := s.eval().PreemptRow(table, row.Index, class, w.askedHere(p), check)
	r.take(outcome, candidate, why)
	return r
}

// askedHere is the question for rows that are judged here: the measures are those of the answer now, which
// are the same, in memory that is not used for something else meanwhile.
func (w *wave) askedHere(p *answers.Answer) *scorer.Preemption {
	if w.here == nil || w.here.Whole != p.Result() {
		here := w.asked
		here.Whole, here.All, here.Budgets = p.Result(), 0, w.budgets
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
