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
	// seeds are the rows that were the best of the last class, on shard.
	seeds []seeds
	shard uint32
}

// seeds are the best rows of the group with a key.
type seeds struct {
	key  [MaxKey]int64
	rows []uint32
}

// maxSeeds is how many of the best rows are kept sorted, and begin the next class's: a few are
// cheaper to keep so than in a heap.
const maxSeeds = 256

// groupRows is one group: its rows counted, the best of them in a heap whose root is the
// worst, or in order.
type groupRows struct {
	key  [MaxKey]int64
	code uint64 // stands for the whole key, where there is more to it
	row  uint32 // one of them, where there is a code
	rows int
	heap []scoredRow
	// sorted tells that the heap is a list in order, best first.
	sorted bool
	// bar is the worst of a full heap.
	bar bar
	// members are the rows that were not offered yet, where they are offered together.
	members bitmap
}

// scoredRow is a candidate while the heap holds it, with what mostly decides; the tie rule's
// columns stay in the table.
type scoredRow struct {
	score int64
	tie   uint64
	row   uint32
}

// bar is what a row has to come up to that is to be better.
func (s *scoredRow) bar() bar { return bar{s.score, s.tie} }

// group puts the rows in e.rows, with their keys and local scores, into e.part.
func (e *Evaluator) group(t *Table, c *Class, o Options) {
	g := &e.groups
	g.reset(t, o.Candidates)
	keyLen := c.keyLen
	if o.Normalise {
		e.addGroupScores(c, o.Extrema)
		keyLen = 0
	}
	zero := g.of([MaxKey]int64{})
	zero.members = e.rows.copyOf(zero.members)
	if keyLen > 0 {
		zero.members.without(e.keyed)
	}
	zero.rows = zero.members.count()
	if keyLen > 0 {
		e.dealKeyed(keyLen)
	}
	if !g.overflowed {
		g.choose(e.local)
	}
	for i := range c.keyLen {
		e.part.Extrema[i] = g.extremum(i, e.keys[i], e.rows, keyLen)
	}
	g.addTo(&e.part, keyLen)
	g.table = nil
}

// dealKeyed gives the rows whose keys may have more than zeros to their groups.
func (e *Evaluator) dealKeyed(keyLen int) {
	g := &e.groups
	first, second, third := e.keyColumns(keyLen)
	var key [MaxKey]int64
	into := g.of(key)
	for w, word := range e.keyed {
		for ; word != 0; word &= word - 1 {
			i := bits.TrailingZeros64(word)
			row := w*wordRows + i
			if first[row] != key[0] || second[row] != key[1] || third[row] != key[2] {
				key = [MaxKey]int64{first[row], second[row], third[row]}
				if into = g.of(key); into == nil {
					return
				}
				if into.rows == 0 {
					into.members = scratch(into.members, len(e.rows))
					clear(into.members)
				}
			}
			into.members[w] |= 1 << i
			into.rows++
		}
	}
}

// choose finds the best of the members of each group. It begins with those of the last class: mostly
// they are among the best again, and few of the others pass the bar then.
func (g *grouping) choose(scores []int64) {
	if g.limit == 0 {
		return
	}
	sorted := g.limit <= maxSeeds
	if g.shard != g.table.shard {
		g.seeds, g.shard = g.seeds[:0], g.table.shard
	}
	for i := range g.groups {
		x := &g.groups[i]
		if x.sorted = sorted; sorted {
			x.seed(g.table, g.seedsOf(x.key), scores, g.limit)
		}
		x.offerAll(g.table, scores, g.limit)
	}
	if sorted {
		g.keepSeeds()
	}
}

func (g *grouping) seedsOf(key [MaxKey]int64) []uint32 {
	for i := range g.seeds {
		if g.seeds[i].key == key {
			return g.seeds[i].rows
		}
	}
	return nil
}

// keepSeeds makes the best rows the seeds.
func (g *grouping) keepSeeds() {
	n := len(g.groups)
	g.seeds = slices.Grow(g.seeds[:cap(g.seeds)], max(0, n-cap(g.seeds)))[:n]
	for i := range g.groups {
		x, s := &g.groups[i], &g.seeds[i]
		s.key, s.rows = x.key, s.rows[:0]
		for k := range x.heap {
			s.rows = append(s.rows, x.heap[k].row)
		}
	}
}

// seed offers the seeds that are members, which end to be members.
func (x *groupRows) seed(t *Table, seeds []uint32, scores []int64, limit int) {
	for _, row := range seeds {
		if x.members.has(row) && len(x.heap) < limit {
			x.members.remove(row)
			x.heap = append(x.heap, scoredRow{scores[row], t.derived.ties[row], row})
		}
	}
	x.order(t)
	if len(x.heap) == limit {
		x.bar = x.heap[limit-1].bar()
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
	*into = groupRows{heap: into.heap[:0], members: into.members[:0], bar: bar{math.MinInt64, math.MaxUint64}}
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
	if !x.sorted {
		x.order(t)
	}
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

// offerAll offers the members, some words at a time: the bar rises meanwhile.
func (x *groupRows) offerAll(t *Table, scores []int64, limit int) {
	var passed [8]uint64
	for from := 0; from < len(x.members); from += len(passed) {
		part := x.members[from:min(from+len(passed), len(x.members))]
		x.bar.pass(part, scores[from*wordRows:], t.derived.ties[from*wordRows:], passed[:])
		for w, word := range passed[:len(part)] {
			for ; word != 0; word &= word - 1 {
				row := (from+w)*wordRows + bits.TrailingZeros64(word)
				if x.bar.passes(scores[row], t.derived.ties[row]) {
					x.offer(t, scores[row], uint32(row), limit)
				}
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
	case x.sorted:
		x.insert(t, s, limit)
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
	x.bar = x.heap[0].bar()
}

// insert is offer for a sorted list.
func (x *groupRows) insert(t *Table, s scoredRow, limit int) {
	at, end := 0, len(x.heap)
	for at < end {
		if i := int(uint(at+end) / 2); t.chosenBefore(&x.heap[i], &s) {
			at = i + 1
		} else {
			end = i
		}
	}
	if at == limit {
		return
	}
	if len(x.heap) < limit {
		x.heap = append(x.heap, scoredRow{})
	}
	copy(x.heap[at+1:], x.heap[at:])
	x.heap[at] = s
	if len(x.heap) == limit {
		x.bar = x.heap[limit-1].bar()
	}
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
