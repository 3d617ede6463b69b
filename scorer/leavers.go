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

	resources resourceSet
	// amounts are what a copy takes of each resource, and of places for pods, class by class.
	amounts []int64
	// left is what each row has left of each of them, and copies how many copies of the first class that is. passes tells by a bit
	// which classes the row takes, if it has room, and ends is where its pods end in Pods.
	left   []int64
	copies []int32
	most   []int32 // copies once all have left
	passes []uint64
	ends   []int32
	rows   []RowRef
	// use is what pods take of the resources; useEnds are where each usage ends in it.
	use     []requestUse
	useEnds []int
	saved   []int64 // scratch
}

// MaxLeavingFor is how many classes leavers may be found for at once.
const MaxLeavingFor = 16

// resourceSet is the resources that some classes ask for, numbered.
type resourceSet struct {
	refs    []resourceRef
	fixed   [fixedResources]int // numbers from 1
	scalars map[string]int
}

// number is the number of a resource, from 1.
func (r *resourceSet) number(ref resourceRef) int {
	n := &r.fixed[max(ref.fixed, 0)]
	if ref.fixed < 0 {
		if r.scalars[ref.name] == 0 {
			if r.scalars == nil {
				r.scalars = map[string]int{}
			}
			r.refs = append(r.refs, ref)
			r.scalars[ref.name] = len(r.refs)
		}
		return r.scalars[ref.name]
	}
	if *n == 0 {
		r.refs = append(r.refs, ref)
		*n = len(r.refs)
	}
	return *n
}

// appendUse appends what a usage takes of the resources, zeros left out.
func (r *resourceSet) appendUse(into []requestUse, u *podUse) []requestUse {
	for i, amount := range u.fixed {
		if r.fixed[i] > 0 && amount != 0 {
			into = append(into, requestUse{r.fixed[i] - 1, amount})
		}
	}
	if len(r.scalars) > 0 {
		for _, x := range u.scalars {
			if n := r.scalars[x.name]; n > 0 && x.quantity != 0 {
				into = append(into, requestUse{n - 1, x.quantity})
			}
		}
	}
	return into
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
	return c.filters[c.pods.fit].rule.(*nodeResourcesFit)
}

// Leavers finds the pods of tables that may have to leave, for classes that are ByRequests: MaxLeavingFor at the most. Copies are of the
// first.
func (e *Evaluator) Leavers(tables []*Table, classes []*Class, p *Leaving) *Leavers {
	x := &Leavers{}
	for _, c := range classes {
		if fit := c.fit(); fit != nil {
			for i := range fit.requests {
				x.resources.number(fit.requests[i].resourceRef)
			}
		}
	}
	for _, c := range classes {
		amounts := make([]int64, len(x.resources.refs)+1)
		if fit := c.fit(); fit != nil {
			for i := range fit.requests {
				amounts[x.resources.number(fit.requests[i].resourceRef)-1] = fit.requests[i].amount
			}
			amounts[len(amounts)-1] = 1
		}
		x.amounts = append(x.amounts, amounts...)
	}
	for _, t := range tables {
		d := e.dryRun(t, classes[0], &p.Preemption)
		base := Leaver{use: int32(len(x.useEnds)), Budgets: int32(len(x.BudgetSets))}
		x.takeDictionaries(d)
		takes := make([]bitmap, len(classes))
		for i, c := range classes {
			takes[i] = e.withoutPods(t, c)
		}
		for row := range t.live.all {
			if p.Rows == nil || p.Rows(t, row) {
				passes := uint64(0)
				for i := range takes {
					passes |= uint64(asInt(takes[i].has(row))) << i
				}
				x.take(d, p, row, passes, base)
			}
		}
	}
	return x
}

// takeDictionaries takes in what the pods of a table take, and their budgets.
func (x *Leavers) takeDictionaries(d *dryRun) {
	usages := d.table.placed.usages.contents
	for i := range usages {
		x.use = x.resources.appendUse(x.use, &usages[i])
		x.useEnds = append(x.useEnds, len(x.use))
	}
	for _, set := range d.budgets[:len(d.table.placed.budgets.contents)] {
		x.BudgetSets = append(x.BudgetSets, slices.Clone(set))
	}
}

// withoutPods are the rows that all filters of a class let through which do not look at pods.
func (e *Evaluator) withoutPods(t *Table, c *Class) bitmap {
	rows := slices.Clone(t.live)
	for i := range c.filters {
		if rule := c.filters[i].rule; rule != nil && i != c.pods.fit {
			rule.narrow(e, t, rows)
		}
	}
	return rows
}

// take takes in a row, and which classes it takes, if it has room.
func (x *Leavers) take(d *dryRun, p *Leaving, row uint32, passes uint64, base Leaver) {
	base.row = -1
	if passes != 0 {
		base.row = int32(len(x.copies))
		ref := RowRef{d.table.shard, row}
		x.begin(d, row, p.Joined[ref])
		x.rows, x.copies, x.passes = append(x.rows, ref), append(x.copies, 0), append(x.passes, passes)
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
		if passes != 0 {
			x.move(&leaver, +1)
		}
		if p.List && (passes != 0 || unit || len(x.BudgetSets[leaver.Budgets]) > 0) {
			x.Pods = append(x.Pods, leaver)
		}
	}
	if passes != 0 {
		most := x.copiesOf(base.row)
		x.AtMost, x.most = x.AtMost+int64(most), append(x.most, most)
		copy(x.leftOf(base.row), x.saved)
		x.ends = append(x.ends, int32(len(x.Pods)))
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
	for _, ref := range x.resources.refs {
		allocatable, requested := v.amounts(ref)
		x.left = append(x.left, allocatable-requested)
	}
	x.left = append(x.left, d.table.allowedPods[row]-v.pods())
}

// width is how many amounts each row has.
func (x *Leavers) width() int { return len(x.resources.refs) + 1 }

func (x *Leavers) leftOf(row int32) []int64 {
	n := x.width()
	return x.left[int(row)*n : int(row+1)*n]
}

// amountsOf are what a copy of a class takes.
func (x *Leavers) amountsOf(class int) []int64 {
	n := x.width()
	return x.amounts[class*n : (class+1)*n]
}

// move gives a row what a pod takes that leaves it, or takes it with sign -1.
func (x *Leavers) move(p *Leaver, sign int64) {
	left, from := x.leftOf(p.row), 0
	if p.use > 0 {
		from = x.useEnds[p.use-1]
	}
	for _, u := range x.use[from:x.useEnds[p.use]] {
		left[u.request] += sign * u.amount
	}
	left[len(left)-1] += sign
}

// copiesOf is how many copies of the first class a row takes with what it has left.
func (x *Leavers) copiesOf(row int32) int32 {
	copies := int64(math.MaxInt32)
	if x.passes[row]&1 == 0 {
		return 0
	}
	for i, left := range x.leftOf(row) {
		if amount := x.amounts[i]; amount > 0 {
			if copies = min(copies, left/amount); copies <= 0 {
				return 0
			}
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

// Room yields the rows that take copies of the first class, and how many.
func (x *Leavers) Room(yield func(row RowRef, copies int32) bool) {
	for i, copies := range x.copies {
		if copies > 0 && !yield(x.rows[i], copies) {
			return
		}
	}
}

// Sums yields the rows that take the classes, with how many copies of the first, and how many once all have left.
func (x *Leavers) Sums(yield func(row RowRef, copies [2]int32) bool) {
	for i := range x.rows {
		if !yield(x.rows[i], [2]int32{x.copies[i], x.most[i]}) {
			return
		}
	}
}
