package units

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"github.com/shardsched/shardsched/scorer"
)

// Unit is what leaves, or stays, as a whole.
type Unit struct {
	// Priority is the pod's, or the PodGroup's.
	Priority int32
	// Violating is set by List.Charge.
	Violating bool

	rank   uint64 // what goes before start: smaller is more important
	start  int64  // when the first of its pods has started
	number uint64 // the smallest of its pods'
	// first and end are its place in List.members.
	first, end int32
}

// List is the units that may have to leave, in no order.
type List struct {
	Units []Unit
	pods  []scorer.Leaver
	// members are indexes of pods, unit by unit.
	members []int32
}

// Belongs is what a pod belongs to.
type Belongs struct {
	// Whole numbers PodGroups with disruptionMode PodGroup, from 1, and Priority is the PodGroup's; 0: the pod leaves by itself.
	Whole    int
	Priority int32
	// Grouped tells that the pod names a PodGroup, of whatever mode.
	Grouped bool
}

// New makes units of pods. nowMicros is when those have started that have not, and of tells what a pod belongs to.
func New(pods []scorer.Leaver, nowMicros int64, of func(p *scorer.Leaver) Belongs) *List {
	l := &List{Units: make([]Unit, 0, len(pods)), members: make([]int32, 0, len(pods)), pods: pods}
	wholes := map[int]*whole{}
	var order []*whole
	for i := range pods {
		p := &pods[i]
		start, b := cmp.Or(p.Start, nowMicros), of(p)
		if b.Whole == 0 {
			l.add(Unit{Priority: p.Priority, start: start, number: p.Number}, b.Grouped, int32(i))
			continue
		}
		w := wholes[b.Whole]
		if w == nil {
			w = &whole{unit: Unit{Priority: b.Priority, start: start, number: p.Number}}
			wholes[b.Whole], order = w, append(order, w)
		}
		w.unit.start, w.unit.number = min(w.unit.start, start), min(w.unit.number, p.Number)
		w.pods = append(w.pods, int32(i))
	}
	for _, w := range order {
		l.add(w.unit, true, w.pods...)
	}
	return l
}

// whole is the unit of a PodGroup.
type whole struct {
	unit Unit
	pods []int32
}

func (l *List) add(u Unit, grouped bool, pods ...int32) {
	u.first = int32(len(l.members))
	l.members = append(l.members, pods...)
	u.end = int32(len(l.members))
	u.rank = uint64(int64(math.MaxInt32)-int64(u.Priority)) << 32
	if grouped {
		u.rank |= uint64(math.MaxInt32 - (u.end - u.first))
	} else {
		u.rank |= 1 << 31
	}
	l.Units = append(l.Units, u)
}

// compare orders units by importance: the higher priority, then those that name a PodGroup, of these the larger, then the earlier
// start, then the smaller number.
//
// Differs from upstream: a PodGroup has started when the first of its pods has, there when the pod has that comes first in a map;
// and equal units are in the order of a map.
func compare(a, b *Unit) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.start, b.start), cmp.Compare(a.number, b.number))
}

// Pods are the indexes of a unit's pods, as New has got them.
func (l *List) Pods(u *Unit) []int32 { return l.members[u.first:u.end] }

// Charge finds the violating units. allowed is how many pods each budget lets go, and sets are indexes into it, by
// scorer.Leaver.Budgets. Each budget is charged by itself: with all units whose pods it counts, the most important first.
//
// Differs from upstream: there a unit is charged no further once a budget has nothing left for one of its pods, so that it goes by the
// order of two maps which budgets are charged.
func (l *List) Charge(sets [][]int32, allowed []scorer.Budget) {
	counted := make([][]charge, len(allowed))
	for i := range l.Units {
		for _, pod := range l.Pods(&l.Units[i]) {
			for _, b := range sets[l.pods[pod].Budgets] {
				if n := len(counted[b]) - 1; n >= 0 && counted[b][n].unit == int32(i) {
					counted[b][n].pods++
				} else {
					counted[b] = append(counted[b], charge{int32(i), 1})
				}
			}
		}
	}
	for b, list := range counted {
		slices.SortFunc(list, func(x, y charge) int { return compare(&l.Units[x.unit], &l.Units[y.unit]) })
		left := int64(allowed[b].Allowed)
		for _, x := range list {
			if left -= int64(x.pods); left < 0 {
				l.Units[x.unit].Violating = true
			}
		}
	}
}

// charge is how many pods of a unit a budget counts.
type charge struct{ unit, pods int32 }

// Victims are the units that have to leave so that rows take need copies of members that are alike, the most important first. x has
// the pods as New has got them, all of them there; with all of them gone it takes as many.
//
// Not all units have to leave and come back one by one. Those that come back last are the first to leave, until there is room: all
// others would come back, for there is room without them. So the work is in proportion to the units that leave.
func (l *List) Victims(x *scorer.Leavers, need int64) []*Unit {
	order := leaving{list: l, heap: make([]int32, len(l.Units))}
	for i := range order.heap {
		order.heap[i] = int32(i)
	}
	heap.Init(&order)
	var left []*Unit
	for x.Copies < need && order.Len() > 0 {
		u := &l.Units[heap.Pop(&order).(int32)]
		x.Leave(l.Pods(u))
		left = append(left, u)
	}
	slices.Reverse(left)
	return l.Reprieve(left, func(u *Unit) bool {
		if x.Back(l.Pods(u)); x.Copies >= need {
			return true
		}
		x.Leave(l.Pods(u))
		return false
	})
}

// Reprieve lets units come back that have left, in the order that is given, and returns the others, the most important first. back
// has a unit come back if the gang still fits then, and tells whether it has.
func (l *List) Reprieve(left []*Unit, back func(*Unit) bool) []*Unit {
	victims := slices.DeleteFunc(left, back)
	slices.SortFunc(victims, compare)
	return victims
}

// Before tells whether a unit comes back before another: those that are violating do, then the more important.
func Before(a, b *Unit) bool {
	if a.Violating != b.Violating {
		return a.Violating
	}
	return compare(a, b) < 0
}

// leaving is a heap of units, the last to come back first.
type leaving struct {
	list *List
	heap []int32
}

func (h *leaving) Len() int { return len(h.heap) }
func (h *leaving) Less(i, j int) bool {
	return Before(&h.list.Units[h.heap[j]], &h.list.Units[h.heap[i]])
}
func (h *leaving) Swap(i, j int) { h.heap[i], h.heap[j] = h.heap[j], h.heap[i] }
func (h *leaving) Push(any)      {}
func (h *leaving) Pop() any {
	n := len(h.heap) - 1
	last := h.heap[n]
	h.heap = h.heap[:n]
	return last
}
