package scorer

import (
	"google.golang.org/protobuf/proto"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Within is the class of pods that only the rows with a label may take: no other row is in a group, counts for a reason, or
// normalises a score. Measures are of all rows. It has an id of its own.
func (c *Class) Within(id uint64, label *pb.Label) *Class {
	in := c.copied()
	in.original, in.query = nil, proto.CloneOf(c.query)
	in.query.ClassId, in.query.Within = id, label
	in.within = in.query.Within
	return in
}

// looksAt tells whether a row is one that is looked at.
func (c *Class) looksAt(t *Table, row uint32) bool {
	if c.within == nil {
		return true
	}
	value, has := t.labels.lookup(row, c.within.GetKey())
	return has && value == c.within.GetValue()
}

// keepWithin keeps those of n rows that the class looks at, and returns how many they are.
func (e *Evaluator) keepWithin(t *Table, c *Class, rows bitmap, n int) int {
	if c.within == nil {
		return n
	}
	x, id := t.valueOf(c.within.GetKey(), c.within.GetValue())
	if id == 0 {
		clear(rows)
		return 0
	}
	for row := range rows.all {
		if x.rows.at(row) != id {
			rows.remove(row)
		}
	}
	return rows.count()
}

// valueOf is the column of a label's key, and what stands there for its value; 0: no row has it.
func (t *Table) valueOf(key, value string) (column *labelColumn, id uint32) {
	column = t.labels.column(key)
	if column == nil {
		return nil, 0
	}
	return column, column.byValue[value]
}

// CountLabelled is how many rows have a label.
func (t *Table) CountLabelled(key, value string) int {
	x, id := t.valueOf(key, value)
	if id == 0 {
		return 0
	}
	return int(x.refs[id])
}

// Labelled yields the rows that have a label of a key, in order, with its value.
func (t *Table) Labelled(key string) func(yield func(row uint32, value string) bool) {
	return func(yield func(row uint32, value string) bool) {
		x := t.labels.column(key)
		if x == nil {
			return
		}
		for row := range t.All() {
			if id := x.rows.at(row); id != 0 && !yield(row, x.values[id]) {
				return
			}
		}
	}
}
