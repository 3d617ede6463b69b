package scorer

import (
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Repelled tells whether the required anti-affinity terms of pods in t match the class
// anywhere: some row that has a term's topology key has its counter.
func (c *Class) Repelled(t *Table) bool {
	for _, p := range c.query.GetInterPodAffinity().GetExistingAnti() {
		key, counters := c.looksAt(p)
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
	for _, p := range c.query.GetInterPodAffinity().GetExistingAnti() {
		_, counters := c.looksAt(p)
		for _, x := range counters {
			out = append(out, x.GetCounter())
		}
	}
	return out
}

// looksAt is what a place without an inclusion looks at: a topology key and counters.
func (c *Class) looksAt(p *pb.Place) (key string, counters []*pb.CounterTerm) {
	if in, ok := p.GetIn().(*pb.Place_RowValue); ok {
		v := c.query.GetRowValues()[in.RowValue]
		return v.GetTopologyKey(), v.GetCounters()
	}
	m := c.query.GetMeasures()[p.GetMeasure()]
	return m.GetTopologyKey(), m.GetCounters()
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
