package scorer

import (
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// scoredResource is one resource of a scoring strategy.
type scoredResource struct {
	resourceRef
	weight, request int64
	// devices counts the devices that serve the resource on rows that have none to allocate; nil: none do.
	devices *countedDevices
}

func appendScored(out []scoredResource, list []*pb.ScoredResource) []scoredResource {
	for _, s := range list {
		ref := newResourceRef(s.GetName())
		if ref.fixed < 0 && s.GetRequest() == 0 {
			continue // a scalar that the pod does not ask for plays no part
		}
		out = append(out, scoredResource{resourceRef: ref, weight: s.GetWeight(), request: s.GetRequest()})
	}
	return out
}

// scoredColumn is a scored resource as two columns of a table.
type scoredColumn struct {
	// used is what the pods on a row count for.
	used, allocatable []int64
	weight, request   int64
}

// isCPUOrMemory tells whether the resource is cpu or memory.
func (s *scoredResource) isCPUOrMemory() bool { return s.fixed == cpu || s.fixed == memory }

// countedNonZero tells whether a resource's used part is counted with defaults.
func (s *scoredResource) countedNonZero(nonZero bool) bool {
	return nonZero && s.isCPUOrMemory()
}

// scoredColumns finds the columns of scored resources for some rows, leaving out those that no row has.
// They hold until the next call.
func (e *Evaluator) scoredColumns(t *Table, scored []scoredResource, nonZero bool, rows bitmap) []scoredColumn {
	e.scored = e.scored[:0]
	e.expanded.reset()
	for i := range scored {
		s := &scored[i]
		if s.devices != nil {
			e.scored = append(e.scored, e.countedColumn(t, s, rows))
			continue
		}
		x := t.resource(s.resourceRef)
		if x == nil {
			continue
		}
		used := &x.requested
		if s.countedNonZero(nonZero) {
			used = &t.nonZero[s.fixed]
		}
		e.scored = append(e.scored, scoredColumn{
			used:        e.expanded.slots(used, t.capacity),
			allocatable: e.expanded.slots(&x.allocatable, t.capacity),
			weight:      s.weight,
			request:     s.request,
		})
	}
	return e.scored
}

// scored is what one row has in use of a scored resource, and what it has.
func (v view) scored(s *scoredResource, nonZero bool) (used, allocatable int64) {
	allocatable, used = v.amounts(s.resourceRef)
	if s.countedNonZero(nonZero) {
		used = v.nonZero(s.fixed)
	}
	if s.devices != nil && allocatable == 0 {
		n := v.e.countDevices(s.devices, v)
		return n.used, n.all
	}
	return used, allocatable
}

// countedColumn is the column of a resource that devices serve on rows that have none to allocate.
func (e *Evaluator) countedColumn(t *Table, s *scoredResource, rows bitmap) scoredColumn {
	out := scoredColumn{weight: s.weight, request: s.request, used: e.expanded.own(t.capacity), allocatable: e.expanded.own(t.capacity)}
	for row := range rows.all {
		out.used[row], out.allocatable[row] = view{t: t, row: row, e: e}.scored(s, false)
	}
	return out
}

// expansion is memory for lists written out as slots.
type expansion struct {
	buffers [][]int64
	used    int
}

func (x *expansion) reset() { x.used = 0 }

// slots gives a column one slot a row.
func (x *expansion) slots(a *amounts, capacity int) []int64 {
	if a.dense != nil {
		return a.dense
	}
	out := x.own(capacity)
	for i, row := range a.rows {
		out[row] = a.vals[i]
	}
	return out
}

// own is a column of zeros.
func (x *expansion) own(capacity int) []int64 {
	if x.used == len(x.buffers) {
		x.buffers = append(x.buffers, nil)
	}
	out := scratch(x.buffers[x.used], capacity)
	x.buffers[x.used] = out
	x.used++
	clear(out)
	return out
}
