package answers

import (
	"slices"

	"github.com/shardsched/shardsched/coordinator/cache"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// maxChanges bounds the memory of the change log. Between two batches a longer log loses its older half. Within a batch it may
// get twice as long; with more changes all answers are given up.
const maxChanges = 1 << 15

// maxTotals is how many scalars and host ports a row may have in use, of some 30 bytes each, for its totals to be logged.
// A tenant's pods may bring a node a hundred thousand, and a log of a thousand changes of such a node would take gigabytes.
const maxTotals = 256

// filledTogether is how many counters the loop fills at the same time, a part each turn. Each part is a change of all of them,
// so the log looks that far back for a counter it has already.
const filledTogether = 16

// change is one change of a row's totals, the sums over its pods.
type change struct {
	row cache.Row
	// left tells that a pod has left; devices that the row's devices have changed, or what is in use of them.
	left, devices bool
	// before is the row's totals just before. Counters are differences from the
	// table's counters, which move on.
	before scorer.RowTotals
	// bare tells that before has counters only, because the row is large. Each answer has judged such a row.
	bare bool
}

// ChangeLog is the log of the changes of rows, oldest first. Answers are repaired by it. It watches the tables. It does not
// hold changes of nodes themselves: it only notes that there was one (lost).
type ChangeLog struct {
	list []change
	// first is the number of list[0]: changes are numbered from 0 on.
	first uint64
	rows  map[cache.Row][]uint64 // numbers of a row's changes
	// reads tells that an answer is held; else nothing has to be logged.
	reads bool
	// deciding tells that a batch uses the answers: none is given up then.
	deciding bool
	// lost tells that a row has changed in a way that is not in the log.
	lost bool
	// shared counts the changes of shared devices.
	shared uint64
	// columns are counters that were set anew in all rows.
	columns []uint32
	// large are the rows of more than maxTotals.
	large map[cache.Row]struct{}
	// counters is told of every row whose counters have changed; nil: nobody is.
	counters func(row cache.Row, changes []*pb.CounterValue)
}

// end is the number of the next change.
func (l *ChangeLog) end() uint64 { return l.first + uint64(len(l.list)) }

// at is a change by its number.
func (l *ChangeLog) at(n uint64) *change { return &l.list[n-l.first] }

// reset forgets all changes. Numbers go on.
func (l *ChangeLog) reset() {
	l.first = l.end()
	l.list, l.columns = l.list[:0], l.columns[:0]
	l.lost = false
	clear(l.rows)
}

// trim forgets the oldest changes where there are too many.
func (l *ChangeLog) trim() {
	if len(l.list) <= maxChanges {
		return
	}
	l.cut(len(l.list) - maxChanges/2)
}

// cut forgets the oldest changes.
func (l *ChangeLog) cut(cut int) {
	for i := range l.list[:cut] {
		row := l.list[i].row
		if kept := l.rows[row][1:]; len(kept) > 0 {
			l.rows[row] = kept
		} else {
			delete(l.rows, row)
		}
	}
	// The changes that stay move to the front, and free the totals at the end.
	n := copy(l.list, l.list[cut:])
	for i := range l.list[n:] {
		l.list[n+i].before = scorer.RowTotals{}
	}
	l.list = l.list[:n]
	l.first += uint64(cut)
}

// forget forgets the changes before n once they are the greater part: no answer is repaired by them any more, and each
// change of a row updates all earlier entries of the same row.
func (l *ChangeLog) forget(n uint64) {
	if cut := int(n - l.first); 2*cut > len(l.list) {
		l.cut(cut)
	}
}

// add opens an entry for a row and returns where to put its totals.
func (l *ChangeLog) add(row cache.Row, left bool) *scorer.RowTotals {
	if len(l.list) < cap(l.list) {
		l.list = l.list[:len(l.list)+1]
	} else {
		l.list = append(l.list, change{})
	}
	if l.rows == nil {
		l.rows = map[cache.Row][]uint64{}
	}
	l.rows[row] = append(l.rows[row], l.end()-1)
	e := &l.list[len(l.list)-1]
	e.row, e.left, e.devices, e.bare = row, left, false, false
	return &e.before
}

// note logs what a row's pods add up to.
func (l *ChangeLog) note(table *scorer.Table, row cache.Row, left bool) {
	before := l.add(row, left)
	if table.InUse(row.Index) <= maxTotals {
		table.Totals(row.Index, before)
		return
	}
	*before = scorer.RowTotals{}
	l.list[len(l.list)-1].bare = true
}

// measure notes whether a row is large.
func (l *ChangeLog) measure(table *scorer.Table, row cache.Row) {
	if table.InUse(row.Index) <= maxTotals {
		delete(l.large, row)
		return
	}
	if l.large == nil {
		l.large = map[cache.Row]struct{}{}
	}
	l.large[row] = struct{}{}
}

// counted tells by how much a row's counters have moved with its newest change.
func (l *ChangeLog) counted(row cache.Row, changes []*pb.CounterValue, sign int64) {
	if len(changes) == 0 {
		return
	}
	if l.counters != nil {
		l.counters(row, changes)
	}
	if l.givenUp() {
		return
	}
	for _, n := range l.rows[row] {
		l.at(n).before.AddCounters(changes, -sign)
	}
}

// givenUp tells that the next batch begins without answers. Nothing is logged until then, because the cost of logging a
// change grows with the number of entries of its row.
func (l *ChangeLog) givenUp() bool { return l.lost && !l.deciding }

// Changing is part of cache.Watcher.
func (l *ChangeLog) Changing(table *scorer.Table, d *pb.Delta) {
	if !l.reads || l.givenUp() {
		return
	}
	l.lost = l.lost || len(l.list) >= 2*maxChanges
	row := cache.Row{Shard: table.Shard(), Index: d.GetRow()}
	switch d.GetChange().(type) {
	case *pb.Delta_AddPod, *pb.Delta_ChangeCounters:
		l.note(table, row, false)
	case *pb.Delta_RemovePod:
		l.note(table, row, true)
	case *pb.Delta_SetSlice, *pb.Delta_RemoveSlice, *pb.Delta_UseDevices:
		l.note(table, row, false)
		l.list[len(l.list)-1].devices = true
	}
}

// Changed is part of cache.Watcher.
func (l *ChangeLog) Changed(table *scorer.Table, d *pb.Delta) {
	switch d.GetChange().(type) {
	case *pb.Delta_SetSharedSlice, *pb.Delta_RemoveSharedSlice, *pb.Delta_UseSharedDevices:
		l.shared++
		return
	}
	row := cache.Row{Shard: table.Shard(), Index: d.GetRow()}
	l.measure(table, row)
	if !l.reads {
		return
	}
	switch change := d.GetChange().(type) {
	case *pb.Delta_AddPod:
		l.counted(row, change.AddPod.GetCounters(), +1)
	case *pb.Delta_RemovePod:
		l.counted(row, change.RemovePod.GetCounters(), -1)
	case *pb.Delta_ChangeCounters:
		l.counted(row, change.ChangeCounters.GetCounters(), +1)
	case *pb.Delta_ChangePod: // no filter or score reads the change
	case *pb.Delta_SetSlice, *pb.Delta_RemoveSlice, *pb.Delta_UseDevices: // no counter moves
	case *pb.Delta_SetCounter:
		// Counters are filled part by part, some together.
		if id := change.SetCounter.GetCounter(); !slices.Contains(l.columns[max(0, len(l.columns)-filledTogether):], id) {
			l.columns = append(l.columns, id)
		}
	default:
		l.lost = true
	}
}

// changedSince tells whether a row has changed, from a change on.
func (l *ChangeLog) changedSince(row cache.Row, n uint64) bool {
	list := l.rows[row]
	return len(list) > 0 && list[len(list)-1] >= n
}

// changedBetween tells whether a row has changed, from a change on and before another.
func (l *ChangeLog) changedBetween(row cache.Row, from, before uint64) bool {
	list := l.rows[row]
	i, _ := slices.BinarySearch(list, from)
	return i < len(list) && list[i] < before
}

// leftSince tells whether a pod has left a row, from a change on, or, with devices, devices have changed.
func (l *ChangeLog) leftSince(row cache.Row, n uint64, devices bool) bool {
	list := l.rows[row]
	for i := len(list) - 1; i >= 0 && list[i] >= n; i-- {
		if x := l.at(list[i]); x.left || devices && x.devices {
			return true
		}
	}
	return false
}
