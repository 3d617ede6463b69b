package answers

import (
	"slices"

	"github.com/shardsched/shardsched/coordinator/cache"
)

// rankedRow is a heap's entry for one verdict of a row: its local score, and the columns of the tie rule.
type rankedRow struct {
	score          int64
	decision, hash uint64
	name           string
	at             int32
	version        uint32
}

func newRankedRow(r *repairedRow, tables *cache.Cache) rankedRow {
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

// rowHeap is a binary heap with the best row on top. Outdated entries, whose row has a newer verdict, stay
// until they reach the top or are swept out.
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

// walk visits rows, best first, until visit returns false.
func (h rowHeap) walk(visit func(*rankedRow) bool) {
	if len(h) == 0 {
		return
	}
	// The next best row is a child of a visited one. front is a heap of the places of these children.
	front := append(make([]int32, 0, 32), 0)
	for len(front) > 0 {
		at := int(front[0])
		if !visit(&h[at]) {
			return
		}
		last := len(front) - 1
		front[0] = front[last]
		front = front[:last]
		h.downFront(front)
		for child := 2*at + 1; child <= 2*at+2 && child < len(h); child++ {
			front = h.upFront(append(front, int32(child)))
		}
	}
}

// downFront restores the order of front after its first place has changed.
func (h rowHeap) downFront(front []int32) {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(front) {
			return
		}
		if r := child + 1; r < len(front) && h[front[r]].before(&h[front[child]]) {
			child = r
		}
		if !h[front[child]].before(&h[front[i]]) {
			return
		}
		front[i], front[child] = front[child], front[i]
		i = child
	}
}

// upFront restores the order of front after a place was appended.
func (h rowHeap) upFront(front []int32) []int32 {
	for i := len(front) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h[front[i]].before(&h[front[parent]]) {
			break
		}
		front[i], front[parent] = front[parent], front[i]
		i = parent
	}
	return front
}

// sweep removes the stale entries.
func (h *rowHeap) sweep(stale func(*rankedRow) bool) {
	*h = slices.DeleteFunc(*h, func(x rankedRow) bool { return stale(&x) })
	for i := len(*h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}
