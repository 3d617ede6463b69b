package preempt

import (
	"context"
	"slices"
	"time"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/nominees"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

const (
	// maxCandidates is how many candidates a shared dry run looks for at the most, each for one preemptor: half of
	// the pods of a full batch.
	maxCandidates = 256
	// maxChanged is how many rows may change between two preemptors of one dry run. Each is tried on the loop, by itself,
	// where the workers try many rows at once.
	maxChanged = 256
	// maxDryRuns is of how many classes and priorities dry runs are kept. A dry run of maxCandidates takes tens of KiB.
	maxDryRuns = 32
)

// dryRunKey is the preemptors that share a dry run.
type dryRunKey struct {
	class    uint64
	priority int32
	own      *groups.Group // their own, where that stays for them; nil: none does
}

// dryRun is a dry run over all rows, shared by the preemptors of a class and priority.
type dryRun struct {
	key    dryRunKey
	served uint64 // the Finder's count of pods that were served when this one served the last pod
	// generations of the tables and budgets are as of now, once it has caught up.
	generations []uint64
	budgets     []scorer.Budget
	// question is what the workers were asked, and found what they have answered.
	question scorer.Preemption
	found    *scorer.PreemptionResult
	here     *scorer.Preemption // the question for rows that are tried here
	// units are the rows with pods that leave with others, which workers have not tried. stale are those to be tried again.
	units []scorer.RowRef
	stale []cache.Row
	// tried are the rows to which other pods are or were nominated, and those that have changed since.
	tried map[cache.Row]*triedRow
	// measures are the sums over all rows that it went by, where the class's filters read such; class has its pinned sums.
	measures []scorer.MeasureResult
	class    *scorer.Class
	// changed and rows are scratch memory.
	changed []cache.Row
	rows    []uint32
}

// findShared finds the best candidates of all rows by a shared dry run.
func (f *Finder) findShared(ctx context.Context, p *Preemptor, n int) (found, error) {
	for here := false; ; {
		d, fresh, err := f.dryRunFor(ctx, p, n, here)
		if err != nil {
			return found{}, err
		}
		tried := f.tryNominated(d, p.Answer, p.nominees)
		if own := p.leftOut; own != nil {
			tried = append(tried, f.try(own.Class, d.questionHere(p.Answer), own.Row, p.nominees.ByRow()[own.Row]))
		}
		list, settled := d.best(tried, n)
		if here = f.checkWorkers(ctx, d, p.Answer, list); !here && (settled || fresh) {
			return found{best: list, all: d.sum(tried)}, nil
		}
		delete(f.kept, d.key)
	}
}

// dryRunFor is the dry run that serves a pod, with n candidates for it, and whether it was made for this pod. With here it
// is made on the own tables.
func (f *Finder) dryRunFor(ctx context.Context, p *Preemptor, n int, here bool) (d *dryRun, fresh bool, err error) {
	key, budgets := dryRunKey{p.Answer.Class().ID(), p.priority(), f.ownWhole(p.Pod.Obj)}, f.Budgets.Allowed()
	if d := f.kept[key]; d != nil && f.catchUp(d, p, budgets) {
		f.serve(d)
		return d, false, nil
	}
	delete(f.kept, key) // it may have caught up with some of the changes only
	d = f.newDryRun(key, p, n, budgets)
	f.DryRuns.Inc()
	if d.found, err = f.tryRows(p.Trace.Again(ctx, key.class), d, here); err != nil {
		return nil, false, err
	}
	if d.found.Failed != nil {
		panic(d.found.Failed)
	}
	f.Rows.Add(float64(d.found.Tried))
	f.keep(d)
	return d, true, nil
}

// tryRows has all rows tried that are not to be skipped: with here on the own tables.
func (f *Finder) tryRows(ctx context.Context, d *dryRun, here bool) (*scorer.PreemptionResult, error) {
	switch request := (fanout.PreemptRequest{Class: d.class, Preemption: &d.question}); {
	case here || len(d.units) > maxUnitRows:
		return f.Workers.PreemptHere(ctx, request)
	case len(d.units) == 0:
		return f.Workers.Preempt(ctx, request)
	}
	theirs, ours := d.question, d.question
	theirs.Units, theirs.Skip = nil, slices.Concat(d.question.Skip, d.units)
	slices.SortFunc(theirs.Skip, scorer.RowRef.Compare)
	theirs.Skip = slices.Compact(theirs.Skip)
	found, err := f.Workers.Preempt(ctx, fanout.PreemptRequest{Class: d.class, Preemption: &theirs})
	if err != nil {
		return nil, err
	}
	ours.Only = d.units
	more, err := f.Workers.PreemptHere(ctx, fanout.PreemptRequest{Class: d.class, Preemption: &ours})
	if err != nil {
		return nil, err
	}
	found.Merge(more)
	return found, nil
}

// isTriedHere tells whether a candidate is not the workers'.
func (d *dryRun) isTriedHere(c *scorer.PreemptionCandidate) bool {
	_, is := slices.BinarySearchFunc(d.units, scorer.RowRef{Shard: c.Shard, Row: c.Row}, scorer.RowRef.Compare)
	return is
}

// newDryRun is a dry run of now, about which nobody was asked yet. It skips rows to which other pods are nominated.
func (f *Finder) newDryRun(key dryRunKey, p *Preemptor, n int, budgets []scorer.Budget) *dryRun {
	d := &dryRun{key: key, class: p.Answer.Class(), budgets: budgets, tried: map[cache.Row]*triedRow{}}
	for i := range f.Nodes.NumShards() {
		d.generations = append(d.generations, f.Nodes.Table(i).Generation())
	}
	if d.class.FiltersGroups() {
		d.measures = copyMeasures(p.Answer.Result().Measures)
	}
	d.question = *f.question(p, budgets)
	d.question.Steps = f.Steps()
	d.question.All = min(max(min(maxCandidates, f.BatchSize), n)+len(p.nominees), pb.MaxCandidates)
	for _, n := range p.nominees {
		d.question.Skip = append(d.question.Skip, scorer.RowRef{Shard: n.Row.Shard, Row: n.Row.Index})
	}
	slices.SortFunc(d.question.Skip, scorer.RowRef.Compare)
	d.units = f.unitRows()
	return d
}

// keep has a dry run serve other pods. Where there are too many, it takes the place of the dry run that has served no pod for
// the longest.
func (f *Finder) keep(d *dryRun) {
	f.kept[d.key] = d
	f.serve(d)
	if len(f.kept) > maxDryRuns {
		oldest := d
		for _, x := range f.kept {
			if x.served < oldest.served {
				oldest = x
			}
		}
		delete(f.kept, oldest.key)
	}
}

// serve notes that a dry run serves a pod now.
func (f *Finder) serve(d *dryRun) {
	f.served++
	d.served = f.served
}

// best are the first candidates of the workers that are free and those among the rows that were tried here, n of them at the
// most. They are not settled where the workers may know of better ones, or of reasons that have changed.
func (d *dryRun) best(tried []*triedRow, n int) (list []*scorer.PreemptionCandidate, settled bool) {
	for i := range d.found.Candidates {
		c := &d.found.Candidates[i]
		if d.tried[cache.Row{Shard: c.Shard, Index: c.Row}] == nil {
			if list = append(list, c); len(list) == n {
				break
			}
		}
	}
	settled = len(list) == n || len(d.found.Candidates) < d.question.Limit()
	for _, r := range tried {
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
		// The reasons of the rows that were tried here are not to be counted twice.
		settled = len(d.tried) == len(d.question.Skip)
	}
	return list, settled
}

// sum is how many rows were tried, and why rows are no candidates. It has no candidates: to sort those of a thousand rows
// for each preemptor would be most of the work.
func (d *dryRun) sum(tried []*triedRow) *scorer.PreemptionResult {
	var all scorer.PreemptionResult
	all.Reset(d.key.class, 1)
	add := func(r *scorer.PreemptionResult) {
		all.Tried += r.Tried
		for _, c := range r.Reasons {
			all.AddReason(scorer.Reason{Plugin: c.Plugin, Text: c.Text, Unresolvable: c.Unresolvable}, c.Nodes)
		}
		for _, x := range r.Failing {
			all.AddFailing(x)
		}
	}
	add(d.found)
	for _, r := range tried {
		add(&r.result)
	}
	return &all
}

// catchUp has a dry run hold for now; false: another dry run is to be made.
func (f *Finder) catchUp(d *dryRun, p *Preemptor, budgets []scorer.Budget) bool {
	d.changed = d.changed[:0]
	if !f.catchUpBudgets(d, budgets) {
		return false
	}
	d.changed = append(d.changed, d.stale...)
	d.stale = d.stale[:0]
	return len(d.changed) <= maxChanged && d.catchUpRows(f.Nodes, p.Answer, len(p.nominees), f.Now().UnixMicro())
}

// catchUpBudgets has a dry run hold for what budgets allow now, and adds to d.changed the rows of pods that the changed
// budgets count, and of those that leave with them; false: another dry run is to be made. Whom a budget counted that is gone nobody knows
// any more.
func (f *Finder) catchUpBudgets(d *dryRun, budgets []scorer.Budget) bool {
	old := d.budgets
	var wholes map[*groups.Group]bool
	for _, b := range budgets {
		if len(old) > 0 && old[0].ID <= b.ID {
			was := old[0]
			if old = old[1:]; was == b {
				continue
			} else if was.ID < b.ID {
				return false
			}
		}
		pods, ok := f.Budgets.CountedBy(b.ID, maxChanged-len(d.changed))
		if !ok {
			return false
		}
		for _, uid := range pods {
			p, node, _ := f.Nodes.Pod(uid)
			if row, ok := f.Nodes.RowOf(node); ok {
				d.changed = append(d.changed, row)
			}
			if p == nil || f.ownWhole(p) == nil || wholes[f.ownWhole(p)] {
				continue
			}
			rows, few := f.rowsOf(f.ownWhole(p), maxChanged-len(d.changed))
			if !few {
				return false
			}
			if d.changed = append(d.changed, rows...); wholes == nil {
				wholes = map[*groups.Group]bool{}
			}
			wholes[f.ownWhole(p)] = true
		}
	}
	if len(old) > 0 {
		return false
	}
	if !slices.Equal(d.budgets, budgets) {
		d.budgets, d.here = budgets, nil
	}
	return true
}

// catchUpRows has a dry run hold for the tables of now, where few rows have changed since and the sums over all rows have not;
// false: another dry run is to be made. Rows that have changed are tried here, with those in d.changed.
func (d *dryRun) catchUpRows(nodes *cache.Cache, a *answers.Answer, promised int, nowMicros int64) bool {
	for i, g := range d.generations {
		table := nodes.Table(i)
		if table.Generation() == g {
			continue
		}
		var ok bool
		if d.rows, ok = table.ChangedSince(g, maxChanged-len(d.changed), d.rows[:0]); !ok {
			return false
		}
		for _, index := range d.rows {
			d.changed = append(d.changed, cache.Row{Shard: uint32(i), Index: index})
		}
	}
	if len(d.changed) == 0 {
		return true
	}
	// Pods that have not started count as starting now.
	old := nowMicros-d.question.NowMicros > time.Second.Microseconds()
	if old || len(d.tried) > promised+2*maxChanged {
		return false
	}
	if a.Class().FiltersGroups() && !(sameMeasures(d.measures, a.Result().Measures) && d.class.PinnedAs(a.Class())) {
		return false
	}
	for _, row := range d.changed {
		d.tried[row] = &triedRow{changed: true}
	}
	for i := range d.generations {
		d.generations[i] = nodes.Table(i).Generation()
	}
	return true
}

// questionHere is the question for rows that are tried here: the measures are those of the answer now, which are the same,
// in memory that is not used for something else meanwhile.
func (d *dryRun) questionHere(a *answers.Answer) *scorer.Preemption {
	if d.here == nil || d.here.Whole != a.Result() {
		here := d.question
		here.Whole, here.All, here.Budgets = a.Result(), 0, d.budgets
		d.here = &here
	}
	return d.here
}

// tryNominated tries the rows to which other pods are nominated now, or were when the dry run was made, and the rows that have
// changed since. A row that was tried in its present state is not tried again.
func (f *Finder) tryNominated(d *dryRun, a *answers.Answer, list nominees.List) []*triedRow {
	out := make([]*triedRow, 0, len(list))
	done := make(map[cache.Row]struct{}, len(list))
	for _, n := range list {
		done[n.Row] = struct{}{}
		out = append(out, f.tryAgain(d, a, n.Row, n))
	}
	if len(d.tried) == len(done) && len(d.question.Skip) <= len(done) {
		return out
	}
	for _, x := range d.question.Skip {
		row := cache.Row{Shard: x.Shard, Index: x.Row}
		if _, ok := done[row]; !ok {
			out = append(out, f.tryAgain(d, a, row, nil))
			done[row] = struct{}{}
		}
	}
	for row := range d.tried {
		if _, ok := done[row]; !ok {
			out = append(out, f.tryAgain(d, a, row, nil))
		}
	}
	return out
}

// tryAgain tries a row with the pods that are nominated to it, unless what it came to before still holds.
func (f *Finder) tryAgain(d *dryRun, a *answers.Answer, row cache.Row, n *nominees.Nominee) *triedRow {
	r := d.tried[row]
	if r == nil || r.promised != n || r.changed {
		r = f.try(a.Class(), d.questionHere(a), row, n)
		d.tried[row] = r
	}
	return r
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

// sameCells compares cells. Cells without rows count as none.
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
