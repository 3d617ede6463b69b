package scorer

import (
	"math"
	"slices"
)

// Leavers are pods that may have to leave their rows, and how many copies of a class the rows take. They leave, and come back, by
// themselves:
//
//	            Leavers                Leave                  Back
//	the tables ────────> all are there ─────> some have left ────> …
//	                     Copies               Copies is more, AtMost at the most
//
// The class's filters look at nothing of pods but what they request (Class.ByRequests): so a row that takes n copies takes any
// fewer, and takes no fewer once a pod has left.
type Leavers struct {
	// Copies is how many copies the rows take together; at most MaxInt32 of each. AtMost is Copies once all have left.
	Copies, AtMost int64
	// Any tells whether any pod may have to leave. Pods are those where Leaving.List asks for them, row by row: without those of
	// which it makes no difference, as the row takes no copy, they are no part of a unit, and no budget counts them.
	Any  bool
	Pods []Leaver
	// BudgetSets are indexes into Preemption.Budgets, for Leaver.Budgets.
	BudgetSets [][]int32

	amounts []int64 // what a copy takes of each resource, and of places for pods
	// left is what each row has left of each of them, and copies how many copies that is.
	left   []int64
	copies []int32
	rows   []RowRef
	// use is what pods take of the resources; useEnds are where each usage ends in it.
	use     []requestUse
	useEnds []int
	saved   []int64 // scratch
}

// Leaver is a pod that may have to leave its row.
type Leaver struct {
	Number uint64
	// Start is in microseconds since 1970; 0: not started.
	Start    int64
	Priority int32
	Budgets  int32 // index into Leavers.BudgetSets
	row, use int32 // of Leavers; row is less than 0 where the row takes no copy
}

// Leaving is who may have to leave which rows.
type Leaving struct {
	Preemption
	// List asks for Leavers.Pods; else they are counted only.
	List bool
	// Units are the priorities of pods that leave as parts of larger units, by their numbers; nil: there are none.
	Units map[uint64]int32
	// Rows tells whether a row counts; nil: all do.
	Rows func(t *Table, row uint32) bool
	// Joined are rows that others are promised to take room of: it adds these to what the row's pods add up to.
	Joined map[RowRef]func(*RowTotals)
}

// leaves tells whether a pod may have to leave, and whether with a unit.
func (p *Leaving) leaves(x *placedPod) (unit, leaves bool) {
	if len(p.Units) > 0 {
		if priority, ok := p.Units[x.number]; ok {
			return true, priority < p.Priority
		}
	}
	return false, x.priority < p.Priority
}

// ByRequests tells whether the filters look at nothing of a row's pods but what they request, and at nothing of the cluster.
func (c *Class) ByRequests() bool {
	if !c.pods.plain() || c.pods.grouped < len(c.filters) || c.claims != nil {
		return false
	}
	fit := c.fit()
	return fit == nil || !slices.ContainsFunc(fit.requests, func(r resourceRequest) bool { return r.mapped })
}

// fit is the rule of NodeResourcesFit; nil: it does not filter.
func (c *Class) fit() *nodeResourcesFit {
	if c.pods.fit < 0 {
		return nil
	}
	fit, _ := c.filters[c.pods.fit].rule.(*nodeResourcesFit)
	return fit
}

// Leavers finds the pods of tables that may have to leave, for a class that is ByRequests.
func (e *Evaluator) Leavers(tables []*Table, c *Class, p *Leaving) *Leavers {
	x := &Leavers{}
	if fit := c.fit(); fit != nil {
		for i := range fit.requests {
			x.amounts = append(x.amounts, fit.requests[i].amount)
		}
		x.amounts = append(x.amounts, 1)
	}
	for _, t := range tables {
		d := e.dryRun(t, c, &p.Preemption)
		base := Leaver{use: int32(len(x.useEnds)), Budgets: int32(len(x.BudgetSets))}
		x.takeDictionaries(d)
		rows := e.withoutPods(d)
		for row := range t.live.all {
			if p.Rows == nil || p.Rows(t, row) {
				x.take(d, p, row, rows.has(row), base)
			}
		}
	}
	return x
}

// takeDictionaries takes in what the pods of a table take, and their budgets.
func (x *Leavers) takeDictionaries(d *dryRun) {
	if first := len(x.use); d.fit != nil {
		x.use = append(x.use, d.use...)
		for _, end := range d.useEnds {
			x.useEnds = append(x.useEnds, first+end)
		}
	}
	for _, set := range d.budgets[:len(d.table.placed.budgets.contents)] {
		x.BudgetSets = append(x.BudgetSets, slices.Clone(set))
	}
}

// withoutPods are the rows that all filters let through which do not look at pods.
func (e *Evaluator) withoutPods(d *dryRun) bitmap {
	d.rest = d.table.live.copyOf(d.rest)
	for i := range d.class.filters {
		if rule := d.class.filters[i].rule; rule != nil && i != d.reads.fit {
			rule.narrow(e, d.table, d.rest)
		}
	}
	return d.rest
}

// take takes in a row; passes tells whether it takes copies, if it has room.
func (x *Leavers) take(d *dryRun, p *Leaving, row uint32, passes bool, base Leaver) {
	base.row = -1
	if passes {
		base.row = int32(len(x.copies))
		ref := RowRef{d.table.shard, row}
		x.begin(d, row, p.Joined[ref])
		x.rows, x.copies = append(x.rows, ref), append(x.copies, 0)
		x.copies[base.row] = x.copiesOf(base.row)
		x.Copies += int64(x.copies[base.row])
		x.saved = append(x.saved[:0], x.leftOf(base.row)...)
	}
	for i := range d.table.placed.ofRow[row] {
		pod, leaver := &d.table.placed.ofRow[row][i], base
		unit, leaves := p.leaves(pod)
		if !leaves {
			continue
		}
		x.Any = true
		leaver.Number, leaver.Start, leaver.Priority = pod.number, pod.start, pod.priority
		leaver.Budgets, leaver.use = leaver.Budgets+int32(pod.budgets), leaver.use+int32(pod.usage)
		if passes {
			x.move(&leaver, +1)
		}
		if p.List && (passes || unit || len(x.BudgetSets[leaver.Budgets]) > 0) {
			x.Pods = append(x.Pods, leaver)
		}
	}
	if passes {
		x.AtMost += int64(x.copiesOf(base.row))
		copy(x.leftOf(base.row), x.saved)
	}
}

// begin takes in what a row has left.
func (x *Leavers) begin(d *dryRun, row uint32, join func(*RowTotals)) {
	v := view{t: d.table, row: row}
	if join != nil {
		d.table.Totals(row, &d.joined)
		join(&d.joined)
		v.totals = &d.joined
	}
	if d.fit == nil {
		return
	}
	for i := range d.fit.requests {
		allocatable, requested := v.amounts(d.fit.requests[i].resourceRef)
		x.left = append(x.left, allocatable-requested)
	}
	x.left = append(x.left, d.table.allowedPods[row]-v.pods())
}

func (x *Leavers) leftOf(row int32) []int64 {
	n := len(x.amounts)
	return x.left[int(row)*n : int(row+1)*n]
}

// move gives a row what a pod takes that leaves it, or takes it with sign -1.
func (x *Leavers) move(p *Leaver, sign int64) {
	left := x.leftOf(p.row)
	if len(left) == 0 {
		return
	}
	from := 0
	if p.use > 0 {
		from = x.useEnds[p.use-1]
	}
	for _, u := range x.use[from:x.useEnds[p.use]] {
		left[u.request] += sign * u.amount
	}
	left[len(left)-1] += sign
}

// copiesOf is how many copies a row takes with what it has left.
func (x *Leavers) copiesOf(row int32) int32 {
	copies := int64(math.MaxInt32)
	for i, left := range x.leftOf(row) {
		if copies = min(copies, left/x.amounts[i]); copies <= 0 {
			return 0
		}
	}
	return int32(copies)
}

// Leave has pods leave, by their indexes in Pods, and Back has them come back.
func (x *Leavers) Leave(pods []int32) { x.moveAll(pods, +1) }

// Back undoes Leave.
func (x *Leavers) Back(pods []int32) { x.moveAll(pods, -1) }

func (x *Leavers) moveAll(pods []int32, sign int64) {
	for _, i := range pods {
		p := &x.Pods[i]
		if p.row < 0 {
			continue
		}
		x.move(p, sign)
		now := x.copiesOf(p.row)
		x.Copies += int64(now - x.copies[p.row])
		x.copies[p.row] = now
	}
}

// Room yields the rows that take copies, and how many.
func (x *Leavers) Room(yield func(row RowRef, copies int32) bool) {
	for i, copies := range x.copies {
		if copies > 0 && !yield(x.rows[i], copies) {
			return
		}
	}
}
