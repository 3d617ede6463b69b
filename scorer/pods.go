package scorer

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// placedPod is one pod of a row, as preemption looks at it: 32 bytes. What pods have in
// common is interned.
type placedPod struct {
	number uint64
	// start is in microseconds since 1970; 0: not started.
	start    int64
	priority int32
	// usage, counts and budgets are numbers in podSet's dictionaries.
	usage, counts, budgets uint32
}

// podUse is what a pod takes of its row, but for counters.
type podUse struct {
	fixed   [fixedResources]int64
	nonZero [2]int64
	scalars []scalarAmount // sorted by name
	ports   []portUse
}

// podCounts is how counters change where a pod leaves.
type podCounts struct {
	// counts are those of its usage, leaving fall beside them; sorted by counter.
	counts, leaving []counterChange
	shared          []sharedCount // sorted
}

// sharedCount is something of which a counter counts one, however many pods have it.
type sharedCount struct {
	counter uint32
	token   uint64
}

// podSet is the pods of a table's rows.
type podSet struct {
	// ofRow are each row's pods, the most important first: as by comparePods with those that
	// have not started behind the others of their priority.
	ofRow   [][]placedPod
	usages  interned[podUse]
	counts  interned[podCounts]
	budgets interned[[]uint32]
	// slots is how many pods there is room for in ofRow.
	slots   int
	encoded []byte // scratch
}

func newPodSet() podSet {
	return podSet{usages: newInterned[podUse](), counts: newInterned[podCounts](), budgets: newInterned[[]uint32]()}
}

// comparePods orders pods by importance: the higher priority, then the earlier start, then
// the smaller number. unstarted is when those started that have not.
func comparePods(a, b *placedPod, unstarted int64) int {
	if a.priority != b.priority {
		return cmp.Compare(b.priority, a.priority)
	}
	if x, y := a.startOr(unstarted), b.startOr(unstarted); x != y {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(a.number, b.number)
}

// startOr is when the pod started; unstarted where it has not.
func (p *placedPod) startOr(unstarted int64) int64 {
	if p.start == 0 {
		return unstarted
	}
	return p.start
}

// find is the index of a pod in its row, -1 where it is not there.
func (s *podSet) find(row uint32, number uint64) int {
	list := s.ofRow[row]
	for i := range list {
		if list[i].number == number {
			return i
		}
	}
	return -1
}

// HasPod tells whether a row has the pod with that number.
func (t *Table) HasPod(row uint32, number uint64) bool {
	return t.HasNode(row) && t.placed.find(row, number) >= 0
}

// insert puts a pod in its place.
func (s *podSet) insert(row uint32, p placedPod) {
	list := s.ofRow[row]
	at, _ := slices.BinarySearchFunc(list, p, func(a, b placedPod) int { return comparePods(&a, &b, math.MaxInt64) })
	if len(list) == cap(list) {
		// Rows hold dozens of pods: an eighth more keeps the slack small.
		grown := make([]placedPod, len(list), len(list)+len(list)/8+4)
		copy(grown, list)
		s.slots += cap(grown) - cap(list)
		list = grown
	}
	s.ofRow[row] = slices.Insert(list, at, p)
}

// addPlaced takes in a pod that the row does not have.
func (t *Table) addPlaced(row uint32, p *pb.PlacedPod, u *pb.PodUsage) {
	if p.GetNumber() == 0 {
		return
	}
	s := &t.placed
	x := placedPod{number: p.GetNumber(), usage: s.acquireUsage(u), counts: s.acquireCounts(u.GetCounters(), p)}
	s.describe(&x, p)
	s.insert(row, x)
}

// describe writes what is the pod's alone.
func (s *podSet) describe(x *placedPod, p *pb.PlacedPod) {
	x.start, x.priority = p.GetStartMicros(), p.GetPriority()
	s.encoded = s.encoded[:0]
	for _, id := range p.GetBudgets() {
		s.encoded = binary.AppendUvarint(s.encoded, uint64(id))
	}
	was := x.budgets
	x.budgets = s.budgets.acquire(s.encoded, func() []uint32 { return slices.Clone(p.GetBudgets()) })
	s.budgets.release(was)
}

// removePlaced drops a pod that the row has.
func (t *Table) removePlaced(row uint32, number uint64) {
	if number == 0 {
		return
	}
	s := &t.placed
	at := s.find(row, number)
	s.release(&s.ofRow[row][at])
	s.ofRow[row] = slices.Delete(s.ofRow[row], at, at+1)
}

func (s *podSet) release(p *placedPod) {
	s.usages.release(p.usage)
	s.counts.release(p.counts)
	s.budgets.release(p.budgets)
}

// changePlaced replaces what change_pod carries.
func (t *Table) changePlaced(row uint32, p *pb.PlacedPod) {
	s := &t.placed
	at := s.find(row, p.GetNumber())
	x := s.ofRow[row][at]
	s.describe(&x, p)
	was := x.counts
	x.counts = s.internCounts(podCounts{s.counts.contents[was].counts, changesOf(p.GetLeaving()), sharedOf(p.GetShared())})
	s.counts.release(was)
	s.ofRow[row] = slices.Delete(s.ofRow[row], at, at+1)
	s.insert(row, x)
}

// clear drops all pods of a row.
func (s *podSet) clear(row uint32) {
	for i := range s.ofRow[row] {
		s.release(&s.ofRow[row][i])
	}
	s.slots -= cap(s.ofRow[row])
	s.ofRow[row] = nil
}

// acquireUsage interns a usage without its counters.
func (s *podSet) acquireUsage(u *pb.PodUsage) uint32 {
	r := u.GetRequests()
	fixed := [...]int64{
		r.GetMilliCpu(), r.GetMemoryBytes(), r.GetEphemeralStorageBytes(), u.GetNonZeroMilliCpu(), u.GetNonZeroMemoryBytes(),
	}
	s.encoded = s.encoded[:0]
	if fixed == [5]int64{} && len(r.GetScalars())+len(u.GetHostPorts()) == 0 {
		return 0
	}
	for _, v := range fixed {
		s.encoded = binary.AppendUvarint(s.encoded, uint64(v))
	}
	for _, x := range r.GetScalars() {
		if x.GetQuantity() != 0 {
			s.encoded = appendText(s.encoded, x.GetName())
			s.encoded = binary.AppendUvarint(s.encoded, uint64(x.GetQuantity()))
		}
	}
	s.encoded = append(s.encoded, 0) // no scalar has an empty name
	for _, p := range u.GetHostPorts() {
		h := newHostPort(p)
		s.encoded = appendText(s.encoded, h.ip)
		s.encoded = append(s.encoded, h.protocol, byte(h.port), byte(h.port>>8))
	}
	return s.usages.acquire(s.encoded, func() podUse { return newPodUse(u) })
}

func newPodUse(u *pb.PodUsage) podUse {
	r := u.GetRequests()
	out := podUse{
		fixed:   [fixedResources]int64{cpu: r.GetMilliCpu(), memory: r.GetMemoryBytes(), ephemeralStorage: r.GetEphemeralStorageBytes()},
		nonZero: [2]int64{cpu: u.GetNonZeroMilliCpu(), memory: u.GetNonZeroMemoryBytes()},
	}
	for _, x := range r.GetScalars() {
		if x.GetQuantity() != 0 {
			out.scalars = append(out.scalars, scalarAmount{x.GetName(), x.GetQuantity()})
		}
	}
	out.ports = sortedPorts(u.GetHostPorts(), nil)
	return out
}

// acquireCounts interns how counters change where a pod leaves.
func (s *podSet) acquireCounts(counters []*pb.CounterValue, p *pb.PlacedPod) uint32 {
	if len(counters)+len(p.GetLeaving())+len(p.GetShared()) == 0 {
		return 0
	}
	s.encoded = appendCounters(appendCounters(s.encoded[:0], counters), p.GetLeaving())
	for _, x := range p.GetShared() {
		s.encoded = binary.AppendUvarint(binary.AppendUvarint(s.encoded, uint64(x.GetCounter())), x.GetToken())
	}
	return s.counts.acquire(s.encoded, func() podCounts {
		return podCounts{changesOf(counters), changesOf(p.GetLeaving()), sharedOf(p.GetShared())}
	})
}

// appendCounters is a part of encodeCounts.
func appendCounters(into []byte, list []*pb.CounterValue) []byte {
	into = binary.AppendUvarint(into, uint64(len(list)))
	for _, v := range list {
		into = binary.AppendVarint(binary.AppendUvarint(into, uint64(v.GetCounter())), v.GetValue())
	}
	return into
}

func (s *podSet) internCounts(x podCounts) uint32 {
	s.encoded = encodeCounts(s.encoded[:0], &x)
	return s.counts.acquire(s.encoded, func() podCounts { return x })
}

// encodeCounts writes counts unmistakably; nothing for none.
func encodeCounts(into []byte, x *podCounts) []byte {
	if len(x.counts)+len(x.leaving)+len(x.shared) == 0 {
		return into
	}
	for _, list := range [...][]counterChange{x.counts, x.leaving} {
		into = binary.AppendUvarint(into, uint64(len(list)))
		for _, c := range list {
			into = binary.AppendVarint(binary.AppendUvarint(into, uint64(c.id)), c.change)
		}
	}
	for _, c := range x.shared {
		into = binary.AppendUvarint(binary.AppendUvarint(into, uint64(c.counter)), c.token)
	}
	return into
}

func changesOf(list []*pb.CounterValue) []counterChange {
	if len(list) == 0 {
		return nil
	}
	out := make([]counterChange, len(list))
	for i, v := range list {
		out[i] = counterChange{v.GetCounter(), v.GetValue()}
	}
	return out
}

func sharedOf(list []*pb.SharedCount) []sharedCount {
	if len(list) == 0 {
		return nil
	}
	out := make([]sharedCount, len(list))
	for i, v := range list {
		out[i] = sharedCount{v.GetCounter(), v.GetToken()}
	}
	return out
}

// checkPlaced refuses a pod whose number the row has already, or lacks.
func (t *Table) checkPlaced(row uint32, p *pb.PlacedPod, there bool) error {
	if p.GetNumber() == 0 || (t.placed.find(row, p.GetNumber()) >= 0) == there {
		return nil
	}
	if there {
		return fmt.Errorf("pod %d is not there", p.GetNumber())
	}
	return fmt.Errorf("pod %d is there already", p.GetNumber())
}

// checkPodColumn refuses a counter of pods that are not there.
func (t *Table) checkPodColumn(c *pb.CounterColumn) error {
	for i, row := range c.GetPodRows() {
		if !t.HasNode(row) || t.placed.find(row, c.GetPodNumbers()[i]) < 0 {
			return fmt.Errorf("counter %d: row %d has no pod %d", c.GetCounter(), row, c.GetPodNumbers()[i])
		}
	}
	return nil
}

// podWriter makes messages of pods; equal usages are one message.
type podWriter struct {
	table  *Table
	usages map[[2]uint32]*pb.PodUsage
}

// pods are a row's pods.
func (w *podWriter) pods(row uint32) []*pb.PlacedPod {
	s := &w.table.placed
	var out []*pb.PlacedPod
	for i := range s.ofRow[row] {
		p := &s.ofRow[row][i]
		counts := &s.counts.contents[p.counts]
		x := &pb.PlacedPod{
			Number: p.number, Priority: p.priority, StartMicros: p.start,
			Budgets: slices.Clone(s.budgets.contents[p.budgets]), Usage: w.usage(p),
			Leaving: counterValues(counts.leaving),
		}
		for _, c := range counts.shared {
			x.Shared = append(x.Shared, &pb.SharedCount{Counter: c.counter, Token: c.token})
		}
		out = append(out, x)
	}
	return out
}

func (w *podWriter) usage(p *placedPod) *pb.PodUsage {
	key := [2]uint32{p.usage, p.counts}
	if u := w.usages[key]; u != nil {
		return u
	}
	s := &w.table.placed
	x := &s.usages.contents[p.usage]
	u := &pb.PodUsage{
		NonZeroMilliCpu: x.nonZero[cpu], NonZeroMemoryBytes: x.nonZero[memory],
		Requests: &pb.Resources{
			MilliCpu: x.fixed[cpu], MemoryBytes: x.fixed[memory], EphemeralStorageBytes: x.fixed[ephemeralStorage],
		},
		Counters: counterValues(s.counts.contents[p.counts].counts),
	}
	for _, r := range x.scalars {
		u.Requests.Scalars = append(u.Requests.Scalars, &pb.ScalarResource{Name: r.name, Quantity: r.quantity})
	}
	for _, h := range x.ports {
		for range h.pods {
			u.HostPorts = append(u.HostPorts, &pb.HostPort{Ip: h.ip, Protocol: pb.Protocol(h.protocol), Port: uint32(h.port)})
		}
	}
	if w.usages == nil {
		w.usages = map[[2]uint32]*pb.PodUsage{}
	}
	w.usages[key] = u
	return u
}

func counterValues(list []counterChange) []*pb.CounterValue {
	var out []*pb.CounterValue
	for _, c := range list {
		out = append(out, &pb.CounterValue{Counter: c.id, Value: c.change})
	}
	return out
}

// memory estimates what the pods take.
func (s *podSet) memory() int64 {
	const podBytes, useBytes, countsBytes = 32, 5*8 + 2*24, 3 * 24
	return int64(s.slots)*podBytes + 24*int64(cap(s.ofRow)) +
		s.usages.memory() + useBytes*int64(len(s.usages.contents)) +
		s.counts.memory() + countsBytes*int64(len(s.counts.contents)) + s.budgets.memory()
}
