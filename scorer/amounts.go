package scorer

import (
	"slices"
	"strings"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
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

// resource is one resource as columns. The fixed ones are always there and dense; a scalar is there while a row has
// some of it.
type resource struct {
	name string
	// index is that of a fixed resource.
	index int
	// allocatable, and the sum of the pods' real requests.
	allocatable, requested amounts
	// rows is how many rows have some of a scalar, allocatable or requested.
	rows int
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

// resourceRef names a resource in a class, which belongs to no table.
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

// resource finds a resource; nil where no row of the table has any of it.
func (t *Table) resource(ref resourceRef) *resource {
	if ref.fixed >= 0 {
		return t.fixed[ref.fixed]
	}
	return t.scalars[ref.name]
}

// resources yields all of them, the scalars in no order.
func (t *Table) resources(yield func(*resource) bool) {
	for _, r := range t.fixed {
		if !yield(r) {
			return
		}
	}
	for _, r := range t.scalars {
		if !yield(r) {
			return
		}
	}
}

// The columns of a resource.
func allocatableOf(r *resource) *amounts { return &r.allocatable }
func requestedOf(r *resource) *amounts   { return &r.requested }

// setScalar stores a row's number in a column of a scalar. The first row that has some of it brings the scalar, and the
// last one takes it along: pods name resources as they like, and they and their names go. The row's list is to follow
// (relist), once for all scalars of a pod, which may ask for tens of thousands.
func (t *Table) setScalar(row uint32, name string, column func(*resource) *amounts, v int64, x *relisting) {
	r := t.scalars[name]
	if r == nil {
		if v == 0 {
			return
		}
		r = &resource{name: name}
		t.scalars[name] = r
		t.textBytes += int64(len(name))
	}
	had := r.isOn(row)
	column(r).set(row, v, t.capacity)
	switch has := r.isOn(row); {
	case has == had:
		return
	case has:
		x.came = append(x.came, r)
		r.rows++
		return
	}
	x.gone = true
	if r.rows--; r.rows == 0 {
		delete(t.scalars, name)
		t.textBytes -= int64(len(name))
	}
}

// relisting is what a row's list of scalars lacks, and whether it has some that the row has not.
type relisting struct {
	came []*resource
	gone bool
}

// relist has a row's list of scalars follow.
func (t *Table) relist(row uint32, x *relisting) {
	list := t.scalarsOf[row]
	if x.gone {
		list = slices.DeleteFunc(list, func(r *resource) bool { return !r.isOn(row) })
	}
	if len(x.came) > 0 {
		list = append(list, x.came...)
		slices.SortFunc(list, func(a, b *resource) int { return strings.Compare(a.name, b.name) })
	}
	if len(list) == 0 {
		list = nil
	}
	t.scalarsOf[row] = list
}

// isOn tells whether a row has some of the resource.
func (r *resource) isOn(row uint32) bool {
	return r.allocatable.at(row) != 0 || r.requested.at(row) != 0
}

// setScalars replaces the row's numbers in a column of all scalars, by a list sorted by name. It looks at the row's own
// alone.
func (t *Table) setScalars(row uint32, column func(*resource) *amounts, list []*pb.ScalarResource) {
	var x relisting
	for _, r := range t.scalarsOf[row] {
		if _, stays := slices.BinarySearchFunc(list, r.name, compareScalar); !stays {
			t.setScalar(row, r.name, column, 0, &x)
		}
	}
	for _, s := range list {
		t.setScalar(row, s.GetName(), column, s.GetQuantity(), &x)
	}
	t.relist(row, &x)
}

func compareScalar(s *pb.ScalarResource, name string) int { return strings.Compare(s.GetName(), name) }

// scalarAmount is an amount of a scalar. It is known by its name, as a table forgets scalars.
type scalarAmount struct {
	name     string
	quantity int64
}

func compareAmount(s scalarAmount, name string) int { return strings.Compare(s.name, name) }

// amountOf is how much a list that is sorted by name has of a scalar.
func amountOf(list []scalarAmount, name string) int64 {
	if at, found := slices.BinarySearchFunc(list, name, compareAmount); found {
		return list[at].quantity
	}
	return 0
}

// addAmount has a list that is sorted by name have more of a scalar.
func addAmount(list []scalarAmount, name string, more int64) []scalarAmount {
	at, found := slices.BinarySearchFunc(list, name, compareAmount)
	if !found {
		return slices.Insert(list, at, scalarAmount{name, more})
	}
	list[at].quantity += more
	return list
}
