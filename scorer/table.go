package scorer

import (
	"fmt"
	"iter"
	"slices"

	"github.com/cespare/xxhash/v2"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Table is one shard as columns. One goroutine may write; others may read only while
// nobody writes.
type Table struct {
	shard      uint32
	generation uint64
	// capacity is the length of every column: a whole number of words.
	capacity int
	nodes    int

	live, unschedulable bitmap
	names               []string
	hashes              []uint64
	byName              map[string]uint32
	textBytes           int64 // of the names

	fixed   [fixedResources]*resource
	scalars map[string]*resource
	// scalarsOf are those that each row has some of, by name.
	scalarsOf [][]*resource
	// nonZero is what upstream's NonZeroRequested counts of cpu and memory.
	nonZero           [2]amounts
	pods, allowedPods []int64
	lastDecision      []uint64

	labels labelIndex
	// annotations are those that expressions name.
	annotations labelIndex

	taints taintSets
	images imageIndex
	traits traitSets
	// ports are the host ports taken on each row, sorted by comparePorts.
	ports    [][]portUse
	counters counterSet
	placed   podSet
	derived  derived
	// devices are nil until the table is told of any.
	devices *deviceColumns
	// changed is the generation of the last change of each row.
	changed []uint64
	// columns is the generation of the last change of all rows: of a counter's column, or of shared devices.
	columns uint64
	// loaded is the generation of the snapshot that the table was made from.
	loaded uint64
}

// NewTable makes an empty table at generation 0.
func NewTable(shard uint32) *Table {
	t := &Table{
		shard:       shard,
		byName:      map[string]uint32{},
		scalars:     map[string]*resource{},
		labels:      newLabelIndex(),
		annotations: newLabelIndex(),
		taints:      newTaintSets(),
		images:      newImageIndex(),
		traits:      newTraitSets(),
		counters:    newCounterSet(),
		placed:      newPodSet(),
	}
	for i, name := range fixedNames() {
		r := &resource{name: name, index: i}
		r.allocatable.dense, r.requested.dense = []int64{}, []int64{}
		t.fixed[i] = r
	}
	for i := range t.nonZero {
		t.nonZero[i].dense = []int64{}
	}
	return t
}

// ChangedSince appends the rows to into that have changed after a generation, those that hold no
// node any more included, as far as they are at most limit. ok is false where there are more, where
// all rows have changed since, and where the table knows of no change that far back.
func (t *Table) ChangedSince(generation uint64, limit int, into []uint32) (rows []uint32, ok bool) {
	if generation == t.generation {
		return into, true
	}
	if generation > t.generation || generation < t.loaded || t.columns > generation {
		return into, false
	}
	for row, at := range t.changed {
		if at <= generation {
			continue
		}
		if limit--; limit < 0 {
			return into, false
		}
		into = append(into, uint32(row))
	}
	return into, true
}

// Generation is the number of the last delta applied.
func (t *Table) Generation() uint64 { return t.generation }

// Shard is the number that the table's candidates carry.
func (t *Table) Shard() uint32 { return t.shard }

// Nodes is the number of rows that hold a node.
func (t *Table) Nodes() int { return t.nodes }

// Rows is the highest row that holds a node, plus one.
func (t *Table) Rows() int { return t.live.highest() }

// HasNode tells whether a row holds a node.
func (t *Table) HasNode(row uint32) bool { return t.live.has(row) }

// Name is the name of a row's node, "" where there is none.
func (t *Table) Name(row uint32) string {
	if !t.HasNode(row) {
		return ""
	}
	return t.names[row]
}

// Candidate is a row that holds a node, as a candidate with a score.
func (t *Table) Candidate(row uint32, score int64) Candidate {
	return Candidate{
		Shard: t.shard, Row: row, Score: score,
		LastDecision: t.lastDecision[row], NameHash: t.hashes[row], Name: t.names[row],
	}
}

// All yields the rows that hold a node, in order.
func (t *Table) All() iter.Seq[uint32] { return t.live.all }

// grow makes room for that many rows.
func (t *Table) grow(rows int) {
	if rows <= t.capacity {
		return
	}
	// A quarter more than was there keeps the cost of growing by single rows linear.
	rows = max(rows, t.capacity+t.capacity/4)
	t.capacity = words(rows) * wordRows
	t.live = lengthened(t.live, words(rows))
	t.unschedulable = lengthened(t.unschedulable, words(rows))
	t.names = lengthened(t.names, t.capacity)
	t.hashes = lengthened(t.hashes, t.capacity)
	for r := range t.resources {
		r.allocatable.grow(t.capacity)
		r.requested.grow(t.capacity)
	}
	for i := range t.nonZero {
		t.nonZero[i].grow(t.capacity)
	}
	t.scalarsOf = lengthened(t.scalarsOf, t.capacity)
	t.pods = lengthened(t.pods, t.capacity)
	t.allowedPods = lengthened(t.allowedPods, t.capacity)
	t.lastDecision = lengthened(t.lastDecision, t.capacity)
	t.labels.grow(t.capacity)
	t.annotations.grow(t.capacity)
	t.taints.grow(t.capacity)
	t.images.ofRow = lengthened(t.images.ofRow, t.capacity)
	t.traits.ofRow = lengthened(t.traits.ofRow, t.capacity)
	t.ports = lengthened(t.ports, t.capacity)
	t.counters.grow(t.capacity)
	t.placed.ofRow = lengthened(t.placed.ofRow, t.capacity)
	t.changed = lengthened(t.changed, t.capacity)
	t.derived.grow(t.capacity)
	if t.devices != nil {
		t.devices.states.grow(t.capacity)
	}
}

// setNode writes a node's own columns; what pods add up to stays.
func (t *Table) setNode(row uint32, n *pb.Node) {
	t.grow(int(row) + 1)
	if !t.live.has(row) {
		t.live.add(row)
		t.nodes++
	}
	t.rename(row, n.GetName())
	t.unschedulable.put(row, n.GetUnschedulable())
	t.allowedPods[row] = n.GetAllowedPods()
	t.setAllocatable(row, n.GetAllocatable())
	t.labels.set(row, n.GetLabels(), t.capacity)
	t.annotations.set(row, n.GetAnnotations(), t.capacity)
	t.taints.set(row, n.GetTaints())
	t.images.set(row, n.GetImages(), t.capacity)
	t.traits.set(row, n)
	t.restate(row)
}

func (t *Table) rename(row uint32, name string) {
	if t.names[row] == name {
		return
	}
	t.textBytes += int64(len(name)) - int64(len(t.names[row]))
	delete(t.byName, t.names[row])
	t.names[row], t.hashes[row] = name, 0
	if name != "" {
		t.hashes[row] = xxhash.Sum64String(name)
		t.byName[name] = row
	}
}

func (t *Table) setAllocatable(row uint32, r *pb.Resources) {
	t.fixed[cpu].allocatable.set(row, r.GetMilliCpu(), t.capacity)
	t.fixed[memory].allocatable.set(row, r.GetMemoryBytes(), t.capacity)
	t.fixed[ephemeralStorage].allocatable.set(row, r.GetEphemeralStorageBytes(), t.capacity)
	t.setScalars(row, allocatableOf, r.GetScalars())
}

// removeNode empties a row that holds a node.
func (t *Table) removeNode(row uint32) {
	t.setNode(row, nil)
	t.setTotals(row, nil)
	t.counters.clear(row, t.capacity)
	t.placed.clear(row)
	t.clearDevices(row)
	t.live.remove(row)
	t.nodes--
}

// setTotals replaces what the pods of a row add up to.
func (t *Table) setTotals(row uint32, s *pb.NodeTotals) {
	t.pods[row] = s.GetPods()
	t.nonZero[cpu].dense[row] = s.GetNonZeroMilliCpu()
	t.nonZero[memory].dense[row] = s.GetNonZeroMemoryBytes()
	t.lastDecision[row] = s.GetLastDecision()
	used := s.GetRequested()
	t.fixed[cpu].requested.set(row, used.GetMilliCpu(), t.capacity)
	t.fixed[memory].requested.set(row, used.GetMemoryBytes(), t.capacity)
	t.fixed[ephemeralStorage].requested.set(row, used.GetEphemeralStorageBytes(), t.capacity)
	t.setScalars(row, requestedOf, used.GetScalars())
	t.ports[row] = nil
	for _, p := range s.GetPorts() {
		t.ports[row] = append(t.ports[row], portUse{newHostPort(p.GetPort()), p.GetPods()})
	}
	slices.SortFunc(t.ports[row], func(a, b portUse) int { return comparePorts(&a.hostPort, &b.hostPort) })
}

// checkName refuses a name that another row has.
func (t *Table) checkName(row uint32, name string) error {
	if other, ok := t.byName[name]; ok && other != row {
		return fmt.Errorf("node %s is in row %d already", name, other)
	}
	return nil
}
