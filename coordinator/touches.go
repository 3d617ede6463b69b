package coordinator

import (
	"slices"

	"github.com/shardsched/shardsched/coordinator/cache"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// maxTouches is how long the log of changes gets before its older half is forgotten. Between two
// batches it may get twice as long; then it is given up.
const maxTouches = 1 << 15

// touch is one change of a row: of what its pods add up to.
type touch struct {
	row cache.Row
	// left tells that a pod has left.
	left bool
	// before is what the pods added up to just before. It holds counters as differences from the
	// table's own, which move on.
	before scorer.RowTotals
}

// touches is the log of the changes of rows, oldest first: what the answers of the workers are
// repaired by. It is a cache.Watcher. What it can not hold, the changes of nodes themselves, it only
// knows to have happened.
type touches struct {
	list []touch
	// first is the number of list[0]: changes are numbered from 0 on.
	first uint64
	rows  map[cache.Row][]uint64 // numbers of a row's changes
	// reads tells that somebody holds an answer; else there is nothing to log.
	reads bool
	// deciding tells that answers are in use: nothing is given up then.
	deciding bool
	// lost tells that a row has changed in a way that is not in the log.
	lost bool
	// columns are counters that were set anew.
	columns []uint32
	// counters is told of every row whose counters have changed; nil: nobody is.
	counters func(row cache.Row, changes []*pb.CounterValue)
}

// end is the number of the next change.
func (t *touches) end() uint64 { return t.first + uint64(len(t.list)) }

// at is a change by its number.
func (t *touches) at(n uint64) *touch { return &t.list[n-t.first] }

// reset forgets all changes. Numbers go on.
func (t *touches) reset() {
	t.first = t.end()
	t.list, t.columns = t.list[:0], t.columns[:0]
	t.lost = false
	clear(t.rows)
}

// trim forgets the oldest changes where there are too many.
func (t *touches) trim() {
	if len(t.list) <= maxTouches {
		return
	}
	t.cut(len(t.list) - maxTouches/2)
}

// cut forgets the oldest changes.
func (t *touches) cut(cut int) {
	for i := range t.list[:cut] {
		row := t.list[i].row
		if kept := t.rows[row][1:]; len(kept) > 0 {
			t.rows[row] = kept
		} else {
			delete(t.rows, row)
		}
	}
	// What is behind takes the memory of what is forgotten.
	n := copy(t.list, t.list[cut:])
	for i := range t.list[n:] {
		t.list[n+i].before = scorer.RowTotals{}
	}
	t.list = t.list[:n]
	t.first += uint64(cut)
}

// forget forgets the changes before n, which nobody is to repair by any more, once they are the greater
// part: every change of a row is told to all of the row's that are kept.
func (t *touches) forget(n uint64) {
	if cut := int(n - t.first); 2*cut > len(t.list) {
		t.cut(cut)
	}
}

// add opens an entry for a row and returns where to put its totals.
func (t *touches) add(row cache.Row, left bool) *scorer.RowTotals {
	if len(t.list) < cap(t.list) {
		t.list = t.list[:len(t.list)+1]
	} else {
		t.list = append(t.list, touch{})
	}
	if t.rows == nil {
		t.rows = map[cache.Row][]uint64{}
	}
	t.rows[row] = append(t.rows[row], t.end()-1)
	e := &t.list[len(t.list)-1]
	e.row, e.left = row, left
	return &e.before
}

// counted tells by how much a row's counters have moved with its newest change.
func (t *touches) counted(row cache.Row, changes []*pb.CounterValue, sign int64) {
	if len(changes) == 0 {
		return
	}
	if t.counters != nil {
		t.counters(row, changes)
	}
	if t.givenUp() {
		return
	}
	for _, n := range t.rows[row] {
		t.at(n).before.AddCounters(changes, -sign)
	}
}

// givenUp tells that the next batch begins with no answer, so that nothing has to be logged until then: what a row's
// change costs grows with how many the log has of the row.
func (t *touches) givenUp() bool { return t.lost && !t.deciding }

// Changing is part of cache.Watcher.
func (t *touches) Changing(table *scorer.Table, d *pb.Delta) {
	if !t.reads || t.givenUp() {
		return
	}
	t.lost = t.lost || len(t.list) >= 2*maxTouches
	row := cache.Row{Shard: table.Shard(), Index: d.GetRow()}
	switch d.GetChange().(type) {
	case *pb.Delta_AddPod, *pb.Delta_ChangeCounters:
		table.Totals(row.Index, t.add(row, false))
	case *pb.Delta_RemovePod:
		table.Totals(row.Index, t.add(row, true))
	}
}

// Changed is part of cache.Watcher.
func (t *touches) Changed(table *scorer.Table, d *pb.Delta) {
	if !t.reads {
		return
	}
	row := cache.Row{Shard: table.Shard(), Index: d.GetRow()}
	switch change := d.GetChange().(type) {
	case *pb.Delta_AddPod:
		t.counted(row, change.AddPod.GetCounters(), +1)
	case *pb.Delta_RemovePod:
		t.counted(row, change.RemovePod.GetCounters(), -1)
	case *pb.Delta_ChangeCounters:
		t.counted(row, change.ChangeCounters.GetCounters(), +1)
	case *pb.Delta_ChangePod: // no filter or score looks at that
	case *pb.Delta_SetCounter:
		// Counters are filled part by part, some together.
		if id := change.SetCounter.GetCounter(); !slices.Contains(t.columns[max(0, len(t.columns)-filledTogether):], id) {
			t.columns = append(t.columns, id)
		}
	default:
		t.lost = true
	}
}

// leftSince tells whether a pod has left a row, from a change on.
func (t *touches) leftSince(row cache.Row, n uint64) bool {
	list := t.rows[row]
	for i := len(list) - 1; i >= 0 && list[i] >= n; i-- {
		if t.at(list[i]).left {
			return true
		}
	}
	return false
}
