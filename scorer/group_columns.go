package scorer

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// groupColumns is what a class's group part reads of one table, each column made when
// the first plugin asks for it. Its memory is kept from table to table.
type groupColumns struct {
	diagnose bool
	included []lazily[bitmap]     // by groupPart.inclusions
	sums     []lazily[[]int64]    // by groupPart.sums
	labels   []lazily[labelRanks] // by groupPart.labels
	values   []lazily[[]int64]    // by groupPart.values
	measured []bool               // by groupPart.measures

	// marks are the different refusals by late filters. markOf is the index of each row's mark, plus
	// one; 0: it has none. unmarked are the rows without a mark.
	marks    []lateMark
	markOf   []uint32
	unmarked bitmap
	marking  bool
	missing  bitmap

	zero      []int64 // never written
	byID      []int64
	cells     []MeasureCell
	ids       []uint32
	ranks     []uint32
	outliers  []int64
	histogram [256]int32
}

// lazily is a column that is made on demand. shown is the column; it may be the table's own. made
// is memory to make one in.
type lazily[T any] struct {
	shown, made T
	done        bool
}

// labelRanks is a label as a column of small numbers: 0 where a row lacks it, else the
// index of its value, plus one, among the sorted values.
type labelRanks struct {
	of     []uint32
	values []string
}

// lateMark is what a late filter says about rows.
type lateMark struct {
	filter  uint32
	reasons uint64
}

// begin forgets what was made of another table.
func (x *groupColumns) begin(c *Class, rows int, diagnose bool) {
	x.diagnose = diagnose
	x.included = undone(x.included, len(c.group.inclusions))
	x.sums = undone(x.sums, len(c.group.sums))
	x.labels = undone(x.labels, len(c.group.labels))
	x.values = undone(x.values, len(c.group.values))
	x.measured = scratch(x.measured, len(c.group.measures))
	clear(x.measured)
	x.zero = lengthened(x.zero, rows)
	x.marks, x.marking = x.marks[:0], diagnose && c.late || c.claims != nil
	if x.marking {
		x.markOf = scratch(x.markOf, rows)
		clear(x.markOf)
	}
}

func undone[T any](list []lazily[T], n int) []lazily[T] {
	for len(list) < n {
		list = append(list, lazily[T]{})
	}
	for i := range list[:n] {
		list[i].done = false
	}
	return list
}

// prepare makes what a plugin reads: measures over all rows, values for those that are
// left. It takes the rows out that a value forbids and returns how many are left.
func (e *Evaluator) prepare(t *Table, c *Class, n *groupReads, left int) int {
	for _, i := range n.measures {
		e.measure(t, c, i)
	}
	for _, i := range n.values {
		if left > 0 && !e.columns.values[i].done {
			left = e.forbid(e.value(t, c, i), &c.group.values[i], left)
		}
	}
	return left
}

// rest makes the forbidding values that no filter asked for, and returns how many rows
// belong to a group.
func (e *Evaluator) rest(t *Table, c *Class, left int) int {
	for i := range c.group.values {
		if c.group.values[i].forbids && left > 0 && !e.columns.values[i].done {
			left = e.forbid(e.value(t, c, i), &c.group.values[i], left)
		}
	}
	if c.HasGroups() && e.columns.marking {
		e.sortMarks()
		return e.rows.count()
	}
	return left
}

// forbid takes the rows out whose value is above 0, unless they are to be diagnosed, or fail the pod before a filter reads
// the value.
func (e *Evaluator) forbid(column []int64, x *rowValue, left int) int {
	if !x.forbids || e.columns.diagnose {
		return left
	}
	for row := range e.rows.all {
		if column[row] > 0 && !(x.behindClaims && e.aside.has(row)) {
			e.rows.remove(row)
			left--
		}
	}
	return left
}

// mark runs a late filter: the rows that it refuses stay, marked. It returns how many are
// not marked.
func (e *Evaluator) mark(t *Table, f *filterTerm) int {
	x := &e.columns
	if len(x.marks) == 0 {
		x.unmarked = e.rows.copyOf(x.unmarked)
	}
	e.refused = x.unmarked.copyOf(e.refused)
	f.rule.narrow(e, t, x.unmarked)
	e.refused.without(x.unmarked)
	for row := range e.refused.all {
		e.why = f.marks(view{t: t, row: row, e: e}, e.why[:0])
		x.mark(row, lateMark{f.number, reasonBits(e.why)})
	}
	return x.unmarked.count()
}

// mark marks a row.
func (x *groupColumns) mark(row uint32, m lateMark) {
	i := slices.Index(x.marks, m)
	if i < 0 {
		i = len(x.marks)
		x.marks = append(x.marks, m)
	}
	x.markOf[row] = uint32(i + 1)
}

// setAside runs the filter of claims: the rows that it refuses go. Those that fail the pod are marked, and the filters
// behind it do not look at them. It returns how many are left.
func (e *Evaluator) setAside(t *Table, f *filterTerm) int {
	e.refused = e.rows.copyOf(e.refused)
	f.rule.narrow(e, t, e.rows)
	e.refused.without(e.rows)
	e.aside = scratch(e.aside, len(e.rows))
	clear(e.aside)
	for row := range e.refused.all {
		if f.claims.fails(view{t: t, row: row, e: e}) {
			e.aside.add(row)
			e.columns.mark(row, lateMark{f.number, 1 << failsPod})
		}
	}
	e.rows.union(e.aside)
	return e.rows.count()
}

// narrowOthers runs one filter over the rows that do not stand aside.
func (e *Evaluator) narrowOthers(t *Table, rule filterRule, before int, diagnose bool) (left int) {
	if len(e.columns.marks) == 0 {
		return e.narrow(t, rule, before, diagnose)
	}
	e.aside.intersect(e.rows)
	rule.narrow(e, t, e.rows)
	e.rows.union(e.aside)
	return e.rows.count()
}

// sortMarks numbers the marks in the order of keys.
func (e *Evaluator) sortMarks() {
	x := &e.columns
	x.ids = scratch(x.ids, len(x.marks))
	for i := range x.ids {
		x.ids[i] = uint32(i)
	}
	slices.SortFunc(x.ids, func(a, b uint32) int {
		m, o := x.marks[a], x.marks[b]
		return cmp.Or(cmp.Compare(m.filter, o.filter), cmp.Compare(m.reasons, o.reasons))
	})
	sorted := make([]lateMark, len(x.marks))
	x.ranks = scratch(x.ranks, len(x.marks)+1)
	x.ranks[0] = 0
	for to, from := range x.ids {
		sorted[to] = x.marks[from]
		x.ranks[from+1] = uint32(to + 1)
	}
	x.marks = append(x.marks[:0], sorted...)
	for row := range e.rows.all {
		x.markOf[row] = x.ranks[x.markOf[row]]
	}
}

// inclusion is the rows that an inclusion counts.
func (e *Evaluator) inclusion(t *Table, c *Class, i int) bitmap {
	x := &e.columns.included[i]
	if x.done {
		return x.shown
	}
	x.done, x.shown = true, t.live[:len(e.rows)]
	if how := &c.group.inclusions[i]; !how.all() {
		x.made = x.shown.copyOf(x.made)
		how.narrow(e, t, x.made)
		x.shown = x.made
	}
	return x.shown
}

// sum is the weighted sum of each row's counters.
func (e *Evaluator) sum(t *Table, c *Class, i int) []int64 {
	x := &e.columns.sums[i]
	if x.done {
		return x.shown
	}
	rows := len(e.rows) * wordRows
	x.done, x.shown = true, e.columns.zero[:rows]
	terms, zero := c.group.sums[i], true
	if len(terms) == 1 && terms[0].GetWeight() == 1 {
		if a := t.counterColumn(terms[0].GetCounter()); a != nil && a.dense != nil {
			x.shown = a.dense[:rows]
			return x.shown
		}
	}
	for _, term := range terms {
		a := t.counterColumn(term.GetCounter())
		if a == nil {
			continue
		}
		if zero {
			x.made, zero = scratch(x.made, rows), false
			clear(x.made)
			x.shown = x.made
		}
		a.addTo(x.shown, term.GetWeight())
	}
	return x.shown
}

// addTo adds a column, weighted.
func (a *amounts) addTo(into []int64, weight int64) {
	if a.dense != nil {
		addWeighted(into, a.dense, weight)
		return
	}
	for i, row := range a.rows {
		if int(row) < len(into) {
			into[row] += weight * a.vals[i]
		}
	}
}

// value is a row value as a column.
func (e *Evaluator) value(t *Table, c *Class, i int) []int64 {
	x, how := &e.columns.values[i], &c.group.values[i]
	if x.done {
		return x.shown
	}
	x.done = true
	if len(how.pinned.all) > 0 {
		x.made = e.pinned(t, c, how, len(e.rows)*wordRows, x.made)
		x.shown = x.made
		return x.shown
	}
	x.shown = e.sum(t, c, how.sum)
	included := e.inclusion(t, c, how.inclusion)
	label := t.labels.column(how.key)
	labelled := how.key == "" || label != nil && label.rows.used == t.nodes
	if labelled && !how.clamp && c.group.inclusions[how.inclusion].all() {
		return x.shown
	}
	x.made = append(x.made[:0], x.shown...)
	x.shown = x.made
	if how.clamp {
		clamp(x.made)
	}
	e.term = e.rows.copyOf(e.term)
	e.term.without(included)
	for row := range e.term.all {
		x.made[row] = 0
	}
	if !labelled {
		missing := e.rows.copyOf(e.columns.missing)
		e.columns.missing = missing
		label.narrowPresent(e, t, missing)
		e.term = e.rows.copyOf(e.term)
		e.term.without(missing)
		for row := range e.term.all {
			x.made[row] = NoLabel
		}
	}
	return x.shown
}

// clamp replaces numbers above 0 by 1, others by 0.
func clamp(list []int64) {
	for i, n := range list {
		list[i] = int64(asBit(n > 0))
	}
}

// label is a label's values as a column.
func (e *Evaluator) label(t *Table, c *Class, i int) *labelRanks {
	x := &e.columns.labels[i]
	if !x.done {
		x.done = true
		e.rank(t.labels.column(c.group.labels[i]), len(e.rows)*wordRows, &x.shown)
	}
	return &x.shown
}

// rank makes the column of a label, which may be nil.
func (e *Evaluator) rank(c *labelColumn, rows int, into *labelRanks) {
	into.of, into.values = scratch(into.of, rows), into.values[:0]
	if c == nil {
		clear(into.of)
		return
	}
	x := &e.columns
	x.ids = x.ids[:0]
	for id := 1; id < len(c.refs); id++ {
		if c.refs[id] > 0 {
			x.ids = append(x.ids, uint32(id))
		}
	}
	slices.SortFunc(x.ids, func(a, b uint32) int { return strings.Compare(c.values[a], c.values[b]) })
	x.ranks = scratch(x.ranks, len(c.values))
	x.ranks[0] = 0
	for i, id := range x.ids {
		into.values = append(into.values, c.values[id])
		x.ranks[id] = uint32(i + 1)
	}
	c.rows.translate(x.ranks, into.of)
}

// translate writes what a dictionary makes of each row's id.
func (c *ids) translate(dictionary, into []uint32) {
	switch {
	case c.d8 != nil:
		translateDense(c.d8, dictionary, into)
	case c.d16 != nil:
		translateDense(c.d16, dictionary, into)
	case c.d32 != nil:
		translateDense(c.d32, dictionary, into)
	default:
		for i := range into {
			into[i] = dictionary[0]
		}
		for i, row := range c.rows {
			if int(row) < len(into) {
				into[row] = dictionary[c.vals[i]]
			}
		}
	}
}

func translateDense[T uint8 | uint16 | uint32](column []T, dictionary, into []uint32) {
	for i, id := range column[:len(into)] {
		into[i] = dictionary[id]
	}
}

// measure adds up a measure over the table.
func (e *Evaluator) measure(t *Table, c *Class, i int) {
	if e.columns.measured[i] {
		return
	}
	e.columns.measured[i] = true
	m, into := &c.group.measures[i], &e.part.Measures[i]
	into.reset(m.by)
	included, sum := e.inclusion(t, c, m.inclusion), e.sum(t, c, m.sum)
	switch m.by {
	case pb.Breakdown_BREAKDOWN_DOMAIN:
		e.measureDomains(included, sum, e.label(t, c, m.label), into)
	case pb.Breakdown_BREAKDOWN_VALUE:
		e.measureValues(included, sum, into)
	default:
		var all MeasureCell
		for row := range included.all {
			all.add(1, sum[row])
		}
		if all.Rows > 0 {
			into.Cells = append(into.Cells, all)
		}
	}
}

func (e *Evaluator) measureDomains(included bitmap, sum []int64, label *labelRanks, into *MeasureResult) {
	e.columns.cells = scratch(e.columns.cells, len(label.values)+1)
	cells := e.columns.cells
	clear(cells)
	for w, word := range included {
		for ; word != 0; word &= word - 1 {
			row := w*wordRows + bits.TrailingZeros64(word)
			cells[label.of[row]].add(1, sum[row])
		}
	}
	into.Missing = cells[0]
	for i, name := range label.values {
		if c := cells[i+1]; c.Rows > 0 {
			c.Domain = name
			into.Cells = append(into.Cells, c)
		}
	}
}

// measureValues counts small values, as they mostly are, in slots, and sorts the others.
func (e *Evaluator) measureValues(included bitmap, sum []int64, into *MeasureResult) {
	x := &e.columns
	x.outliers = x.outliers[:0]
	clear(x.histogram[:])
	for row := range included.all {
		if n := sum[row]; uint64(n) < uint64(len(x.histogram)) {
			x.histogram[n]++
		} else {
			x.outliers = append(x.outliers, n)
		}
	}
	slices.Sort(x.outliers)
	count := func(value int64, rows int) {
		if n := len(into.Cells); n > 0 && into.Cells[n-1].Value == value {
			into.Cells[n-1].Rows += rows
		} else {
			into.Cells = append(into.Cells, MeasureCell{Value: value, Rows: rows})
		}
	}
	negative, _ := slices.BinarySearch(x.outliers, 0)
	for _, n := range x.outliers[:negative] {
		count(n, 1)
	}
	for n, rows := range x.histogram {
		if rows > 0 {
			count(int64(n), int(rows))
		}
	}
	for _, n := range x.outliers[negative:] {
		count(n, 1)
	}
}

// addWeighted adds a column. What it adds to rows that are not feasible is never read.
func addWeighted(into, column []int64, weight int64) {
	for i, v := range column[:len(into)] {
		into[i] += weight * v
	}
}
