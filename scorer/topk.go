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
	spare []scoredRow // scratch
}

// seeds are the best rows of the group with a key.
type seeds struct {
	key  [MaxKey]int64
	rows []uint32
}

// groupRows is one group: its rows counted, and the best of them.
type groupRows struct {
	key  [MaxKey]int64
	code uint64 // stands for the whole key, where there is more to it
	row  uint32 // one of them, where there is a code
	rows int
	// list begins with the best rows so far, settled of them, best first. The others came since and
	// pass the bar. Of groups that get their rows one by one it is a heap until then.
	list    []scoredRow
	settled int
	// bar is the worst of as many settled rows as there may be.
	bar bar
	// members are the rows that were not offered yet, where they are offered together.
	members bitmap
}

// scoredRow is a candidate while the list holds it, with what mostly decides; the tie rule's
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
	if g.shard != g.table.shard {
		g.seeds, g.shard = g.seeds[:0], g.table.shard
	}
	for i := range g.groups {
		x := &g.groups[i]
		g.seed(x, g.seedsOf(x.key), scores)
		g.offerAll(x, scores)
		g.settle(x)
	}
	g.keepSeeds()
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
		for k := range x.list {
			s.rows = append(s.rows, x.list[k].row)
		}
	}
}

// seed offers the seeds that are members, which end to be members.
func (g *grouping) seed(x *groupRows, seeds []uint32, scores []int64) {
	for _, row := range seeds {
		if len(x.list) == g.limit {
			break
		}
		if x.members.has(row) {
			x.members.remove(row)
			x.list = append(x.list, scoredRow{scores[row], g.table.derived.ties[row], row})
		}
	}
	g.settle(x)
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
	*into = groupRows{list: into.list[:0], members: into.members[:0], bar: bar{math.MinInt64, math.MaxUint64}}
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
			g.settle(x)
			into.Candidates = x.best(g.table, into.Candidates)
		}
	}
}

// best appends the settled rows.
func (x *groupRows) best(t *Table, into []Candidate) []Candidate {
	into = slices.Grow(into, len(x.list))
	for i := range x.list {
		into = append(into, t.Candidate(x.list[i].row, x.list[i].score))
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
func (g *grouping) offerAll(x *groupRows, scores []int64) {
	ties := g.table.derived.ties
	var passed [8]uint64
	for from := 0; from < len(x.members); from += len(passed) {
		part := x.members[from:min(from+len(passed), len(x.members))]
		x.bar.pass(part, scores[from*wordRows:], ties[from*wordRows:], passed[:])
		for w, word := range passed[:len(part)] {
			for ; word != 0; word &= word - 1 {
				row := (from+w)*wordRows + bits.TrailingZeros64(word)
				if x.bar.passes(scores[row], ties[row]) {
					g.add(x, scoredRow{scores[row], ties[row], uint32(row)})
				}
			}
		}
	}
}

// minUnsettled is how many rows a list takes in at the least before it is put in order.
const minUnsettled = 32

// add keeps a row that passes the bar.
func (g *grouping) add(x *groupRows, s scoredRow) {
	x.list = append(x.list, s)
	if len(x.list) >= g.limit+max(g.limit, minUnsettled) {
		g.settle(x)
	}
}

// settle puts the list in order, and leaves as many as there may be.
func (g *grouping) settle(x *groupRows) {
	t, fresh := g.table, x.list[x.settled:]
	if len(fresh) == 0 {
		return
	}
	order := func(a, b scoredRow) int {
		switch {
		case t.chosenBefore(&a, &b):
			return -1
		case a.row == b.row:
			return 0
		}
		return 1
	}
	if !slices.IsSortedFunc(fresh, order) {
		slices.SortFunc(fresh, order)
	}
	at, _ := slices.BinarySearchFunc(x.list[:x.settled], fresh[0], order)
	g.spare = append(g.spare[:0], x.list[at:x.settled]...)
	behind := g.spare
	for at < len(x.list) && len(behind) > 0 {
		if len(fresh) == 0 || t.chosenBefore(&behind[0], &fresh[0]) {
			x.list[at], behind = behind[0], behind[1:]
		} else {
			x.list[at], fresh = fresh[0], fresh[1:]
		}
		at++
	}
	x.list = x.list[:min(len(x.list), g.limit)]
	if x.settled = len(x.list); x.settled == g.limit {
		x.bar = x.list[g.limit-1].bar()
	}
}

// offer is add for groups that get their rows one by one, between those of others: once there are as
// many as there may be, the list is a heap whose root is the worst, until it is settled.
func (g *grouping) offer(x *groupRows, s scoredRow) {
	t := g.table
	switch {
	case g.limit == 0:
		return
	case len(x.list) < g.limit:
		x.list = append(x.list, s)
		if len(x.list) < g.limit {
			return
		}
		x.pile(t)
	case t.chosenBefore(&s, &x.list[0]):
		x.list[0] = s
		x.down(t, 0, g.limit)
	}
	x.bar = x.list[0].bar()
}

// pile makes a heap of the list.
func (x *groupRows) pile(t *Table) {
	for i := len(x.list)/2 - 1; i >= 0; i-- {
		x.down(t, i, len(x.list))
	}
}

// down moves element i of the first n to its place.
func (x *groupRows) down(t *Table, i, n int) {
	heap := x.list[:n]
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
