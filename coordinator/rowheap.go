package coordinator

import "slices"

// rankedRow is a repaired row by one of its verdicts: its local score, and the columns of the tie rule.
type rankedRow struct {
	score          int64
	decision, hash uint64
	name           string
	at             int32
	version        uint32
}

func newRankedRow(r *repairedRow, tables tables) rankedRow {
	c := tables.Candidate(r.row, r.local)
	return rankedRow{c.Score, c.LastDecision, c.NameHash, c.Name, int32(r.at), r.version}
}

// before is scorer.Before.
func (x *rankedRow) before(o *rankedRow) bool {
	switch {
	case x.score != o.score:
		return x.score > o.score
	case x.decision != o.decision:
		return x.decision < o.decision
	case x.hash != o.hash:
		return x.hash < o.hash
	}
	return x.name < o.name
}

// rowHeap is a binary heap with the best row on top. Rows whose verdict is not their newest stay
// until they come up, or are swept out.
type rowHeap []rankedRow

func (h *rowHeap) push(x rankedRow) {
	list := append(*h, x)
	*h = list
	i := len(list) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !x.before(&list[parent]) {
			break
		}
		list[i] = list[parent]
		i = parent
	}
	list[i] = x
}

// pop takes the best row away.
func (h *rowHeap) pop() {
	last := len(*h) - 1
	(*h)[0] = (*h)[last]
	*h = (*h)[:last]
	if last > 0 {
		h.down(0)
	}
}

// down moves a row to its place among those below it.
func (h *rowHeap) down(i int) {
	list := *h
	x := list[i]
	for {
		child := 2*i + 1
		if child >= len(list) {
			break
		}
		if r := child + 1; r < len(list) && list[r].before(&list[child]) {
			child = r
		}
		if !list[child].before(&x) {
			break
		}
		list[i] = list[child]
		i = child
	}
	list[i] = x
}

// sweep takes out what stale tells.
func (h *rowHeap) sweep(stale func(*rankedRow) bool) {
	*h = slices.DeleteFunc(*h, func(x rankedRow) bool { return stale(&x) })
	for i := len(*h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}
