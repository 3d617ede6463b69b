package scorer

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// pinnedSum is counters that are added up over a row's domain of a label.
type pinnedSum struct {
	key   string
	terms []*pb.CounterTerm
	// of are the sums other than 0, by domain.
	of map[string]int64
}

// pinnedValue is a row value that is the sum of pinned ones.
type pinnedValue struct {
	all []pinnedSum
	// some are those of all that are other than 0 anywhere.
	some []pinnedSum
}

// Pins tells whether the class has pinned sums: it is to be evaluated only once it has them.
func (c *Class) Pins() bool { return len(c.group.pinned) > 0 }

// Pin gives the class the pinned sums that the rows of all tables come to. It returns c where it
// has just these, or needs none.
func (c *Class) Pin(tables iter.Seq[*Table]) *Class {
	if !c.Pins() {
		return c
	}
	var pins []map[string]int64
	for i := range c.group.values {
		for k := range c.group.values[i].pinned.all {
			p := &c.group.values[i].pinned.all[k]
			pins = append(pins, sumsByDomain(tables, p.key, p.terms))
		}
	}
	return c.pin(pins)
}

// sumsByDomain adds counters up over the domains of a label, and leaves out those without any.
func sumsByDomain(tables iter.Seq[*Table], key string, terms []*pb.CounterTerm) map[string]int64 {
	of := map[string]int64{}
	for t := range tables {
		label := t.labels.column(key)
		if label == nil {
			continue
		}
		for _, term := range terms {
			if a := t.counterColumn(term.GetCounter()); a != nil {
				a.each(func(row uint32, v int64) {
					if id := label.rows.at(row); id != 0 {
						of[label.values[id]] += term.GetWeight() * v
					}
				})
			}
		}
	}
	maps.DeleteFunc(of, func(_ string, n int64) bool { return n == 0 })
	return of
}

// each calls f for the rows with a number other than 0.
func (a *amounts) each(f func(row uint32, v int64)) {
	for i, row := range a.rows {
		f(row, a.vals[i])
	}
	for row, v := range a.dense {
		if v != 0 {
			f(uint32(row), v)
		}
	}
}

// PinnedAs tells whether two classes with the same pinned terms have the same sums.
func (c *Class) PinnedAs(o *Class) bool {
	return slices.EqualFunc(c.group.pins, o.group.pins, maps.Equal[map[string]int64, map[string]int64])
}

// PinAs gives the class the pinned sums of another, which has the same pinned terms: its base, or that of
// a query which differs in something else.
func (c *Class) PinAs(o *Class) *Class { return c.pin(o.group.pins) }

// PinTo gives the class the pinned sums of a request.
func (c *Class) PinTo(list []*pb.PinnedSums) (*Class, error) {
	want := 0
	for i := range c.group.values {
		want += len(c.group.values[i].pinned.all)
	}
	if len(list) != want {
		return nil, fmt.Errorf("expected %d pinned sums, got %d", want, len(list))
	}
	var pins []map[string]int64
	for _, p := range list {
		of := make(map[string]int64, len(p.GetDomains()))
		for i, domain := range p.GetDomains() {
			of[domain] = p.GetSums()[i]
		}
		pins = append(pins, of)
	}
	return c.pin(pins), nil
}

// pinnedBytes is a pinned sum with its domain.
const pinnedBytes = 100

// pin makes a class of the same query that has these sums, unless c has them.
func (c *Class) pin(pins []map[string]int64) *Class {
	if slices.EqualFunc(c.group.pins, pins, maps.Equal[map[string]int64, map[string]int64]) {
		return c
	}
	out := c.copied()
	out.group.pins = pins
	out.bytes += pinnedBytes * int64(out.PinnedDomains()-c.PinnedDomains())
	out.group.values = slices.Clone(c.group.values)
	for i := range out.group.values {
		x := &out.group.values[i].pinned
		x.all, x.some = slices.Clone(x.all), nil
		for k := range x.all {
			if x.all[k].of = pins[k]; len(pins[k]) > 0 {
				x.some = append(x.some, x.all[k])
			}
		}
		pins = pins[len(x.all):]
	}
	return out
}

// PinnedSums are those that the class has, in the order of the query's pinned terms.
func (c *Class) PinnedSums() []*pb.PinnedSums {
	var out []*pb.PinnedSums
	for _, of := range c.group.pins {
		p := &pb.PinnedSums{Domains: slices.Sorted(maps.Keys(of)), Sums: make([]int64, 0, len(of))}
		for _, domain := range p.Domains {
			p.Sums = append(p.Sums, of[domain])
		}
		out = append(out, p)
	}
	return out
}

// PinnedDomains is how many domains have a pinned sum.
func (c *Class) PinnedDomains() (n int) {
	for _, of := range c.group.pins {
		n += len(of)
	}
	return n
}

func (g *groupPart) mustBePinned() {
	if g.pins == nil {
		panic("a class is evaluated without its pinned sums")
	}
}

// sumOf is what a row value adds up on a row.
func (g *groupPart) sumOf(x *rowValue, v view) int64 {
	if len(x.pinned.all) == 0 {
		return v.weighted(g.sums[x.sum])
	}
	g.mustBePinned()
	n := int64(0)
	for i := range x.pinned.some {
		p := &x.pinned.some[i]
		if domain, has := v.t.labels.lookup(v.row, p.key); has {
			n += p.of[domain]
		}
	}
	return n + g.shiftOf(x, v)
}

// shiftOf is by how much a row's value differs because its counters differ from the table's, which is
// what was pinned: the row is in its own domains.
func (g *groupPart) shiftOf(x *rowValue, v view) int64 {
	switch {
	case v.totals == nil:
		return 0
	case len(x.pinned.all) == 0:
		return v.totals.shift(g.sums[x.sum])
	case !v.totals.movesAny(g.pinned):
		return 0
	}
	n := int64(0)
	for i := range x.pinned.all {
		p := &x.pinned.all[i]
		if _, has := v.t.labels.lookup(v.row, p.key); has {
			n += v.totals.shift(p.terms)
		}
	}
	return n
}

// MovesPins tells whether a counter that is pinned in the class differs from the table's.
func (r *RowTotals) MovesPins(c *Class) bool { return r.movesAny(c.group.pinned) }

// movesAny tells whether one of some counters, sorted, differs from the table's.
func (r *RowTotals) movesAny(sorted []uint32) bool {
	if len(sorted) == 0 {
		return false
	}
	for i := range r.counters {
		if r.counters[i].change == 0 {
			continue
		}
		if _, found := slices.BinarySearch(sorted, r.counters[i].id); found {
			return true
		}
	}
	return false
}

// pinned is a row value as a column, where it is the sum of pinned ones.
func (e *Evaluator) pinned(t *Table, c *Class, how *rowValue, rows int, into []int64) []int64 {
	c.group.mustBePinned()
	x := &e.columns
	into = scratch(into, rows)
	clear(into)
	for i := range how.pinned.some {
		p := &how.pinned.some[i]
		label := t.labels.column(p.key)
		if label == nil {
			continue
		}
		x.byID = scratch(x.byID, len(label.values))
		clear(x.byID)
		some := false
		for domain, n := range p.of {
			if id, known := label.byValue[domain]; known {
				x.byID[id], some = n, true
			}
		}
		if some {
			label.rows.addTo(x.byID, into)
		}
	}
	if how.clamp {
		clamp(into)
	}
	return into
}

// addTo adds what a dictionary makes of each row's id; it makes 0 of none.
func (c *ids) addTo(dictionary, into []int64) {
	switch {
	case c.d8 != nil:
		addDense(c.d8, dictionary, into)
	case c.d16 != nil:
		addDense(c.d16, dictionary, into)
	case c.d32 != nil:
		addDense(c.d32, dictionary, into)
	default:
		for i, row := range c.rows {
			if int(row) < len(into) {
				into[row] += dictionary[c.vals[i]]
			}
		}
	}
}

func addDense[T uint8 | uint16 | uint32](column []T, dictionary, into []int64) {
	for i, id := range column[:len(into)] {
		into[i] += dictionary[id]
	}
}
