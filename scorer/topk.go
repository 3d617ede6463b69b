package scorer

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"
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
	// floor is the score of the root of a full heap: what is below has no chance.
	floor int64
}

// scoredRow is a candidate while the heap holds it; the tie rule's columns stay in the
// table.
type scoredRow struct {
	score int64
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
	first, second := e.keyColumns(keyLen)
	var key [MaxKey]int64
	into := g.of(key)
	for w, word := range e.rows {
		for ; word != 0; word &= word - 1 {
			row := w*wordRows + bits.TrailingZeros64(word)
			if first[row] != key[0] || second[row] != key[1] {
				key = [MaxKey]int64{first[row], second[row]}
				if into = g.of(key); into == nil {
					break
				}
			}
			into.rows++
			if score := e.local[row]; score >= into.floor {
				into.offer(t, scoredRow{score, uint32(row)}, g.limit)
			}
		}
		if into == nil {
			break
		}
	}
	for i := range c.keyLen {
		e.part.Extrema[i] = g.extremum(i, e.keys[i], e.rows, keyLen)
	}
	g.addTo(&e.part, keyLen)
	g.table = nil
}

// keyColumns are the columns of the key; those that it does not have are zero.
func (e *Evaluator) keyColumns(keyLen int) (first, second []int64) {
	e.zero = lengthened(e.zero, len(e.local))
	first, second = e.zero, e.zero
	if keyLen > 0 {
		first = e.keys[0]
	}
	if keyLen > 1 {
		second = e.keys[1]
	}
	return first[:len(e.local)], second[:len(e.local)]
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
	*into = groupRows{heap: into.heap[:0], floor: math.MinInt64}
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
	slices.SortFunc(x.heap, t.compareRows)
	for _, s := range x.heap {
		into = append(into, t.Candidate(s.row, s.score))
	}
	return into
}

// compareRows is compareCandidates for rows of one table.
func (t *Table) compareRows(a, b scoredRow) int {
	if a.score != b.score {
		return cmp.Compare(b.score, a.score)
	}
	if x, y := t.lastDecision[a.row], t.lastDecision[b.row]; x != y {
		return cmp.Compare(x, y)
	}
	if x, y := t.hashes[a.row], t.hashes[b.row]; x != y {
		return cmp.Compare(x, y)
	}
	return strings.Compare(t.names[a.row], t.names[b.row])
}

// offer keeps a row if it is among the best.
func (x *groupRows) offer(t *Table, s scoredRow, limit int) {
	switch {
	case limit == 0:
		return
	case len(x.heap) < limit:
		x.heap = append(x.heap, s)
		x.up(t, len(x.heap)-1)
	case t.compareRows(s, x.heap[0]) < 0:
		x.heap[0] = s
		x.down(t)
	}
	if len(x.heap) == limit {
		x.floor = x.heap[0].score
	}
}

// up moves the last element of the heap to its place.
func (x *groupRows) up(t *Table, i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if t.compareRows(x.heap[i], x.heap[parent]) < 0 {
			return
		}
		x.heap[i], x.heap[parent] = x.heap[parent], x.heap[i]
		i = parent
	}
}

// down moves the root of the heap to its place.
func (x *groupRows) down(t *Table) {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(x.heap) {
			return
		}
		if r := child + 1; r < len(x.heap) && t.compareRows(x.heap[r], x.heap[child]) > 0 {
			child = r
		}
		if t.compareRows(x.heap[i], x.heap[child]) > 0 {
			return
		}
		x.heap[i], x.heap[child] = x.heap[child], x.heap[i]
		i = child
	}
}
