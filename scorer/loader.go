package scorer

import (
	"fmt"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Loader makes a table from a snapshot that comes in parts, so that it need not be held as a whole
// in the form in which it comes.
type Loader struct {
	table                   *Table
	generation              uint64
	rows, counters, devices int // that have come
}

// NewLoader begins a table.
func NewLoader(shard uint32, generation uint64) *Loader {
	return &Loader{table: NewTable(shard), generation: generation}
}

// Add takes in some of the rows, in any order, and some of the counters and devices, of rows that have come. A
// counter may come in parts, each with rows of its own. The table is lost after an error.
func (l *Loader) Add(rows []*pb.SnapshotRow, counters []*pb.CounterColumn, devices []*pb.RowDevices) error {
	highest := -1
	for i, r := range rows {
		if err := r.Validate(); err != nil {
			return l.wrong("rows", l.rows+i, err)
		}
		highest = max(highest, int(r.GetRow()))
	}
	l.table.grow(highest + 1)
	for _, r := range rows {
		if err := l.row(r); err != nil {
			return l.wrong("rows", l.rows, err)
		}
		l.rows++
	}
	for _, c := range counters {
		if err := l.table.loadCounter(c); err != nil {
			return l.wrong("counters", l.counters, err)
		}
		l.counters++
	}
	for _, x := range devices {
		err := x.Validate()
		if err == nil {
			err = l.table.loadDevices(x)
		}
		if err != nil {
			return l.wrong("devices", l.devices, err)
		}
		l.devices++
	}
	return nil
}

func (l *Loader) wrong(field string, i int, err error) error {
	return fmt.Errorf("snapshot of shard %d: %s[%d]: %w", l.table.shard, field, i, err)
}

func (l *Loader) row(r *pb.SnapshotRow) error {
	t := l.table
	if t.HasNode(r.GetRow()) {
		return fmt.Errorf("row %d comes twice", r.GetRow())
	}
	if err := t.checkName(r.GetRow(), r.GetNode().GetName()); err != nil {
		return err
	}
	t.setNode(r.GetRow(), r.GetNode())
	t.setTotals(r.GetRow(), r.GetTotals())
	for k, p := range r.GetPods() {
		if err := t.checkPlaced(r.GetRow(), p, false); err != nil {
			return fmt.Errorf("pods[%d]: %w", k, err)
		}
		t.addPlaced(r.GetRow(), p, p.GetUsage())
	}
	t.renew(r.GetRow())
	t.changed[r.GetRow()] = l.generation
	return nil
}

// MemoryBytes estimates what the table takes so far.
func (l *Loader) MemoryBytes() int64 { return l.table.MemoryBytes() }

// Table is the table, once all has come.
func (l *Loader) Table() *Table {
	l.table.generation, l.table.loaded = l.generation, l.generation
	return l.table
}

// LoadTable makes a table from a whole snapshot, as a Loader does.
func LoadTable(shard uint32, generation uint64, rows []*pb.SnapshotRow, counters []*pb.CounterColumn,
	devices ...*pb.RowDevices) (*Table, error) {
	l := NewLoader(shard, generation)
	if err := l.Add(rows, counters, devices); err != nil {
		return nil, err
	}
	return l.Table(), nil
}

func (t *Table) loadCounter(c *pb.CounterColumn) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if err := t.checkColumn(c); err != nil {
		return err
	}
	for _, row := range c.GetRows() {
		if t.counters.at(c.GetCounter(), row) != 0 {
			return fmt.Errorf("counter %d: row %d comes twice", c.GetCounter(), row)
		}
	}
	if len(c.GetRows()) > 0 {
		t.counters.fill(c, t.capacity)
	}
	return nil
}
