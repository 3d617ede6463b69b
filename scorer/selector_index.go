package scorer

import (
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// selectorIndex finds, among very many node selectors, the first one that matches a row.
// Most name the one node, or the zone, that a volume can be reached from: such a term is
// looked up by the row's value of that label, and never tried on another row.
//
//	keys[0]  kubernetes.io/hostname   "n1" → [0 4]   "n2" → [1]   …
//	keys[1]  topology.…/zone          "a"  → [2 3 5]
//	rest     [6]                      matched one by one
//
// Positions in each list ascend.
type selectorIndex struct {
	keys []indexKey
	// rest are the selectors with a term that no In requirement narrows.
	rest []uint32
	// check are the selectors, by position, of which more than one In requirement has to be
	// looked at; nil: nothing more. It is nil itself where that holds for all n.
	check []*selector
	n     int
	// at is the index of keys[0] among the label columns of the rule.
	at int
}

// indexKey is one label with the selectors that ask for one of its values.
type indexKey struct {
	key     string
	byValue map[string]positions
}

// positions are those of one value: mostly one.
type positions struct {
	first uint32
	more  []uint32
}

// last is the highest.
func (p *positions) last() uint32 {
	if n := len(p.more); n > 0 {
		return p.more[n-1]
	}
	return p.first
}

// newSelectorIndex makes room for n selectors. The columns that the index reads begin at
// index at.
func newSelectorIndex(n, at int) *selectorIndex {
	return &selectorIndex{n: n, at: at}
}

// addValue adds, at a position, a selector for the rows with one value of a label.
// Positions are added in order.
func (x *selectorIndex) addValue(position uint32, key, value string) {
	k := x.open(key)
	list, ok := k.byValue[value]
	switch {
	case !ok:
		list.first = position
	case list.last() == position:
		return
	default:
		list.more = append(list.more, position)
	}
	k.byValue[value] = list
}

// add adds a selector at a position; nil matches every row.
func (x *selectorIndex) add(position uint32, s *pb.NodeSelector) {
	if s == nil {
		x.rest = append(x.rest, position)
		return
	}
	narrowed, exact := true, true
	for _, term := range s.GetTerms() {
		in := narrowest(term)
		if in == nil {
			narrowed = false
			break
		}
		exact = exact && len(term.GetLabels())+len(term.GetNames()) == 1
	}
	if !narrowed || !exact {
		if x.check == nil {
			x.check = make([]*selector, x.n)
		}
		x.check[position] = newSelector(s)
	}
	if !narrowed {
		x.rest = append(x.rest, position)
		return
	}
	for _, term := range s.GetTerms() {
		in := narrowest(term)
		for _, value := range in.GetValues() {
			x.addValue(position, in.GetKey(), value)
		}
	}
}

// narrowest is the In requirement of a term with the fewest values; nil: it has none.
func narrowest(t *pb.SelectorTerm) *pb.LabelRequirement {
	var best *pb.LabelRequirement
	for _, l := range t.GetLabels() {
		if l.GetOperator() == pb.SelectorOperator_SELECTOR_OPERATOR_IN && (best == nil || len(l.GetValues()) < len(best.GetValues())) {
			best = l
		}
	}
	return best
}

// open finds or begins a label.
func (x *selectorIndex) open(key string) *indexKey {
	for i := range x.keys {
		if x.keys[i].key == key {
			return &x.keys[i]
		}
	}
	x.keys = append(x.keys, indexKey{key, make(map[string]positions, x.n)})
	return &x.keys[len(x.keys)-1]
}

// first is the lowest position from a given one on whose selector matches the row and
// that skip does not pass over; false: there is none. Columns are those of the labels that
// the index reads, from index at on.
func (x *selectorIndex) first(v view, columns []*labelColumn, from uint32, skip func(position uint32) bool) (uint32, bool) {
	best, found := uint32(0), false
	// try tells whether a position behind may still be better.
	try := func(p uint32) bool {
		switch {
		case found && p >= best:
			return false
		case p < from, skip != nil && skip(p), x.check != nil && !x.check[p].matches(v):
			return true
		}
		best, found = p, true
		return false
	}
	for i := range x.keys {
		c := columns[x.at+i]
		if c == nil {
			continue
		}
		list, ok := x.keys[i].byValue[c.values[c.rows.at(v.row)]]
		if !ok || c.rows.at(v.row) == 0 || !try(list.first) {
			continue
		}
		for _, p := range list.more {
			if !try(p) {
				break
			}
		}
	}
	for _, p := range x.rest {
		if !try(p) {
			break
		}
	}
	return best, found
}

// matches tells whether the selector at a position matches the row.
func (x *selectorIndex) matches(v view, columns []*labelColumn, position uint32) bool {
	p, ok := x.first(v, columns, position, nil)
	return ok && p == position
}

// any tells whether one of the selectors matches the row.
func (x *selectorIndex) any(v view, columns []*labelColumn) bool {
	_, ok := x.first(v, columns, 0, nil)
	return ok
}
