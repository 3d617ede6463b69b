package scorer

import (
	"slices"
	"strings"
)

// sparseFactor is how many rows there are for each non-zero entry while a column
// is kept as a list: below that, one slot a row is smaller or much faster.
const sparseFactor = 8

// amounts is a column of numbers. Few non-zero entries are kept as a list sorted
// by row, many as one slot a row; a column that became dense stays so.
type amounts struct {
	dense []int64
	rows  []uint32
	vals  []int64
}

// at is the row's number, 0 where it has none.
func (a *amounts) at(row uint32) int64 {
	if a.dense != nil {
		return a.dense[row]
	}
	return a.search(row)
}

func (a *amounts) search(row uint32) int64 {
	if i, ok := slices.BinarySearch(a.rows, row); ok {
		return a.vals[i]
	}
	return 0
}

// cursor reads a column at rows that ascend: a list is walked once, not searched for each of them.
type cursor struct {
	*amounts
	next int
}

// at is amounts.at for a row that is not below the last one.
func (c *cursor) at(row uint32) int64 {
	if c.dense != nil {
		return c.dense[row]
	}
	for c.next < len(c.rows) && c.rows[c.next] < row {
		c.next++
	}
	if c.next < len(c.rows) && c.rows[c.next] == row {
		return c.vals[c.next]
	}
	return 0
}

// set stores a row's number in a table of so many rows.
func (a *amounts) set(row uint32, v int64, capacity int) {
	if a.dense != nil {
		a.dense[row] = v
		return
	}
	i, found := slices.BinarySearch(a.rows, row)
	switch {
	case found && v == 0:
		a.rows = slices.Delete(a.rows, i, i+1)
		a.vals = slices.Delete(a.vals, i, i+1)
	case found:
		a.vals[i] = v
	case v != 0:
		a.rows = slices.Insert(a.rows, i, row)
		a.vals = slices.Insert(a.vals, i, v)
		if len(a.rows)*sparseFactor > capacity {
			a.makeDense(capacity)
		}
	}
}

// clear takes the numbers of the rows from one on and before another away.
func (a *amounts) clear(from, to uint32) {
	if n := uint32(len(a.dense)); n > 0 {
		clear(a.dense[min(from, n):min(to, n)])
		return
	}
	i, _ := slices.BinarySearch(a.rows, from)
	j, _ := slices.BinarySearch(a.rows, to)
	a.rows, a.vals = slices.Delete(a.rows, i, j), slices.Delete(a.vals, i, j)
}

// any tells whether any row from one on and before another has a number.
func (a *amounts) any(from, to uint32) bool {
	if n := uint32(len(a.dense)); n > 0 {
		return slices.ContainsFunc(a.dense[min(from, n):min(to, n)], func(v int64) bool { return v != 0 })
	}
	i, _ := slices.BinarySearch(a.rows, from)
	return i < len(a.rows) && a.rows[i] < to
}

func (a *amounts) makeDense(capacity int) {
	a.dense = make([]int64, capacity)
	for i, row := range a.rows {
		a.dense[row] = a.vals[i]
	}
	a.rows, a.vals = nil, nil
}

// intersect keeps the rows of b that have an entry, as far as a list tells; slots are left to
// the caller.
func (a *amounts) intersect(b bitmap) {
	if a.dense != nil {
		return
	}
	i := 0
	for w := range b {
		var has uint64
		for ; i < len(a.rows) && int(a.rows[i]/wordRows) == w; i++ {
			has |= 1 << (a.rows[i] % wordRows)
		}
		b[w] &= has
	}
}

// grow follows the table's capacity.
func (a *amounts) grow(capacity int) {
	if a.dense != nil {
		a.dense = lengthened(a.dense, capacity)
	}
}

func (a *amounts) memory() int64 {
	return int64(8*cap(a.dense) + 4*cap(a.rows) + 8*cap(a.vals))
}

// resource is one resource as columns. The first resources of a table are always
// there and dense; the scalars follow in the order in which they were first seen.
type resource struct {
	name  string
	index int
	// allocatable, and the sum of the pods' real requests.
	allocatable, requested amounts
}

// The fixed resources of every table. cpu is in thousandths, the others in bytes.
const (
	cpu = iota
	memory
	ephemeralStorage
	fixedResources
)

// fixedNames are the Kubernetes names of the fixed resources.
func fixedNames() [fixedResources]string {
	return [fixedResources]string{"cpu", "memory", "ephemeral-storage"}
}

// resourceRef names a resource in a class, which is bound to no table.
type resourceRef struct {
	name string
	// fixed is the index of a fixed resource, -1 for a scalar.
	fixed int
}

func newResourceRef(name string) resourceRef {
	for i, n := range fixedNames() {
		if n == name {
			return resourceRef{name, i}
		}
	}
	return resourceRef{name, -1}
}

// resource finds a resource; nil where no row of the table ever had it.
func (t *Table) resource(ref resourceRef) *resource {
	if ref.fixed >= 0 {
		return t.resources[ref.fixed]
	}
	if i, ok := t.scalarIndex[ref.name]; ok {
		return t.resources[i]
	}
	return nil
}

// scalar finds a scalar resource, or begins its columns. Scalars are never
// forgotten: RowTotals refers to them by index, and there are few.
func (t *Table) scalar(name string) *resource {
	if i, ok := t.scalarIndex[name]; ok {
		return t.resources[i]
	}
	r := &resource{name: name, index: len(t.resources)}
	t.resources = append(t.resources, r)
	t.scalarIndex[name] = r.index
	t.textBytes += int64(len(name))
	at, _ := slices.BinarySearchFunc(t.scalarOrder, name, func(i int, name string) int {
		return strings.Compare(t.resources[i].name, name)
	})
	t.scalarOrder = slices.Insert(t.scalarOrder, at, r.index)
	return r
}
