package scorer

import "slices"

// mergeGroups adds the groups of o, which are sorted as the result's own are: from the back, so
// that each moves once.
func (r *Result) mergeGroups(o *Result) {
	list := o.Groups
	n := r.missing(list)
	if !r.grouped && len(r.Groups)+n > MaxGroups {
		r.overflow()
		return
	}
	i, k := len(r.Groups)-1, len(list)-1
	r.growGroups(n)
	groups := r.Groups
	for at := len(groups) - 1; k >= 0; at-- {
		order := -1
		if i >= 0 {
			order = groups[i].Key.Compare(&list[k].Key)
		}
		if order >= 0 {
			groups[at], groups[i] = groups[i], groups[at]
			i--
		} else {
			groups[at].Key.set(&list[k].Key)
		}
		if order <= 0 {
			cut := !o.barred && list[k].Rows > len(list[k].Candidates)
			r.addRows(&groups[at], list[k].Rows, list[k].Candidates, cut, &o.spare)
			k--
		}
	}
}

// missing counts the groups that the result does not have.
func (r *Result) missing(list []Group) int {
	n, i := 0, 0
	for k := range list {
		order := -1
		for i < len(r.Groups) {
			if order = r.Groups[i].Key.Compare(&list[k].Key); order >= 0 {
				break
			}
			i++
		}
		if order != 0 {
			n++
		}
	}
	return n
}

// addRows adds rows to a group; best are the best of them in order. cut tells that the next of the others may be among the
// group's best, too. spare is memory for candidates that the group has.
func (r *Result) addRows(g *Group, rows int, best []Candidate, cut bool, spare *[]Candidate) {
	have := named{g.Candidates, g.Rows > len(g.Candidates)}
	others := named{best, cut}
	g.Rows += rows
	if len(have.best) == 0 && !have.cut { // no rows so far
		g.Candidates = append(slices.Grow(g.Candidates, min(rows, r.limit)), best[:min(len(best), r.limit)]...)
		return
	}
	n := min(len(have.best)+len(best), r.limit)
	at := len(have.best) // those before the best of the new ones stay where they are
	for at > 0 && len(best) > 0 && compareCandidates(&best[0], &have.best[at-1]) < 0 {
		at--
	}
	*spare = append((*spare)[:0], have.best[at:]...)
	have.best, g.Candidates = *spare, slices.Grow(have.best[:at], max(n-at, 0))
	g.Candidates = mergeCandidates(g.Candidates, have, others, r.limit)
}

// sortGroups puts groups in the order of their keys.
func sortGroups(list []Group) {
	compare := func(a, b Group) int { return a.Key.Compare(&b.Key) }
	if !slices.IsSortedFunc(list, compare) {
		slices.SortFunc(list, compare)
	}
}

// named are the best of some rows, best first. cut tells that there are more rows: they come after the last of best.
type named struct {
	best []Candidate
	cut  bool
}

// mergeCandidates appends the best rows of both to into. It stops where a row that is not named may be the next.
func mergeCandidates(into []Candidate, a, b named, limit int) []Candidate {
	for len(into) < limit && len(a.best) > 0 && len(b.best) > 0 {
		if compareCandidates(&b.best[0], &a.best[0]) < 0 {
			into, b.best = append(into, b.best[0]), b.best[1:]
		} else {
			into, a.best = append(into, a.best[0]), a.best[1:]
		}
	}
	if len(a.best) == 0 && a.cut || len(b.best) == 0 && b.cut {
		return into
	}
	into = append(into, a.best[:min(len(a.best), limit-len(into))]...)
	return append(into, b.best[:min(len(b.best), limit-len(into))]...)
}

// MergeAll is Merge of several answers into a result that is as Reset left it. It looks at no more candidates than it takes over:
//
//	part A   A1 A2 A3 …  ┐
//	part B   B1 B2 B3 …  ├ the best of the first ones, until as many as are wanted are there,
//	part C   C1 C2 C3 …  ┘ or all that a part with more rows has named
func (r *Result) MergeAll(parts []*Result) {
	r.moved()
	for _, o := range parts {
		r.add(o)
	}
	x := &r.contest
	for x.begin(parts); !r.Overflow; {
		key := x.next(parts)
		if key == nil {
			break
		}
		if !r.grouped && len(r.Groups) == MaxGroups {
			r.overflow()
			break
		}
		g := r.openGroup()
		g.Key.set(key)
		g.Rows = x.rows
		g.Candidates = x.best(slices.Grow(g.Candidates, min(x.rows, r.limit)), r.limit)
	}
	x.end()
}

// contest merges the groups of several results.
type contest struct {
	at   []int // the next group of each result
	rows int   // of the group at hand
	// lists are the candidates of the group at hand, each of one result; those that are not used up are a heap whose root has
	// the best first one.
	lists []named
}

// begin begins with the first groups.
func (x *contest) begin(parts []*Result) {
	x.at = scratch(x.at, len(parts))
	clear(x.at)
}

// end lets go of the results' memory.
func (x *contest) end() { clear(x.lists[:cap(x.lists)]) }

// next takes the first group of all that are left, and returns its key; nil: none is left.
func (x *contest) next(parts []*Result) (key *Key) {
	for i, o := range parts {
		if at := x.at[i]; at < len(o.Groups) && (key == nil || o.Groups[at].Key.Compare(key) < 0) {
			key = &o.Groups[at].Key
		}
	}
	x.lists, x.rows = x.lists[:0], 0
	for i, o := range parts {
		if at := x.at[i]; at < len(o.Groups) && o.Groups[at].Key.Equal(key) {
			g := &o.Groups[at]
			x.at[i], x.rows = at+1, x.rows+g.Rows
			x.lists = append(x.lists, named{g.Candidates, g.Rows > len(g.Candidates)})
		}
	}
	return key
}

// best appends the best candidates of the group at hand.
func (x *contest) best(into []Candidate, limit int) []Candidate {
	lists := x.lists[:0]
	for _, l := range x.lists {
		switch {
		case len(l.best) > 0:
			lists = append(lists, l)
		case l.cut:
			return into
		}
	}
	switch len(lists) { // most often: without a heap
	case 0:
		return into
	case 1:
		return mergeCandidates(into, lists[0], named{}, limit)
	case 2:
		return mergeCandidates(into, lists[0], lists[1], limit)
	}
	for i := len(lists)/2 - 1; i >= 0; i-- {
		down(lists, i)
	}
	for len(into) < limit && len(lists) > 0 {
		first := &lists[0]
		into, first.best = append(into, first.best[0]), first.best[1:]
		if len(first.best) == 0 {
			if first.cut {
				break
			}
			*first, lists = lists[len(lists)-1], lists[:len(lists)-1]
		}
		down(lists, 0)
	}
	return into
}

// down moves a list to its place in a heap.
func down(heap []named, i int) {
	for {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if r := child + 1; r < len(heap) && compareCandidates(&heap[r].best[0], &heap[child].best[0]) < 0 {
			child = r
		}
		if compareCandidates(&heap[i].best[0], &heap[child].best[0]) <= 0 {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}
