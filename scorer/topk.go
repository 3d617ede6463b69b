package scorer

import (
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
	block [blockWords * wordRows]int64
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
	// bar is the worst of as many settled rows as there may be: of this table, or of those before it.
	bar bar
	// block are the rows that are offered together, offered is how many.
	block   [blockWords]uint64
	offered int
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

// group puts the rows in e.rows, with their keys and local scores, into e.part. into is the answer over the tables
// before: its groups tell what a candidate has to come up to.
func (e *Evaluator) group(t *Table, c *Class, o Options, into *Result) {
	g := &e.groups
	g.reset(t, o.Candidates)
	keyLen := c.keyLen
	if o.Normalise {
		e.extrema()
		e.addGroupScores(c, o.Extrema)
		clear(e.keys.keyed)
		keyLen = 0
	}
	g.of([MaxKey]int64{}, into)
	g.seedAll(e, into)
	for from := 0; from < len(e.rows) && !g.overflowed; from += blockWords {
		to := min(from+blockWords, len(e.rows))
		if e.dealBlock(from, to, into) && g.limit > 0 {
			g.offerBlock(&e.local, e.rows[from:to], from)
		}
	}
	g.overflowed = g.overflowed || len(g.groups) > MaxGroups && g.groups[0].rows > 0
	if !o.Normalise {
		e.extrema()
	}
	g.keepSeeds()
	g.addTo(&e.part, keyLen)
	g.table = nil
}

// extrema finds the maxima of the raw scores: from the groups, where they have the keys.
func (e *Evaluator) extrema() {
	g := &e.groups
	for i := range e.part.Extrema {
		if g.overflowed || len(g.groups) == 0 {
			e.part.Extrema[i] = e.keys.extremum(i)
		}
		for k := range g.groups {
			e.part.Extrema[i] = max(e.part.Extrema[i], g.groups[k].key[i])
		}
	}
}

// dealBlock gives the rows of some words to their groups, and tells whether there are any.
func (e *Evaluator) dealBlock(from, to int, into *Result) (some bool) {
	first := &e.groups.groups[0]
	for w := from; w < to; w++ {
		word := e.rows[w]
		keyed := word & e.keys.keyed[w]
		first.block[w-from] = word &^ keyed
		first.take(bits.OnesCount64(word &^ keyed))
		some = some || word != 0
		switch {
		case keyed == 0:
		case e.keys.same:
			if !e.dealSame(w-from, keyed, into) {
				return false
			}
		case !e.dealKeyed(w, w-from, keyed, into):
			return false
		}
	}
	return some
}

// take counts rows that are put into block.
func (x *groupRows) take(n int) {
	x.rows += n
	x.offered += n
}

// dealSame gives the keyed rows of a word, which have the same key, to their group; false after an overflow.
func (e *Evaluator) dealSame(at int, rows uint64, result *Result) bool {
	g := &e.groups
	x := &g.groups[len(g.groups)-1] // mostly there are two groups
	if x.key != e.keys.key {
		if x = g.of(e.keys.key, result); x == nil {
			return false
		}
	}
	x.block[at] = rows
	x.take(bits.OnesCount64(rows))
	return true
}

// dealKeyed gives the rows of a word whose keys may have more than zeros to their groups; false after an overflow.
func (e *Evaluator) dealKeyed(w, at int, rows uint64, result *Result) bool {
	g := &e.groups
	into := &g.groups[len(g.groups)-1]
	for ; rows != 0; rows &= rows - 1 {
		i := bits.TrailingZeros64(rows)
		if row := w*wordRows + i; !e.keys.is(row, &into.key) {
			if into = g.of(e.keys.at(row), result); into == nil {
				return false
			}
		}
		into.block[at] |= 1 << i
		into.take(1)
	}
	return true
}

// seedAll offers the best of the last class first: mostly they are among the best again, and few of the others pass
// the bar then. Rows that are offered leave e.rows. Where the tables before set a bar, it does as well.
func (g *grouping) seedAll(e *Evaluator, into *Result) {
	if g.shard != g.table.shard || g.limit == 0 {
		g.seeds, g.shard = g.seeds[:0], g.table.shard
	}
	for i := range g.seeds {
		s := &g.seeds[i]
		if into.barOf(s.key, g.limit) != lowest() {
			continue
		}
		there := s.rows[:0]
		for _, row := range s.rows {
			if e.rows.has(row) && e.keys.of(row) == s.key {
				there = append(there, row)
				e.rows.remove(row)
			}
		}
		if len(there) == 0 {
			continue
		}
		if x := g.of(s.key, into); x != nil {
			x.rows += len(there)
			g.seed(x, &e.local, there)
			g.settle(x)
		}
	}
}

// seed offers some rows.
func (g *grouping) seed(x *groupRows, l *localScores, rows []uint32) {
	for len(rows) > 0 {
		n := min(len(rows), wordRows)
		scores := l.of(rows[:n])
		for i, row := range rows[:n] {
			if tie := g.table.derived.ties[row]; x.bar.passes(scores[i], tie) {
				g.add(x, scoredRow{scores[i], tie, row})
			}
		}
		rows = rows[n:]
	}
}

// keepSeeds puts the best rows in order, and makes them the seeds.
func (g *grouping) keepSeeds() {
	n := len(g.groups)
	g.seeds = slices.Grow(g.seeds[:cap(g.seeds)], max(0, n-cap(g.seeds)))[:n]
	for i := range g.groups {
		x, s := &g.groups[i], &g.seeds[i]
		g.settle(x)
		s.key, s.rows = x.key, s.rows[:0]
		for k := range x.list {
			s.rows = append(s.rows, x.list[k].row)
		}
	}
}

// addGroupScores makes the local scores whole.
func (e *Evaluator) addGroupScores(c *Class, extrema []int64) {
	e.whole = e.local.all(e.rows, e.whole)
	for row := range e.rows.all {
		key := e.keys.of(row)
		e.whole[row] += c.GroupScore(key[:c.keyLen], extrema)
	}
	byWords := e.local.byWords
	e.local.begin(e, e.local.table)
	e.local.column, e.local.byWords = e.whole, byWords
}

func (g *grouping) reset(t *Table, limit int) {
	g.table, g.limit, g.overflowed = t, max(limit, 0), false
	g.groups = slices.Grow(g.groups[:0], MaxGroups+1) // so that none of them moves
}

// of finds or opens the group of a key; nil after an overflow. The group of the zero key
// is there from the start and may stay without rows.
func (g *grouping) of(key [MaxKey]int64, into *Result) *groupRows {
	for i := range g.groups {
		if g.groups[i].key == key {
			return &g.groups[i]
		}
	}
	if len(g.groups) > MaxGroups || len(g.groups) == MaxGroups && g.groups[0].rows > 0 {
		g.overflowed = true
		return nil
	}
	x := g.open()
	x.key, x.bar = key, into.barOf(key, g.limit)
	return x
}

// barOf is what rows of other tables have to come up to in the group with a key.
func (r *Result) barOf(key [MaxKey]int64, limit int) bar {
	for i := range r.Groups {
		if best := r.Groups[i].Candidates; r.Groups[i].Key.Raw == key && len(best) > 0 && len(best) >= max(limit, r.limit) {
			worst := &best[len(best)-1]
			return bar{worst.Score, tieOf(worst.LastDecision, worst.NameHash)}
		}
	}
	return lowest()
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
	*into = groupRows{list: into.list[:0], bar: lowest()}
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

// fewOffered is up to how many rows of a block are quicker compared one by one.
const fewOffered = 40

// offerBlock offers the rows of some words, of which from is the first, to their groups: the bars rise meanwhile. Once
// there is a bar, few rows come up to it, and of these alone the exact scores are computed.
func (g *grouping) offerBlock(l *localScores, rows bitmap, from int) {
	scores := g.block[:len(rows)*wordRows]
	ceilings := l.rough && g.groups[0].bar != lowest()
	l.block(rows, from, ceilings, scores)
	ties := g.table.derived.ties[from*wordRows:][:len(scores)]
	var passed [blockWords]uint64
	for k := range g.groups {
		x := &g.groups[k]
		switch {
		case x.offered == 0:
			continue
		case x.offered <= fewOffered:
			x.bar.passGeneric(x.block[:len(rows)], scores, ties, passed[:])
		default:
			x.bar.pass(x.block[:len(rows)], scores, ties, passed[:])
		}
		for w, word := range passed[:len(rows)] {
			for ; word != 0; word &= word - 1 {
				i := w*wordRows + bits.TrailingZeros64(word)
				g.offerOne(x, l, uint32(from*wordRows+i), scores[i], ceilings)
			}
		}
		x.block, x.offered = [blockWords]uint64{}, 0
	}
}

// offerOne offers a row with a score, or with one that may be too high.
func (g *grouping) offerOne(x *groupRows, l *localScores, row uint32, score int64, ceiling bool) {
	tie := g.table.derived.ties[row]
	if !x.bar.passes(score, tie) {
		return
	}
	if ceiling {
		if score = l.at(row); !x.bar.passes(score, tie) {
			return
		}
	}
	g.add(x, scoredRow{score, tie, row})
}

// mostInOrder is how many rows a list holds at the most that is always in order.
const mostInOrder = 512

// add keeps a row that passes the bar.
func (g *grouping) add(x *groupRows, s scoredRow) {
	if g.limit <= mostInOrder {
		g.insert(x, s)
		return
	}
	x.list = append(x.list, s)
	if len(x.list) >= 2*g.limit {
		g.settle(x)
	}
}

// insert puts a row in its place in a list that is in order.
func (g *grouping) insert(x *groupRows, s scoredRow) {
	n := len(x.list)
	if n > 0 && !g.table.chosenBefore(&x.list[n-1], &s) {
		if n == g.limit {
			n--
		}
		at, end := 0, n
		for at < end {
			if middle := (at + end) / 2; g.table.chosenBefore(&s, &x.list[middle]) {
				end = middle
			} else {
				at = middle + 1
			}
		}
		x.list = slices.Insert(x.list[:n], at, s)
	} else if n < g.limit {
		x.list = append(x.list, s)
	}
	if x.settled = len(x.list); x.settled == g.limit {
		x.bar = x.list[g.limit-1].bar()
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
