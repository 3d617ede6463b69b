package scorer

import (
	"slices"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// inclusion says which rows count for a sum: upstream's node inclusion policies.
type inclusion struct {
	keys     []string
	affinity *nodeAffinity    // nil: not looked at
	taints   *taintToleration // nil: not looked at
}

func newInclusion(x *pb.Inclusion, q *pb.Query) inclusion {
	out := inclusion{keys: x.GetTopologyKeys()}
	if x.GetHonourAffinity() {
		out.affinity = newNodeAffinity(q)
	}
	if x.GetHonourTaints() {
		out.taints = new(taintToleration).make(q)
	}
	return out
}

// is tells whether newInclusion would make this one.
func (x *inclusion) is(q *pb.Inclusion) bool {
	return slices.Equal(x.keys, q.GetTopologyKeys()) &&
		(x.affinity != nil) == q.GetHonourAffinity() && (x.taints != nil) == q.GetHonourTaints()
}

// all tells that every row counts.
func (x *inclusion) all() bool { return len(x.keys) == 0 && x.affinity == nil && x.taints == nil }

// narrow keeps the rows that count.
func (x *inclusion) narrow(e *Evaluator, t *Table, rows bitmap) {
	for _, key := range x.keys {
		t.labels.column(key).narrowPresent(e, t, rows)
	}
	if x.affinity != nil {
		x.affinity.narrowForPod(e, t, rows)
	}
	if x.taints != nil {
		x.taints.narrow(e, t, rows)
	}
}

// includes is narrow for one row.
func (x *inclusion) includes(v view) bool {
	for _, key := range x.keys {
		if _, has := v.t.labels.lookup(v.row, key); !has {
			return false
		}
	}
	return (x.affinity == nil || x.affinity.matchesPod(v)) && (x.taints == nil || x.taints.passes(v))
}

// narrowForPod keeps the rows that match what the pod itself asks.
func (r *nodeAffinity) narrowForPod(e *Evaluator, t *Table, rows bitmap) {
	for i := range r.equal {
		r.equal[i].narrow(e, t, rows)
	}
	r.required.narrow(e, t, rows)
}

// narrowPresent keeps the rows that have the label; without a column none does.
func (c *labelColumn) narrowPresent(e *Evaluator, t *Table, rows bitmap) {
	switch {
	case c == nil:
		clear(rows)
	case c.rows.used < t.nodes:
		keep := e.allKeep(len(c.values), 1)
		keep[0] = 0
		c.rows.narrow(keep, rows)
	}
}
