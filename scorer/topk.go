package scorer

import (
	"math"
	"math/bits"
	"slices"
)

// grouping collects the feasible rows of one table by key.
type grouping struct {
	table  *Table
	groups []groupRows
	limit  int
	// overflowed tells that there were too many keys; then only extrema count.
	overflowed bool
}

// groupRows is one group: its rows counted, the best of them in a heap whose root is the
// worst.
type groupRows struct {
	key  [MaxKey]int64
	code uint64 // stands for the whole key, where there is more to it
	row  uint32 // one of them, where there is a code
	rows int
	heap []scoredRow
	// bar is the root of a full heap.
	bar bar
}

// scoredRow is a candidate while the heap holds it, with what mostly decides; the tie rule's
// columns stay in the table.
type scoredRow struct {
	score int64
	tie   uint64
	row   uint32
}

// group puts the rows in e.rows, with their keys and local scores, into e.part.
func (e *Evaluator) group(t *Table, c *Class, o Options) {
	g := &e.groups
	g.reset(t, o.Candidates)
	keyLen := c.keyLen
	if o.Normalise {
		e.addGroupScores(c, o.Extrema)
		keyLen = 0
	}
	var key [MaxKey]int64
	into := g.of(key)
	if keyLen > 0 {
		e.rows.without(e.keyed)
	}
	into.rows = e.rows.count()
	into.offerAll(t, e.rows, e.local, g.limit)
	if keyLen > 0 {
		e.groupKeyed(t, keyLen)
		e.rows.union(e.keyed)
	}
	for i := range c.keyLen {
		e.part.Extrema[i] = g.extremum(i, e.keys[i], e.rows, keyLen)
	}
	g.addTo(&e.part, keyLen)
	g.table = nil
}

// groupKeyed groups the rows whose keys may have more than zeros.
func (e *Evaluator) groupKeyed(t *Table, keyLen int) {
	g := &e.groups
	first, second, third := e.keyColumns(keyLen)
	var key [MaxKey]int64
	into := g.of(key)
	for w, word := range e.keyed {
		for ; word != 0; word &= word - 1 {
			row := w*wordRows + bits.TrailingZeros64(word)
			if first[row] != key[0] || second[row] != key[1] || third[row] != key[2] {
				key = [MaxKey]int64{first[row], second[row], third[row]}
				if into = g.of(key); into == nil {
					return
				}
			}
			into.rows++
			if into.bar.passes(e.local[row], t.derived.ties[row]) {
				into.offer(t, e.local[row], uint32(row), g.limit)
			}
		}
	}
}

// keyColumns are the columns of the key; those that it does not have are zero.
func (e *Evaluator) keyColumns(keyLen int) (first, second, third []int64) {
	e.zero = lengthened(e.zero, len(e.local))
	first, second, third = e.zero, e.zero, e.zero
	if keyLen > 0 {
		first = e.keys[0]
	}
	if keyLen > 1 {
		second = e.keys[1]
	}
	if keyLen > 2 {
		third = e.keys[2]
	}
	return first[:len(e.local)], second[:len(e.local)], third[:len(e.local)]
}

// addGroupScores makes the local scores whole.
func (e *Evaluator) addGroupScores(c *Class, extrema []int64) {
	var key [MaxKey]int64
	for row := range e.rows.all {
		for i := range c.keyLen {
			key[i] = e.keys[i][row]
		}
		e.local[row] += c.GroupScore(key[:c.keyLen], extrema)
	}
}

// extremum is the maximum of a key's column: from the groups, where they have the key.
func (g *grouping) extremum(i int, column []int64, rows bitmap, keyLen int) int64 {
	top := int64(0)
	if keyLen > i && !g.overflowed {
		for k := range g.groups {
			if g.groups[k].rows > 0 {
				top = max(top, g.groups[k].key[i])
			}
		}
		return top
	}
	for row := range rows.all {
		top = max(top, column[row])
	}
	return top
}

func (g *grouping) reset(t *Table, limit int) {
	g.table, g.groups, g.limit, g.overflowed = t, g.groups[:0], max(limit, 0), false
}

// of finds or opens the group of a key; nil after an overflow. The group of the zero key
// is there from the start and may stay without rows.
func (g *grouping) of(key [MaxKey]int64) *groupRows {
	for i := range g.groups {
		if g.groups[i].key == key {
			return &g.groups[i]
		}
	}
	if len(g.groups) > MaxGroups || len(g.groups) == MaxGroups && g.groups[0].rows > 0 {
		g.overflowed = true
		return nil
	}
	into := g.open()
	into.key = key
	return into
}

// open appends an empty group.
func (g *grouping) open() *groupRows {
	n := len(g.groups)
	if n < cap(g.groups) {
		g.groups = g.groups[:n+1]
	} else {
		g.groups = append(g.groups, groupRows{})
	}
	into := &g.groups[n]
	*into = groupRows{heap: into.heap[:0], bar: bar{math.MinInt64, math.MaxUint64}}
	return into
}

// addTo moves the groups into a result.
func (g *grouping) addTo(r *Result, keyLen int) {
	if g.overflowed {
		r.overflow()
		return
	}
	slices.SortFunc(g.groups, func(a, b groupRows) int { return slices.Compare(a.key[:], b.key[:]) })
	for i := range g.groups {
		if x := &g.groups[i]; x.rows > 0 {
			into := r.openGroup()
			into.Rows = x.rows
			copy(into.Key.Raw[:keyLen], x.key[:])
			into.Candidates = x.best(g.table, into.Candidates)
		}
	}
}

// best appends the best rows, in order.
func (x *groupRows) best(t *Table, into []Candidate) []Candidate {
	if len(x.heap) == 0 {
		return into
	}
	x.order(t)
	into = slices.Grow(into, len(x.heap))
	for i := range x.heap {
		into = append(into, t.Candidate(x.heap[i].row, x.heap[i].score))
	}
	return into
}

// chosenBefore is compareCandidates for rows of one table.
func (t *Table) chosenBefore(a, b *scoredRow) bool {
	if a.score != b.score {
		return a.score > b.score
	}
	if a.tie != b.tie {
		return a.tie < b.tie
	}
	return t.tiesBefore(a.row, b.row)
}

// tiesBefore is the tie rule for rows of one table.
func (t *Table) tiesBefore(a, b uint32) bool {
	if x, y := t.lastDecision[a], t.lastDecision[b]; x != y {
		return x < y
	}
	if x, y := t.hashes[a], t.hashes[b]; x != y {
		return x < y
	}
	return t.names[a] < t.names[b]
}

// offerAll offers each of the rows, a few words at a time: the bar rises meanwhile.
func (x *groupRows) offerAll(t *Table, rows bitmap, scores []int64, limit int) {
	var passed [8]uint64
	for from := 0; from < len(rows); from += len(passed) {
		part := rows[from:min(from+len(passed), len(rows))]
		x.bar.pass(part, scores[from*wordRows:], t.derived.ties[from*wordRows:], passed[:])
		for row := range bitmap(passed[:len(part)]).all {
			row += uint32(from * wordRows)
			if x.bar.passes(scores[row], t.derived.ties[row]) {
				x.offer(t, scores[row], row, limit)
			}
		}
	}
}

// offer keeps a row if it is among the best. Below the limit the heap is only a list.
func (x *groupRows) offer(t *Table, score int64, row uint32, limit int) {
	s := scoredRow{score, t.derived.ties[row], row}
	switch {
	case limit == 0:
		return
	case len(x.heap) < limit:
		x.heap = append(x.heap, s)
		if len(x.heap) < limit {
			return
		}
		x.pile(t)
	case t.chosenBefore(&s, &x.heap[0]):
		x.heap[0] = s
		x.down(t, 0, limit)
	}
	x.bar = bar{x.heap[0].score, x.heap[0].tie}
}

// pile makes a heap of the list.
func (x *groupRows) pile(t *Table) {
	for i := len(x.heap)/2 - 1; i >= 0; i-- {
		x.down(t, i, len(x.heap))
	}
}

// order sorts the heap, or the list, best first.
func (x *groupRows) order(t *Table) {
	slices.SortFunc(x.heap, func(a, b scoredRow) int {
		switch {
		case t.chosenBefore(&a, &b):
			return -1
		case a.row == b.row:
			return 0
		}
		return 1
	})
}

// down moves element i of the first n to its place.
func (x *groupRows) down(t *Table, i, n int) {
	heap := x.heap[:n]
	s := heap[i]
	for {
		child := 2*i + 1
		if child >= len(heap) {
			break
		}
		if r := child + 1; r < len(heap) && t.chosenBefore(&heap[child], &heap[r]) {
			child = r
		}
		if t.chosenBefore(&heap[child], &s) {
			break
		}
		heap[i] = heap[child]
		i = child
	}
	heap[i] = s
}
