package scorer

import (
	"math"
	"slices"
)

// Vacancy bounds how many pods of some classes the rows of a table take, beside given pods. Of more than MaxLeavingFor classes the first
// are told apart, and each row may take the others.
type Vacancy struct {
	table   *Table
	classes []*Class
	// By class: the rows that may take it whatever pods are there, and what it requests of nodes' own resources.
	takes    []bitmap
	requests [][]resourceRequest
	least    []resourceRequest
	copies   []int64
}

// Vacancy prepares the bounds. They hold until the table changes.
func (e *Evaluator) Vacancy(t *Table, classes []*Class) *Vacancy {
	v := &Vacancy{table: t, classes: classes, takes: make([]bitmap, min(len(classes), MaxLeavingFor)), least: leastOf(classes)}
	for i := range v.takes {
		v.takes[i] = e.whateverPods(t, classes[i])
		isMapped := func(r resourceRequest) bool { return r.mapped }
		v.requests = append(v.requests, slices.DeleteFunc(slices.Clone(classes[i].requests()), isMapped))
	}
	v.copies = make([]int64, len(v.takes))
	return v
}

// Of bounds, for one row, the copies of each class alone, and the pods of all classes together, beside the pods of totals; nil: the row's
// own. ok is false where no class may have the row, whatever pods are there. copies is overwritten by the next call.
func (v *Vacancy) Of(row uint32, totals *RowTotals) (copies []int64, pods int64, ok bool) {
	ok = len(v.classes) > len(v.takes)
	for i := range v.takes {
		if v.copies[i] = 0; v.takes[i].has(row) {
			v.copies[i], ok = v.fit(row, totals, v.classes[i], v.requests[i]), true
		}
	}
	if !ok {
		return nil, 0, false
	}
	return v.copies, v.fit(row, totals, v.classes[0], v.least), true
}

// fit is how many pods with such requests, and the filters of a class, a row takes beside those of totals.
func (v *Vacancy) fit(row uint32, totals *RowTotals, c *Class, requests []resourceRequest) int64 {
	if c.fit() == nil {
		return math.MaxInt32
	}
	return max(view{t: v.table, row: row, totals: totals}.copies(requests), 0)
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
