package scorer

import (
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Repelled tells whether the required anti-affinity terms of pods in t match the class
// anywhere: some row that has a term's topology key has its counter.
func (c *Class) Repelled(t *Table) bool {
	for key, counters := range c.repellers {
		for _, x := range counters {
			if column := t.counterColumn(x.GetCounter()); column != nil && column.anyWith(&t.labels, key) {
				return true
			}
		}
	}
	return false
}

// Repellers are the counters that Repelled looks at.
func (c *Class) Repellers() []uint32 {
	var out []uint32
	for _, counters := range c.repellers {
		for _, x := range counters {
			out = append(out, x.GetCounter())
		}
	}
	return out
}

// repellers yields topology keys, and counters that refuse the class in their domains.
func (c *Class) repellers(yield func(key string, counters []*pb.CounterTerm) bool) {
	for _, p := range c.query.GetInterPodAffinity().GetExistingAnti() {
		in, ok := p.GetIn().(*pb.Place_RowValue)
		if !ok {
			if m := c.query.GetMeasures()[p.GetMeasure()]; !yield(m.GetTopologyKey(), m.GetCounters()) {
				return
			}
			continue
		}
		v := c.query.GetRowValues()[in.RowValue]
		if len(v.GetPinned()) == 0 && !yield(v.GetTopologyKey(), v.GetCounters()) {
			return
		}
		for _, x := range v.GetPinned() {
			if !yield(x.GetTopologyKey(), x.GetCounters()) {
				return
			}
		}
	}
}

// anyWith tells whether a row with a label has a number other than 0.
func (a *amounts) anyWith(labels *labelIndex, key string) bool {
	for i, row := range a.rows {
		if _, has := labels.lookup(row, key); has && a.vals[i] != 0 {
			return true
		}
	}
	for row, v := range a.dense {
		if v == 0 {
			continue
		}
		if _, has := labels.lookup(uint32(row), key); has {
			return true
		}
	}
	return false
}
