package scorer

import (
	"cmp"
	"math"
	"slices"
)

// Units tell which pods leave together, or stay. It is asked by several goroutines at once, and says the same until a question is
// answered.
type Units interface {
	// On tells whether a node has such pods.
	On(node string) bool
	// Of is the unit of a pod, by its number; nil: the pod leaves by itself.
	Of(number uint64) *Unit
}

// Unit is pods of one or several rows that leave together, or stay.
type Unit struct {
	// Priority counts instead of the pods' own.
	Priority int32
	// Pods is how many of them would leave. Those that leave anyway cost nothing.
	Pods int
	// Start is when the first of them started, in microseconds since 1970; 0: none has.
	Start int64
	// Budgets are how many of Pods each budget counts. Violates: its eviction violates a budget, whatever they allow.
	Budgets  []UnitBudget
	Violates bool
}

// UnitBudget is how many pods of a unit a budget counts, by Budget.ID.
type UnitBudget struct {
	ID   uint32
	Pods int
}

// rowUnit is what leaves the row at hand as one: a pod, or the row's pods of a Unit.
type rowUnit struct {
	whole *Unit // nil: a pod by itself
	Unit
	pods              []placedPod
	number            uint64 // the smallest of the pods'
	violating, victim bool
}

// hasUnits tells whether a row has pods that leave with others.
func (d *dryRun) hasUnits(row uint32) bool {
	return d.asked.Units != nil && d.asked.Units.On(d.table.names[row])
}

// findUnits finds the units of a row that may leave, the most important first, and their pods: the higher priority, then the more
// pods, then the earlier start, then the smaller number. false: there are none.
func (d *dryRun) findUnits(row uint32) bool {
	d.units, d.lower = d.units[:0], nil
	now := d.asked.NowMicros
	for _, p := range d.table.placed.ofRow[row] {
		whole := d.asked.Units.Of(p.number)
		at := -1
		if whole != nil {
			at = slices.IndexFunc(d.units, func(u rowUnit) bool { return u.whole == whole })
		}
		if at < 0 {
			u := Unit{Priority: p.priority, Pods: 1, Start: p.startOr(now)}
			if whole != nil {
				u = *whole
				u.Start = cmp.Or(u.Start, now)
			}
			if u.Priority >= d.asked.Priority {
				continue
			}
			at = d.addUnit(rowUnit{whole: whole, Unit: u, number: p.number})
		}
		d.units[at].number = min(d.units[at].number, p.number)
		d.units[at].pods = append(d.units[at].pods, p)
	}
	for i := range d.units {
		slices.SortFunc(d.units[i].pods, func(a, b placedPod) int { return comparePods(&a, &b, now) })
	}
	slices.SortFunc(d.units, func(a, b rowUnit) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.Start, b.Start),
			cmp.Compare(a.number, b.number))
	})
	d.sorted = d.sorted[:0]
	for i := range d.units {
		d.sorted = append(d.sorted, d.units[i].pods...)
	}
	d.lower = d.sorted
	return len(d.units) > 0
}

// addUnit adds a unit without pods, in the memory of an earlier one, and returns its index.
func (d *dryRun) addUnit(u rowUnit) int {
	at := len(d.units)
	if at < cap(d.units) {
		u.pods = d.units[:at+1][at].pods[:0]
	}
	d.units = append(d.units, u)
	return at
}

// chargeUnits finds the units whose eviction violates a budget, were all of them evicted in order.
func (d *dryRun) chargeUnits() {
	for i := range d.units {
		u := &d.units[i]
		u.violating = u.Violates
		if u.whole == nil {
			for _, b := range d.budgets[u.pods[0].budgets] {
				u.violating = d.chargeUnit(b, 1) || u.violating
			}
			continue
		}
		for _, x := range u.Budgets {
			at, found := slices.BinarySearchFunc(d.asked.Budgets, x.ID, func(b Budget, id uint32) int { return cmp.Compare(b.ID, id) })
			if found {
				u.violating = d.chargeUnit(int32(at), x.Pods) || u.violating
			}
		}
	}
	for i := range d.left {
		d.left[i] = d.asked.Budgets[i].Allowed
	}
}

// chargeUnit takes pods of what a budget still allows, and tells whether it allows fewer.
func (d *dryRun) chargeUnit(budget int32, pods int) bool {
	d.left[budget] = int32(max(int64(d.left[budget])-int64(pods), math.MinInt32))
	return d.left[budget] < 0
}

// reprieveUnits is classify and reprieve for units.
func (e *Evaluator) reprieveUnits(d *dryRun, row uint32, check *RowCheck) {
	d.chargeUnits()
	returns := e.returnsUnit
	if check != nil || d.reads.others {
		returns = e.returnsWholeUnit
	}
	for _, violating := range [...]bool{true, false} {
		for i := range d.units {
			if u := &d.units[i]; u.violating == violating {
				u.victim = !returns(d, row, u, check)
			}
		}
	}
}

// returnsUnit takes the row's pods of a unit back if the row still takes the pod at hand then, by d.slack and returns.
func (e *Evaluator) returnsUnit(d *dryRun, row uint32, u *rowUnit, _ *RowCheck) bool {
	taken := 0
	for ; taken < len(u.pods) && d.room(&u.pods[taken]); taken++ {
		d.take(&u.pods[taken])
	}
	if taken == len(u.pods) && e.returnsCounts(d, row, u) {
		return true
	}
	for i := range u.pods[:taken] {
		d.giveBack(&u.pods[i])
	}
	return false
}

// returnsCounts is returns for the pods of a unit together.
func (e *Evaluator) returnsCounts(d *dryRun, row uint32, u *rowUnit) bool {
	matter := false
	for i := range u.pods {
		if p := &u.pods[i]; d.matters(p) {
			matter = true
			d.moveCounts(p, +1)
		}
	}
	if !matter {
		return true
	}
	v := view{d.table, row, &d.totals, e}
	if d.grouped() {
		d.cluster.change(v)
	}
	for _, i := range d.reads.seeing {
		if e.refuses(d, &d.class.filters[i], v) {
			for k := range u.pods {
				if p := &u.pods[k]; d.matters(p) {
					d.moveCounts(p, -1)
				}
			}
			return false
		}
	}
	return true
}

// giveBack undoes take.
func (d *dryRun) giveBack(p *placedPod) {
	n := len(d.slack) - 1
	if n < 0 {
		return
	}
	for _, x := range d.useOf(p) {
		d.slack[x.request] += x.amount
	}
	d.slack[n]++
}

// returnsWholeUnit is returnsWhole for the row's pods of a unit together.
func (e *Evaluator) returnsWholeUnit(d *dryRun, row uint32, u *rowUnit, check *RowCheck) bool {
	for i := range u.pods {
		d.move(&u.pods[i], +1)
		check.moved(&u.pods[i], true)
	}
	if e.judge(d, row, &d.totals, check) < 0 {
		return true
	}
	for i := range u.pods {
		d.move(&u.pods[i], -1)
		check.moved(&u.pods[i], false)
	}
	return false
}

// describeUnits is describe for units. A unit that violates a budget does so with all of its pods, wherever they are.
func (d *dryRun) describeUnits(row uint32) bool {
	c := d.newCandidate(row)
	c.TopPriority = math.MinInt32
	for i := range d.units {
		u := &d.units[i]
		if !u.victim {
			continue
		}
		for k := range u.pods {
			c.Victims = append(c.Victims, u.pods[k].number)
		}
		c.Elsewhere += u.Pods - len(u.pods)
		if u.Pods == 0 {
			continue
		}
		// Units are in order: the first has the highest priority.
		c.TopPriority = max(c.TopPriority, u.Priority)
		if u.Priority == c.TopPriority {
			c.EarliestStart = min(c.EarliestStart, u.Start)
		}
		c.PrioritySum += uint64(u.Pods) * uint64(int64(u.Priority)+1<<31)
		if u.violating {
			c.Violations += u.Pods
		}
	}
	return len(c.Victims) > 0
}
