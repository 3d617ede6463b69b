package scorer

import (
	"cmp"
	"slices"
)

// NoVictimsFound is what is said of rows that refuse a pod and have none of lower priority.
func NoVictimsFound() Reason { return Reason{Text: noVictims, Unresolvable: true} }

// noVictims and alreadyFits are what is said of rows that have nothing to give up, and of
// those that take the pod as they are.
const (
	noVictims   = "No preemption victims found for incoming pod"
	alreadyFits = "expected at least one victim pod"
)

// dryRun is a preemption over one table, with its scratch memory.
type dryRun struct {
	table      *Table
	class      *Class
	asked      *Preemption
	generation uint64
	reads      *podReads
	fit        *nodeResourcesFit // nil: resources are not looked at

	// use is what the pods with each usage take of the resources that fit's requests name, zeros left out; useEnds
	// are where each usage ends in it. fixedRequests and scalarRequests are the numbers of fit's requests, from 1, by
	// resource. met are the usages with ports and counted the counts with counters that the filters look at.
	use            []requestUse
	useEnds        []int
	fixedRequests  [fixedResources]int
	scalarRequests map[string]int
	met, counted   []bool
	// budgets are indexes into asked.Budgets, by set of budgets; left is how many evictions they still allow.
	budgets [][]int32
	left    []int32

	cluster   rowCluster
	potential bitmap
	// refusedBy is the index of the filter that refuses each potential row.
	refusedBy []uint8
	rest      bitmap
	before    bitmap

	lower     []placedPod // those of the row at hand, most important first
	sorted    []placedPod
	units     []rowUnit // of a row where pods leave with others: what lower is made of
	violating []bool
	victim    []bool
	slack     []int64
	totals    RowTotals
	joined    RowTotals
	tokens    []tokenHolders // sorted
	candidate PreemptionCandidate
	reasons   []Reason
}

// requestUse is what a pod takes of the resource that one of fit's requests names.
type requestUse struct {
	request int // index into fit.requests
	amount  int64
}

// tokenHolders is how many pods of the row at hand have a shared count.
type tokenHolders struct {
	sharedCount
	pods int
}

// Preempt runs a dry run of preemption over the rows of t and adds its answer to into,
// which was Reset for the class and p.Limit. A row is tried where it refuses the pod in a
// way that pods may be the cause of (its status is Unschedulable). All pods of lower
// priority leave it; where it then takes the pod, they come back one by one, those whose
// eviction violates a budget first, then the most important ones, as far as it still takes
// the pod. The others are its victims. Scratch memory is kept.
func (e *Evaluator) Preempt(t *Table, c *Class, p *Preemption, into *PreemptionResult) {
	e.PreemptRange(t, c, p, 0, t.capacity, into)
}

// PreemptRange is Preempt over the rows from … to-1, of which from is a multiple of 64.
func (e *Evaluator) PreemptRange(t *Table, c *Class, p *Preemption, from, to int, into *PreemptionResult) {
	d := e.dryRun(t, c, p)
	into.limit = max(into.limit, p.Limit())
	e.findPotential(d, from, min(to, t.Rows()))
	for row := range d.potential.all {
		if p.Skips(RowRef{t.shard, row}) {
			continue
		}
		into.Tried++
		outcome, why := e.tryRow(d, row, int(d.refusedBy[row]), nil)
		switch outcome {
		case Preemptable:
			into.add(&d.candidate)
		case FailsPod:
			into.AddFailing(FailingRow{t.shard, row, t.names[row]})
		}
		for _, r := range why {
			into.AddReason(r, 1)
		}
	}
	into.cut()
}

// PreemptOutcome is what came of one row.
type PreemptOutcome int

// The outcomes of PreemptRow.
const (
	// NotTried rows take the pod, or refuse it whatever pods leave, or hold no node.
	NotTried PreemptOutcome = iota
	// NoVictims rows have no pods of lower priority.
	NoVictims
	// StillRefused rows refuse the pod also without them.
	StillRefused
	// FailsPod rows would without them fail the pod, whatever the other rows say.
	FailsPod
	// AlreadyFits rows take the pod with all of them: something else refused it.
	AlreadyFits
	// Preemptable rows are candidates.
	Preemptable
)

// RowCheck is what a table does not know of a row: pods that are nominated to it, and rules
// that it can not evaluate.
type RowCheck struct {
	// Refused tells that the row is known to refuse the pod in a way that preemption may help.
	Refused bool
	// Join adds what nominated pods would take; the row has to take the pod with them and
	// without. Adjust then changes what measures and row values come to beside counters. nil:
	// nothing.
	Join   func(*RowTotals)
	Adjust func(*Verdict)
	// Ask is asked last why the row refuses the pod, once pods have left; nothing where it takes
	// it. nil: nobody is asked. Moved tells it before which pods, by their numbers, leave and come
	// back, one at a time.
	Ask   func() []Reason
	Moved func(number uint64, back bool)
}

// moved tells that a pod has left the row, or has come back.
func (c *RowCheck) moved(p *placedPod, back bool) {
	if c != nil && c.Moved != nil {
		c.Moved(p.number, back)
	}
}

// PreemptRow is Preempt for one row, whether or not p skips it; check may be nil. The
// candidate, and the reasons of a row that is none, hold until the evaluator's next use. p
// must not be changed between calls.
func (e *Evaluator) PreemptRow(t *Table, row uint32, c *Class, p *Preemption,
	check *RowCheck) (PreemptOutcome, *PreemptionCandidate, []Reason) {
	if !t.HasNode(row) || !c.looksAt(t, row) {
		return NotTried, nil, nil
	}
	d := e.dryRun(t, c, p)
	at := 0
	if check == nil || !check.Refused {
		d.begin(row)
		at = e.judge(d, row, nil, check)
		if at < 0 || unresolvable(d.reasons) {
			return NotTried, nil, d.reasons
		}
	}
	outcome, why := e.tryRow(d, row, at, check)
	return outcome, &d.candidate, why
}

func unresolvable(why []Reason) bool {
	return slices.ContainsFunc(why, func(r Reason) bool { return r.Unresolvable })
}

// dryRun prepares for a table and a class, unless it is prepared already.
func (e *Evaluator) dryRun(t *Table, c *Class, p *Preemption) *dryRun {
	if e.preempt == nil {
		e.preempt = &dryRun{}
	}
	d := e.preempt
	if d.table == t && d.class == c && d.asked == p && d.generation == t.generation {
		return d
	}
	d.table, d.class, d.asked, d.generation, d.reads, d.fit = t, c, p, t.generation, &c.pods, nil
	if c.pods.fit >= 0 {
		d.fit = c.filters[c.pods.fit].rule.(*nodeResourcesFit)
	}
	d.lookUpUsages()
	d.lookUpBudgets()
	if d.grouped() {
		d.cluster.begin(c, p.Whole)
	}
	return d
}

// lookUpUsages looks through the table's dictionaries. A pod may ask for thousands of resources, and each usage may be
// about others: so it looks at what usages take, not at each request for each usage.
func (d *dryRun) lookUpUsages() {
	s := &d.table.placed
	if d.fit != nil {
		d.slack = scratch(d.slack, len(d.fit.requests))
		d.fixedRequests, d.scalarRequests = [fixedResources]int{}, map[string]int{}
		for k := range d.fit.requests {
			if ref := d.fit.requests[k].resourceRef; ref.fixed >= 0 {
				d.fixedRequests[ref.fixed] = k + 1
			} else {
				d.scalarRequests[ref.name] = k + 1
			}
		}
		d.use, d.useEnds = d.use[:0], d.useEnds[:0]
		for u := range s.usages.contents {
			for i, amount := range s.usages.contents[u].fixed {
				d.addUse(d.fixedRequests[i], amount)
			}
			if len(d.scalarRequests) > 0 {
				for _, x := range s.usages.contents[u].scalars {
					d.addUse(d.scalarRequests[x.name], x.quantity)
				}
			}
			d.useEnds = append(d.useEnds, len(d.use))
		}
	}
	if d.reads.plain() {
		return
	}
	d.met, d.counted = scratch(d.met, len(s.usages.contents)), scratch(d.counted, len(s.counts.contents))
	for u := range s.usages.contents {
		d.met[u] = len(d.reads.ports) > 0 && len(s.usages.contents[u].ports) > 0
	}
	for i := range s.counts.contents {
		d.counted[i] = d.reads.countsAny(&s.counts.contents[i])
	}
}

// addUse adds to the last usage what it takes of the resource of a request, numbered from 1; 0: there is none.
func (d *dryRun) addUse(request int, amount int64) {
	if request > 0 && amount != 0 {
		d.use = append(d.use, requestUse{request - 1, amount})
	}
}

// useOf is what a pod takes of the resources that fit's requests name.
func (d *dryRun) useOf(p *placedPod) []requestUse {
	from := 0
	if p.usage > 0 {
		from = d.useEnds[p.usage-1]
	}
	return d.use[from:d.useEnds[p.usage]]
}

// countsAny tells whether the filters look at one of the counters that a pod moves.
func (r *podReads) countsAny(x *podCounts) bool {
	reads := func(c counterChange) bool { return r.counts(c.id) }
	return slices.ContainsFunc(x.counts, reads) || slices.ContainsFunc(x.leaving, reads) ||
		slices.ContainsFunc(x.shared, func(c sharedCount) bool { return r.counts(c.counter) })
}

// lookUpBudgets finds the budgets in force of each set.
func (d *dryRun) lookUpBudgets() {
	sets := d.table.placed.budgets.contents
	d.left = scratch(d.left, len(d.asked.Budgets))
	for i := range d.asked.Budgets {
		d.left[i] = d.asked.Budgets[i].Allowed
	}
	for len(d.budgets) < len(sets) {
		d.budgets = append(d.budgets, nil)
	}
	for i, set := range sets {
		d.budgets[i] = d.budgets[i][:0]
		for _, id := range set {
			at, found := slices.BinarySearchFunc(d.asked.Budgets, id, func(b Budget, id uint32) int { return cmp.Compare(b.ID, id) })
			if found {
				d.budgets[i] = append(d.budgets[i], int32(at))
			}
		}
	}
}

// findPotential finds the rows that refuse the pod in a way that preemption may help.
func (e *Evaluator) findPotential(d *dryRun, from, to int) {
	t, c := d.table, d.class
	n := words(max(to, 0))
	d.rest = t.live[:n].copyOf(d.rest)
	e.keepWithin(t, c, d.rest, 0)
	if d.asked.Only != nil {
		d.keepOnly()
	}
	for w := range d.rest[:min(from/wordRows, n)] {
		d.rest[w] = 0
	}
	if to%wordRows != 0 && n > 0 {
		d.rest[n-1] &= 1<<(to%wordRows) - 1
	}
	d.potential = scratch(d.potential, n)
	clear(d.potential)
	d.refusedBy = scratch(d.refusedBy, n*wordRows)
	for i := 0; i < len(c.filters) && i <= d.reads.grouped; i++ {
		if rule := c.filters[i].rule; rule != nil {
			d.before = d.rest.copyOf(d.before)
			rule.narrow(e, t, d.rest)
			d.before.without(d.rest)
			e.addRefused(d, rule, i)
		}
	}
	if !d.grouped() {
		return // what is left takes the pod
	}
	for row := range d.rest.all {
		d.begin(row)
		if at := e.judge(d, row, nil, nil); at >= 0 && !unresolvable(d.reasons) {
			d.potential.add(row)
			d.refusedBy[row] = uint8(at)
		}
	}
}

// keepOnly leaves the rows that are asked about in d.rest.
func (d *dryRun) keepOnly() {
	d.before = d.rest.copyOf(d.before)
	clear(d.rest)
	at, _ := slices.BinarySearchFunc(d.asked.Only, RowRef{d.table.shard, 0}, RowRef.Compare)
	for _, r := range d.asked.Only[at:] {
		if r.Shard != d.table.shard || int(r.Row) >= len(d.rest)*wordRows {
			break
		}
		if d.before.has(r.Row) {
			d.rest.add(r.Row)
		}
	}
}

// addRefused adds the rows in d.before, which a rule refuses, to the potential ones.
func (e *Evaluator) addRefused(d *dryRun, rule filterRule, at int) {
	all, none := true, true
	for _, r := range rule.reasons() {
		all, none = all && r.Unresolvable, none && !r.Unresolvable
	}
	if all {
		return
	}
	for row := range d.before.all {
		if !none {
			e.why = rule.refusals(view{t: d.table, row: row, e: e}, e.why[:0])
			if slices.ContainsFunc(e.why, func(i int) bool { return rule.reasons()[i].Unresolvable }) {
				continue
			}
		}
		d.potential.add(row)
		d.refusedBy[row] = uint8(at)
	}
}

// grouped tells whether some filter has a group part.
func (d *dryRun) grouped() bool { return d.reads.grouped < len(d.class.filters) }

// begin takes in a row for the group filters.
func (d *dryRun) begin(row uint32) {
	if d.grouped() {
		d.cluster.row(view{t: d.table, row: row})
	}
}

// judge finds the first filter that refuses a row with totals as what its pods add up to
// (nil: as the table has it), and leaves why in d.reasons; -1: none does. len(filters) stands
// for check.Ask.
func (e *Evaluator) judge(d *dryRun, row uint32, totals *RowTotals, check *RowCheck) int {
	d.reasons = d.reasons[:0]
	if check != nil && check.Join != nil {
		if totals == nil {
			d.table.Totals(row, &d.joined)
		} else {
			d.joined.set(totals)
		}
		check.Join(&d.joined)
		if at := e.judgeTotals(d, view{d.table, row, &d.joined, e}, 0, check.Adjust); at >= 0 {
			return at
		}
	}
	at := e.judgeTotals(d, view{d.table, row, totals, e}, 0, nil)
	if at < 0 && totals != nil && check != nil && check.Ask != nil {
		if why := check.Ask(); len(why) > 0 {
			d.reasons = append(d.reasons, why...)
			return len(d.class.filters)
		}
	}
	return at
}

// judgeTotals is judge for one view, from a filter on.
func (e *Evaluator) judgeTotals(d *dryRun, v view, from int, adjust func(*Verdict)) int {
	if d.grouped() {
		if v.totals != nil {
			d.cluster.change(v)
		} else {
			d.cluster.unchanged()
		}
		if adjust != nil {
			adjust(&d.cluster.now)
		}
	}
	for i := from; i < len(d.class.filters); i++ {
		if e.refuses(d, &d.class.filters[i], v) {
			return i
		}
	}
	return -1
}

// refuses tells whether a filter refuses a row, and leaves why in d.reasons.
func (e *Evaluator) refuses(d *dryRun, f *filterTerm, v view) bool {
	if f.rule != nil && !f.rule.passes(v) {
		e.why = f.rule.refusals(v, e.why[:0])
		for _, k := range e.why {
			d.reasons = append(d.reasons, f.rule.reasons()[k])
		}
		return true
	}
	if f.group != nil {
		if why := f.group.refusesRow(&d.cluster); why >= 0 {
			d.reasons = append(d.reasons, f.group.reasons()[why])
			return true
		}
	}
	return false
}

// tryRow tries a row that the filter at refuses. The candidate is left in d.candidate.
func (e *Evaluator) tryRow(d *dryRun, row uint32, at int, check *RowCheck) (PreemptOutcome, []Reason) {
	d.reasons = d.reasons[:0]
	units := d.hasUnits(row)
	if !(units && d.findUnits(row) || !units && d.findLower(row)) {
		d.reasons = append(d.reasons, NoVictimsFound())
		return NoVictims, d.reasons
	}
	d.begin(row)
	switch {
	case check != nil || d.reads.others:
		d.remove(row, true)
		for i := range d.lower {
			check.moved(&d.lower[i], false)
		}
		if e.judge(d, row, &d.totals, check) >= 0 {
			return d.refused()
		}
	default:
		v := view{t: d.table, row: row, e: e}
		if d.lowerMatter() {
			d.remove(row, false)
			v.totals = &d.totals
		} else if at != d.reads.fit {
			// Whoever leaves, the filter sees the same.
			e.judgeTotals(d, v, at, nil)
			return StillRefused, d.reasons
		}
		d.spare(row)
		if e.judgeSpare(d, v, at) >= 0 {
			return d.refused()
		}
	}
	var some bool
	if units {
		e.reprieveUnits(d, row, check)
		some = d.describeUnits(row)
	} else {
		d.classify()
		e.reprieve(d, row, check, true)
		e.reprieve(d, row, check, false)
		some = d.describe(row)
	}
	if !some {
		d.reasons = append(d.reasons[:0], Reason{Text: alreadyFits})
		return AlreadyFits, d.reasons
	}
	return Preemptable, nil
}

// refused is the outcome of a row that refuses the pod for d.reasons.
func (d *dryRun) refused() (PreemptOutcome, []Reason) {
	if r := d.class.claims; r != nil && len(d.reasons) == 1 && d.reasons[0] == r.why[failsPod] {
		return FailsPod, nil
	}
	return StillRefused, d.reasons
}
