package scorer

import (
	"math"
	"math/bits"
	"slices"
)

// grouping collects the feasible rows of one table by key.
type grouping struct {
	groups []groupRows
	limit  int
	last   int // the group of the row before
	// overflowed tells that there were too many keys; then only extrema count.
	overflowed bool
}

// groupRows is one group: its rows counted, the best of them in a heap whose root is the
// worst.
type groupRows struct {
	key  [MaxKey]int64
	rows int
	heap []Candidate
	// floor is the score of the root of a full heap: what is below has no chance.
	floor int64
}

// group puts the rows in e.rows, with their keys and local scores, into e.part.
func (e *Evaluator) group(t *Table, c *Class, o Options) {
	g := &e.groups
	g.reset(o.Candidates)
	keyLen := c.keyLen
	if o.Normalise {
		e.addGroupScores(c, o.Extrema)
		keyLen = 0
	}
	for w, word := range e.rows {
		for ; word != 0 && !g.overflowed; word &= word - 1 {
			row := w*wordRows + bits.TrailingZeros64(word)
			var key [MaxKey]int64
			for i := range keyLen {
				key[i] = e.keys[i][row]
			}
			if into := g.of(&key); into != nil {
				into.rows++
				if score := e.local[row]; score >= into.floor {
					into.offer(t, uint32(row), score, g.limit)
				}
			}
		}
	}
	for i := range c.keyLen {
		e.part.Extrema[i] = g.extremum(i, e.keys[i], e.rows, keyLen)
	}
	g.addTo(&e.part, keyLen)
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
			top = max(top, g.groups[k].key[i])
		}
		return top
	}
	for row := range rows.all {
		top = max(top, column[row])
	}
	return top
}

func (g *grouping) reset(limit int) {
	g.groups, g.limit, g.last, g.overflowed = g.groups[:0], max(limit, 0), 0, false
}

// of finds or opens the group of a key; nil after an overflow.
func (g *grouping) of(key *[MaxKey]int64) *groupRows {
	if g.overflowed {
		return nil
	}
	if g.last < len(g.groups) && g.groups[g.last].key == *key {
		return &g.groups[g.last]
	}
	for i := range g.groups {
		if g.groups[i].key == *key {
			g.last = i
			return &g.groups[i]
		}
	}
	if len(g.groups) == MaxGroups {
		g.overflowed = true
		return nil
	}
	return g.open(key)
}

// open begins a group, with the memory of one that was there before.
func (g *grouping) open(key *[MaxKey]int64) *groupRows {
	g.last = len(g.groups)
	if g.last < cap(g.groups) {
		g.groups = g.groups[:g.last+1]
	} else {
		g.groups = append(g.groups, groupRows{})
	}
	into := &g.groups[g.last]
	*into = groupRows{key: *key, heap: into.heap[:0], floor: math.MinInt64}
	return into
}

// addTo moves the groups into a result.
func (g *grouping) addTo(r *Result, keyLen int) {
	if g.overflowed {
		r.overflow()
		return
	}
	for i := range g.groups {
		x := &g.groups[i]
		slices.SortFunc(x.heap, func(a, b Candidate) int { return compareCandidates(&a, &b) })
		r.addGroup(x.key[:keyLen], x.rows, x.heap)
	}
}

// offer keeps a row if it is among the best.
func (x *groupRows) offer(t *Table, row uint32, score int64, limit int) {
	switch {
	case limit == 0:
		return
	case len(x.heap) < limit:
		x.heap = append(x.heap, t.Candidate(row, score))
		x.up(len(x.heap) - 1)
	case x.beatsRoot(t, row, score):
		x.heap[0] = t.Candidate(row, score)
		x.down()
	}
	if len(x.heap) == limit {
		x.floor = x.heap[0].Score
	}
}

// beatsRoot compares a row with the worst that is kept, column by column, for nearly all
// rows fail at the first ones.
func (x *groupRows) beatsRoot(t *Table, row uint32, score int64) bool {
	root := &x.heap[0]
	if score != root.Score {
		return score > root.Score
	}
	if d := t.lastDecision[row]; d != root.LastDecision {
		return d < root.LastDecision
	}
	if h := t.hashes[row]; h != root.NameHash {
		return h < root.NameHash
	}
	c := t.Candidate(row, score)
	return compareCandidates(&c, root) < 0
}

// up moves the last element of the heap to its place.
func (x *groupRows) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if compareCandidates(&x.heap[i], &x.heap[parent]) < 0 {
			return
		}
		x.heap[i], x.heap[parent] = x.heap[parent], x.heap[i]
		i = parent
	}
}

// down moves the root of the heap to its place.
func (x *groupRows) down() {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(x.heap) {
			return
		}
		if r := child + 1; r < len(x.heap) && compareCandidates(&x.heap[r], &x.heap[child]) > 0 {
			child = r
		}
		if compareCandidates(&x.heap[i], &x.heap[child]) > 0 {
			return
		}
		x.heap[i], x.heap[child] = x.heap[child], x.heap[i]
		i = child
	}
}
