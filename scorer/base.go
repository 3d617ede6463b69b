package scorer

import (
	"iter"

	"google.golang.org/protobuf/proto"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// BaseQuery is a query without what it counts: every row has 0 of its row values and adds 0 to its
// measures. Queries that differ in selectors alone have the same one. It has no id.
func BaseQuery(q *pb.Query) *pb.Query {
	base := proto.CloneOf(q)
	base.ClassId = 0
	for _, v := range base.RowValues {
		v.Counters = nil
	}
	for _, m := range base.Measures {
		m.Counters = nil
	}
	if base.InterPodAffinity != nil {
		base.InterPodAffinity.Alone = nil
	}
	return base
}

// Recount is Evaluator.Row for a class whose verdict by its base is known: it only looks at what the class counts.
func (c *Class) Recount(t *Table, row uint32, base, into *Verdict) {
	g := &c.group
	into.reset(len(g.measures))
	if !t.HasNode(row) {
		return
	}
	v := view{t: t, row: row}
	for i := range g.measures {
		x := &into.Measured[i]
		if *x = base.Measured[i]; x.Included {
			x.Value = v.weighted(g.sums[g.measures[i].sum])
		}
	}
	if !base.Passed {
		return
	}
	into.Key.set(&base.Key)
	for i := range g.values {
		x, n := &g.values[i], &into.Key.Values[i]
		if *n == NoLabel {
			continue
		}
		if *n = g.sumOf(x, v); *n != 0 && !g.inclusions[x.inclusion].includes(v) {
			*n = 0
		}
		if *n = x.clamped(*n); c.forbids(x, *n, &into.Key) {
			into.Key.reset()
			return
		}
	}
	into.Passed, into.Local = true, base.Local
}

// CopyCounts makes r the groups and measures of a result for another class, without candidates.
func (r *Result) CopyCounts(classID uint64, o *Result) {
	r.CopyMeasures(classID, o)
	r.Rows, r.Feasible = o.Rows, o.Feasible
	r.growGroups(len(o.Groups))
	for i := range o.Groups {
		r.Groups[i].Key.set(&o.Groups[i].Key)
		r.Groups[i].Rows = o.Groups[i].Rows
	}
}

// CopyMeasures makes r the measures of a result for another class, without groups.
func (r *Result) CopyMeasures(classID uint64, o *Result) {
	r.Reset(classID, 0)
	r.grouped = o.grouped
	r.openMeasures(len(o.Measures))
	for i := range o.Measures {
		r.Measures[i].reset(o.Measures[i].By)
		r.Measures[i].Missing = o.Measures[i].Missing
		r.Measures[i].Cells = append(r.Measures[i].Cells, o.Measures[i].Cells...)
	}
}

// GroupFor is the group with a key, which it opens at the end, without rows, where it is new.
func (r *Result) GroupFor(key *Key) int {
	group := r.index.find(r.Groups, key)
	if group < 0 {
		group = len(r.Groups)
		r.openGroup().Key.set(key)
	}
	return group
}

// MoveRows adds so many rows to a group, or takes them: Move for a row whose share in the measures stays.
func (r *Result) MoveRows(group, by int) {
	r.Groups[group].Rows += by
	r.Feasible += by
}

// GroupCounters are the counters that row values and measures add up, sorted, each once.
func (c *Class) GroupCounters() []uint32 { return c.group.summed }

// CountRows is how many rows have any of a counter.
func (t *Table) CountRows(id uint32) (rows int) {
	c := t.counters.column(id)
	if c == nil {
		return 0
	}
	for _, n := range c.dense {
		if n != 0 {
			rows++
		}
	}
	return rows + len(c.rows)
}

// CounterRows yields the rows that have any of a counter, in order.
func (t *Table) CounterRows(id uint32) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		c := t.counters.column(id)
		if c == nil {
			return
		}
		for _, row := range c.rows {
			if !yield(row) {
				return
			}
		}
		for row, n := range c.dense {
			if n != 0 && !yield(uint32(row)) {
				return
			}
		}
	}
}
