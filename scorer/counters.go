package scorer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// counterSet is the counters of a table by id: one number a row each, most of
// them 0. What they count is the coordinator's business.
type counterSet struct {
	columns map[uint32]*amounts
}

func newCounterSet() counterSet { return counterSet{columns: map[uint32]*amounts{}} }

// column is a counter's column, nil where no row has any.
func (s *counterSet) column(id uint32) *amounts { return s.columns[id] }

// at is a row's number.
func (s *counterSet) at(id, row uint32) int64 {
	if c := s.columns[id]; c != nil {
		return c.at(row)
	}
	return 0
}

// add changes a row's numbers, or takes the changes back with sign -1.
func (s *counterSet) add(row uint32, list []*pb.CounterValue, sign int64, capacity int) {
	for _, v := range list {
		c := s.columns[v.GetCounter()]
		if c == nil {
			c = &amounts{}
			s.columns[v.GetCounter()] = c
		}
		c.set(row, c.at(row)+sign*v.GetValue(), capacity)
	}
}

// check refuses changes that lead out of the numbers that sums may have.
func (s *counterSet) check(row uint32, list []*pb.CounterValue, sign int64) error {
	for _, v := range list {
		if now := s.at(v.GetCounter(), row) + sign*v.GetValue(); now > maxSum || now < -maxSum {
			return fmt.Errorf("counter %d: the sum is more than 62 bits hold", v.GetCounter())
		}
	}
	return nil
}

// fill writes a part of a column whose rows all hold a node.
func (s *counterSet) fill(part *pb.CounterColumn, capacity int) {
	c := s.columns[part.GetCounter()]
	if c == nil {
		c = &amounts{}
		s.columns[part.GetCounter()] = c
	}
	if last := len(c.rows) - 1; c.dense == nil && (last < 0 || c.rows[last] < part.Rows[0]) &&
		(len(c.rows)+len(part.Rows))*sparseFactor <= capacity {
		c.rows, c.vals = append(c.rows, part.Rows...), append(c.vals, part.Values...)
		return
	}
	for i, row := range part.GetRows() {
		c.set(row, part.Values[i], capacity)
	}
}

// clear takes a row's numbers away.
func (s *counterSet) clear(row uint32, capacity int) {
	for _, c := range s.columns {
		c.set(row, 0, capacity)
	}
}

func (s *counterSet) grow(capacity int) {
	for _, c := range s.columns {
		c.grow(capacity)
	}
}

func (s *counterSet) memory() int64 {
	n := int64(len(s.columns)) * (mapEntryBytes + 72)
	for _, c := range s.columns {
		n += c.memory()
	}
	return n
}

// checkColumn refuses a column that names rows without a node.
func (t *Table) checkColumn(c *pb.CounterColumn) error {
	for _, row := range c.GetRows() {
		if !t.HasNode(row) {
			return fmt.Errorf("counter %d: row %d holds no node", c.GetCounter(), row)
		}
	}
	return nil
}

// setCounter replaces a column, or a part of it.
func (t *Table) setCounter(c *pb.CounterColumn) {
	if c.GetToRow() == 0 {
		delete(t.counters.columns, c.GetCounter())
	} else if column := t.counters.column(c.GetCounter()); column != nil {
		column.clear(c.GetFromRow(), c.GetToRow())
	}
	if len(c.GetRows()) > 0 {
		t.counters.fill(c, t.capacity)
	}
}

// counterColumn is a counter's column, nil where no row has any.
func (t *Table) counterColumn(id uint32) *amounts { return t.counters.column(id) }

// HasCounter tells whether a counter has a column, with anything in the rows from one on and before another; with
// to 0 anything or nothing.
func (t *Table) HasCounter(id, from, to uint32) bool {
	c := t.counters.column(id)
	return c != nil && (to == 0 || c.any(from, to))
}

// Counter is a row's value of a counter.
func (t *Table) Counter(id, row uint32) int64 { return t.counters.at(id, row) }

// counter is the row's value of a counter.
func (v view) counter(id uint32) int64 {
	n := v.t.counters.at(id, v.row)
	if v.totals == nil {
		return n
	}
	if at, found := findCounter(v.totals.counters, id); found {
		n += v.totals.counters[at].change
	}
	return n
}

// counterChange is by how much a row's counter differs from the table's.
type counterChange struct {
	id     uint32
	change int64
}

// AddCounters makes the totals' counters differ from the table's by the list, on top of
// what they differ by already; sign is 1 or -1. Lists that are sorted by counter are merged: a pod may
// count for thousands.
func (r *RowTotals) AddCounters(list []*pb.CounterValue, sign int64) {
	if !slices.IsSortedFunc(list, func(a, b *pb.CounterValue) int { return cmp.Compare(a.GetCounter(), b.GetCounter()) }) {
		for _, v := range list {
			r.addCounter(v.GetCounter(), sign*v.GetValue())
		}
		return
	}
	old, more := len(r.counters), missing(r.counters, list)
	r.counters = slices.Grow(r.counters, more)[:old+more]
	// From the last to the first: what is not read yet stands before what is written.
	from, to := old-1, len(r.counters)-1
	for i := len(list) - 1; i >= 0; {
		id := list[i].GetCounter()
		if from >= 0 && r.counters[from].id > id {
			r.counters[to] = r.counters[from]
			from, to = from-1, to-1
			continue
		}
		c := counterChange{id: id}
		if from >= 0 && r.counters[from].id == id {
			c, from = r.counters[from], from-1
		}
		for ; i >= 0 && list[i].GetCounter() == id; i-- {
			c.change += sign * list[i].GetValue()
		}
		r.counters[to] = c
		to--
	}
}

// missing is how many counters of a list are not among those of another; both are sorted.
func missing(among []counterChange, list []*pb.CounterValue) int {
	n, at := 0, 0
	for i, v := range list {
		if i > 0 && v.GetCounter() == list[i-1].GetCounter() {
			continue
		}
		for at < len(among) && among[at].id < v.GetCounter() {
			at++
		}
		if at == len(among) || among[at].id != v.GetCounter() {
			n++
		}
	}
	return n
}

// addCounter is AddCounters of one.
func (r *RowTotals) addCounter(id uint32, change int64) {
	at, found := findCounter(r.counters, id)
	if !found {
		r.counters = slices.Insert(r.counters, at, counterChange{id: id})
	}
	r.counters[at].change += change
}

// Moves tells whether a counter that a class reads differs from the table's.
func (r *RowTotals) Moves(c *Class) bool {
	for i := range r.counters {
		if r.counters[i].change == 0 {
			continue
		}
		if _, reads := slices.BinarySearch(c.group.counters, r.counters[i].id); reads {
			return true
		}
	}
	return false
}

// Counters yields every counter that a row has, ascending by id. What it yields
// depends on the rows alone, and is the receiver's to keep.
func (t *Table) Counters(yield func(*pb.CounterColumn) bool) {
	for _, id := range slices.Sorted(maps.Keys(t.counters.columns)) {
		out := &pb.CounterColumn{Counter: id}
		c := t.counters.columns[id]
		if c.dense == nil {
			out.Rows, out.Values = slices.Clone(c.rows), slices.Clone(c.vals)
		}
		for row, v := range c.dense {
			if v != 0 {
				out.Rows, out.Values = append(out.Rows, uint32(row)), append(out.Values, v)
			}
		}
		if len(out.Rows) > 0 && !yield(out) {
			return
		}
	}
}
