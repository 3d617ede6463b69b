package scorer

import "math"

// Emptied calls room for each row that may take a class once no pod is there: with how many copies of each class the row takes by
// itself, and how many pods of all classes together; neither is exceeded, whatever the pods ask for besides. Of more than MaxLeavingFor
// classes the first are told apart, and each row may take the others. The copies are the caller's until room returns.
func (e *Evaluator) Emptied(t *Table, classes []*Class, room func(row uint32, copies []int64, pods int64)) {
	takes := make([]bitmap, min(len(classes), MaxLeavingFor))
	for i := range takes {
		takes[i] = e.whateverPods(t, classes[i])
	}
	copies, least, all := make([]int64, len(takes)), leastOf(classes), len(classes) > len(takes)
	for row := range t.live.all {
		may := all
		for i := range takes {
			if copies[i] = 0; takes[i].has(row) {
				copies[i], may = t.emptied(row, classes[i].fit(), classes[i].requests()), true
			}
		}
		if may {
			room(row, copies, t.emptied(row, classes[0].fit(), least))
		}
	}
}

// whateverPods are the rows that all filters of a class let through which look at no pods, and at no devices.
func (e *Evaluator) whateverPods(t *Table, c *Class) bitmap {
	rows := make(bitmap, len(t.live))
	copy(rows, t.live)
	for i := range c.filters {
		if f := &c.filters[i]; f.rule != nil && f.claims == nil && c.pods.moving>>i&1 == 0 {
			f.rule.narrow(e, t, rows)
		}
	}
	return rows
}

// emptied is how many pods with such requests a row takes that has none.
func (t *Table) emptied(row uint32, fit *nodeResourcesFit, requests []resourceRequest) int64 {
	if fit == nil {
		return math.MaxInt32
	}
	n, v := t.allowedPods[row], view{t: t, row: row}
	for i := range requests {
		if r := &requests[i]; !r.mapped {
			allocatable, _ := v.amounts(r.resourceRef)
			n = min(n, allocatable/r.amount)
		}
	}
	return max(n, 0)
}

// requests are those that NodeResourcesFit filters by.
func (c *Class) requests() []resourceRequest {
	if fit := c.fit(); fit != nil {
		return fit.requests
	}
	return nil
}

// leastOf is what each pod of some classes requests at least.
func leastOf(classes []*Class) (least []resourceRequest) {
	for _, r := range classes[0].requests() {
		r.mapped = false
		for _, c := range classes {
			r.amount = min(r.amount, c.amountOf(r.resourceRef))
		}
		if r.amount > 0 {
			least = append(least, r)
		}
	}
	return least
}

// amountOf is what the class requests of a resource, of nodes' own.
func (c *Class) amountOf(ref resourceRef) int64 {
	for _, r := range c.requests() {
		if r.resourceRef == ref && !r.mapped {
			return r.amount
		}
	}
	return 0
}
