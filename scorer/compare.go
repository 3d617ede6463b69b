package scorer

import (
	"fmt"
	"slices"
)

// What others say of a class is held against what the same code finds in the own tables: everything
// (Differs), or the sums that decide whether a pod may go somewhere (DiffersIn).

// Decisive lists the measures that the class's filters read, ascending.
func (c *Class) Decisive() []int { return c.decisive }

// Witnesses tell who has answered for each shard, by numbers of the caller's; 0, also beyond the list, is the
// caller itself.
type Witnesses []uint32

// Of is who has answered for a shard.
func (w Witnesses) Of(shard uint32) uint32 {
	if int(shard) >= len(w) {
		return 0
	}
	return w[shard]
}

// Add notes who has answered for a shard.
func (w *Witnesses) Add(shard, who uint32) {
	for len(*w) <= int(shard) {
		*w = append(*w, 0)
	}
	(*w)[shard] = who
}

// Differs says in what another answer over the same tables, asked the same, is another one; nil: in
// nothing.
func (r *Result) Differs(o *Result) error {
	switch {
	case r.Rows != o.Rows || r.Feasible != o.Feasible || r.Hopeless != o.Hopeless:
		return fmt.Errorf("%d rows, %d feasible and %d hopeless, not %d, %d and %d", o.Rows, o.Feasible, o.Hopeless, r.Rows, r.Feasible,
			r.Hopeless)
	case r.Overflow != o.Overflow:
		return fmt.Errorf("overflow is %t, not %t", o.Overflow, r.Overflow)
	case r.Overflow && !slices.Equal(trimmed(r.Extrema), trimmed(o.Extrema)):
		return fmt.Errorf("extrema %d, not %d", o.Extrema, r.Extrema)
	case !slices.Equal(r.Reasons, o.Reasons):
		return fmt.Errorf("reasons %v, not %v", o.Reasons, r.Reasons)
	}
	for i := range r.Measures {
		if err := r.DiffersIn(o, i); err != nil {
			return err
		}
	}
	if err := r.DiffersInCopies(o); err != nil {
		return err
	}
	return differingGroups(r.Groups, o.Groups)
}

// DiffersInCopies is Differs for the copies.
func (r *Result) DiffersInCopies(o *Result) error {
	if !r.Copies.equal(o.Copies) {
		return fmt.Errorf("other copies: %d, not %d, or other sums by domain", o.Copies.total(), r.Copies.total())
	}
	return nil
}

// DiffersIn is Differs for one measure.
func (r *Result) DiffersIn(o *Result, measure int) error {
	if measure >= len(o.Measures) {
		return fmt.Errorf("%d measures", len(o.Measures))
	}
	x, y := &r.Measures[measure], &o.Measures[measure]
	if x.Missing != y.Missing || !slices.Equal(withRows(x.Cells), withRows(y.Cells)) {
		return fmt.Errorf("measure %d is %v and %v, not %v and %v", measure, y.Cells, y.Missing, x.Cells, x.Missing)
	}
	return nil
}

// trimmed leaves out the zeros at the end, which count as none.
func trimmed(list []int64) []int64 {
	for len(list) > 0 && list[len(list)-1] == 0 {
		list = list[:len(list)-1]
	}
	return list
}

// withRows leaves out cells without rows, which count as none.
func withRows(list []MeasureCell) []MeasureCell {
	empty := func(c MeasureCell) bool { return c.Rows == 0 }
	if !slices.ContainsFunc(list, empty) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), empty)
}

// differingGroups compares groups in the order of their keys.
func differingGroups(x, y []Group) error {
	if len(x) != len(y) {
		return fmt.Errorf("%d groups, not %d", len(y), len(x))
	}
	for i := range x {
		switch a, b := &x[i], &y[i]; {
		case !a.Key.Equal(&b.Key):
			return fmt.Errorf("a group with key %v, not %v", b.Key, a.Key)
		case a.Rows != b.Rows:
			return fmt.Errorf("%d rows with key %v, not %d", b.Rows, a.Key, a.Rows)
		case !slices.Equal(a.Candidates, b.Candidates):
			return fmt.Errorf("candidates %v with key %v, not %v", b.Candidates, a.Key, a.Candidates)
		}
	}
	return nil
}

// Differs says in what another answer over the same rows, asked the same, is another one; nil: in nothing.
func (r *PreemptionResult) Differs(o *PreemptionResult) error {
	if r.Tried != o.Tried || !slices.Equal(r.Reasons, o.Reasons) || len(r.Candidates) != len(o.Candidates) {
		return fmt.Errorf("%d rows tried, %d candidates and reasons %v, not %d, %d and %v", o.Tried, len(o.Candidates), o.Reasons,
			r.Tried, len(r.Candidates), r.Reasons)
	}
	if !slices.Equal(r.Failing, o.Failing) {
		return fmt.Errorf("rows %v fail the pod, not %v", o.Failing, r.Failing)
	}
	for i := range r.Candidates {
		if !r.Candidates[i].Same(&o.Candidates[i]) {
			return fmt.Errorf("candidate %v, not %v", o.Candidates[i], r.Candidates[i])
		}
	}
	return nil
}

// Same tells whether two candidates are the same row with the same victims.
func (c *PreemptionCandidate) Same(o *PreemptionCandidate) bool {
	x, y := *c, *o
	x.Victims, y.Victims = nil, nil
	return comparePreemptions(&x, &y) == 0 && slices.Equal(c.Victims, o.Victims)
}
