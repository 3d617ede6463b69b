package units

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

const now = 1000

// pod is a pod of a cluster, as the naive rule sees it.
type pod struct {
	number   uint64
	node     int
	milliCPU int64
	memory   int64
	priority int32
	start    int64 // 0: not started
	budgets  []uint32
	whole    int // the PodGroup with disruptionMode PodGroup, from 1; 0: none
	grouped  bool
}

// world is a small cluster, and a gang of like members.
type world struct {
	nodes    [][3]int64 // cpu, memory and places for pods
	tainted  []bool
	pods     []pod
	wholes   []int32 // priorities
	allowed  []scorer.Budget
	priority int32
	milliCPU int64
	memory   int64
	members  int
	need     int
}

func draw(t *rapid.T) *world {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	n := func(below int) int64 { return int64(r.IntN(below)) }
	w := &world{priority: int32(n(4)), milliCPU: 1 + n(4), memory: n(3), members: 1 + int(n(6))}
	w.need = 1 + int(n(w.members))
	for range n(3) {
		w.wholes = append(w.wholes, int32(n(4)))
	}
	for id := range n(4) {
		w.allowed = append(w.allowed, scorer.Budget{ID: uint32(id + 1), Allowed: int32(n(3))})
	}
	for range 1 + n(4) {
		w.nodes = append(w.nodes, [3]int64{4 + n(8), 2 + n(6), 1 + n(8)})
		w.tainted = append(w.tainted, n(5) == 0)
	}
	for i := range n(16) {
		p := pod{number: uint64(i + 1), node: int(n(len(w.nodes))), milliCPU: n(4), memory: n(3), priority: int32(n(4)), start: n(4) * 400}
		for _, b := range w.allowed {
			if n(3) == 0 {
				p.budgets = append(p.budgets, b.ID)
			}
		}
		if p.grouped = n(3) == 0; p.grouped && len(w.wholes) > 0 && n(2) == 0 {
			p.whole = 1 + int(n(len(w.wholes)))
		}
		w.pods = append(w.pods, p)
	}
	return w
}

// naiveUnit is a unit of the naive rule.
type naiveUnit struct {
	pods      []pod
	priority  int32
	grouped   bool
	start     int64
	violating bool
}

// fits places the gang, member by member, on the first node that has room, and tells whether need have found one.
func (w *world) fits(pods []pod) bool {
	left := slices.Clone(w.nodes)
	for _, p := range pods {
		left[p.node][0] -= p.milliCPU
		left[p.node][1] -= p.memory
		left[p.node][2]--
	}
	placed := 0
	for range w.members {
		for i := range left {
			if x := &left[i]; !w.tainted[i] && x[0] >= w.milliCPU && (w.memory == 0 || x[1] >= w.memory) && x[2] >= 1 {
				x[0], x[1], x[2] = x[0]-w.milliCPU, x[1]-w.memory, x[2]-1
				placed++
				break
			}
		}
	}
	return placed >= w.need
}

// naive is the rule as it is written: the gang is placed once for each unit. It returns the numbers of the victims; none where the
// gang does not fit on the emptied cluster.
func (w *world) naive() (victims []uint64, fits bool) {
	var stay []pod
	var list []*naiveUnit
	wholes := map[int]*naiveUnit{}
	for _, p := range w.pods {
		u := &naiveUnit{priority: p.priority, grouped: p.grouped, start: cmp.Or(p.start, now)}
		if p.whole > 0 {
			u.priority = w.wholes[p.whole-1]
		}
		if u.priority >= w.priority {
			stay = append(stay, p)
			continue
		}
		if known := wholes[p.whole]; p.whole > 0 && known != nil {
			known.pods, known.start = append(known.pods, p), min(known.start, u.start)
			continue
		}
		u.pods = []pod{p}
		if list = append(list, u); p.whole > 0 {
			wholes[p.whole] = u
		}
	}
	if !w.fits(stay) {
		return nil, false
	}
	slices.SortStableFunc(list, func(a, b *naiveUnit) int {
		if c := cmp.Or(-cmp.Compare(a.priority, b.priority), -compareBool(a.grouped, b.grouped)); c != 0 {
			return c
		}
		if a.grouped && len(a.pods) != len(b.pods) {
			return len(b.pods) - len(a.pods)
		}
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.pods[0].number, b.pods[0].number))
	})
	left := map[uint32]int32{}
	for _, b := range w.allowed {
		left[b.ID] = b.Allowed
	}
	for _, u := range list {
		for _, p := range u.pods {
			for _, b := range p.budgets {
				left[b]--
				u.violating = u.violating || left[b] < 0
			}
		}
	}
	for _, violating := range []bool{true, false} {
		for _, u := range list {
			if u.violating != violating {
				continue
			}
			if with := append(slices.Clone(stay), u.pods...); w.fits(with) {
				stay = with
				continue
			}
			for _, p := range u.pods {
				victims = append(victims, p.number)
			}
		}
	}
	slices.Sort(victims)
	return victims, true
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// tables are the cluster's, of which each node is in one of two.
func (w *world) tables(t *rapid.T) []*scorer.Table {
	tables := []*scorer.Table{scorer.NewTable(0), scorer.NewTable(1)}
	apply := func(node int, d *pb.Delta) {
		d.Row = uint32(node / 2)
		if err := tables[node%2].Apply(d); err != nil {
			t.Fatal(err)
		}
	}
	for i, n := range w.nodes {
		node := &pb.Node{Name: fmt.Sprint("n", i), AllowedPods: n[2], Allocatable: &pb.Resources{MilliCpu: n[0], MemoryBytes: n[1]}}
		if w.tainted[i] {
			node.Taints = []*pb.Taint{{Key: "k", Effect: pb.TaintEffect_TAINT_EFFECT_NO_SCHEDULE}}
		}
		apply(i, &pb.Delta{Change: &pb.Delta_SetNode{SetNode: node}})
	}
	for _, p := range w.pods {
		use := &pb.PodUsage{Requests: &pb.Resources{MilliCpu: p.milliCPU, MemoryBytes: p.memory}}
		placed := &pb.PlacedPod{Number: p.number, Priority: p.priority, StartMicros: p.start, Budgets: p.budgets}
		apply(p.node, &pb.Delta{Change: &pb.Delta_AddPod{AddPod: use}, Pod: placed})
	}
	return tables
}

// query is the gang's members.
func (w *world) query() *pb.Query {
	return &pb.Query{
		ClassId: 1, Filters: []pb.Plugin{pb.Plugin_PLUGIN_TAINT_TOLERATION, pb.Plugin_PLUGIN_NODE_RESOURCES_FIT},
		Fit: &pb.FitQuery{Requests: &pb.Resources{MilliCpu: w.milliCPU, MemoryBytes: w.memory}},
	}
}

// decide is what the package makes of it.
func (w *world) decide(t *rapid.T) (victims []uint64, fits bool) {
	class, err := scorer.NewClass(w.query())
	if err != nil {
		t.Fatal(err)
	}
	if !class.ByRequests() {
		t.Fatal("got a class that is not by requests")
	}
	of := map[uint64]Belongs{}
	ask := scorer.Leaving{
		Preemption: scorer.Preemption{Priority: w.priority, Budgets: w.allowed}, List: true, Units: map[uint64]int32{},
	}
	for _, p := range w.pods {
		of[p.number] = Belongs{Grouped: p.grouped}
		if p.whole > 0 {
			of[p.number] = Belongs{Whole: p.whole, Priority: w.wholes[p.whole-1], Grouped: true}
			ask.Units[p.number] = w.wholes[p.whole-1]
		}
	}
	x := scorer.NewEvaluator(nil).Leavers(w.tables(t), []*scorer.Class{class}, &ask)
	if x.AtMost < int64(w.need) {
		return nil, false
	}
	l := New(x.Pods, now, func(p *scorer.Leaver) Belongs { return of[p.Number] })
	l.Charge(x.BudgetSets, w.allowed)
	for _, u := range l.Victims(x, int64(w.need)) {
		for _, i := range l.Pods(u) {
			victims = append(victims, x.Pods[i].Number)
		}
	}
	slices.Sort(victims)
	return victims, true
}

// A gang of like members evicts whom the rule says, that places it anew for each unit.
func TestVictimsAreThoseOfTheNaiveRule(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		want, fits := w.naive()
		got, would := w.decide(t)
		if fits != would || !slices.Equal(got, want) {
			t.Fatalf("got victims %v, fits %v, want %v, %v; cluster %+v", got, would, want, fits, w)
		}
		switch {
		case !fits:
			seen["does not fit"]++
		case len(want) == 0:
			seen["nobody leaves"]++
		default:
			seen["victims"]++
		}
	})
	for _, kind := range []string{"does not fit", "nobody leaves", "victims"} {
		if seen[kind] == 0 {
			t.Errorf("got no cluster of the kind %q", kind)
		}
	}
}

// The order among units of one priority.
func TestUnitsAreOrderedByImportance(t *testing.T) {
	pods := []scorer.Leaver{
		{Number: 1, Priority: 5, Start: 10}, {Number: 2, Priority: 7}, {Number: 3, Priority: 5, Start: 5}, {Number: 4, Priority: 5, Start: 5},
		{Number: 5, Priority: 9, Start: 700}, {Number: 6, Priority: 1, Start: 300}, {Number: 7, Priority: 5, Start: 900}, {Number: 8, Priority: -1 << 31},
	}
	l := New(pods, now, func(p *scorer.Leaver) Belongs {
		switch p.Number {
		case 5, 6:
			return Belongs{Whole: 1, Priority: 5, Grouped: true}
		case 7:
			return Belongs{Grouped: true}
		}
		return Belongs{}
	})
	var got [][]uint64
	slices.SortFunc(l.Units, func(a, b Unit) int { return compare(&a, &b) })
	for i := range l.Units {
		var numbers []uint64
		for _, p := range l.Pods(&l.Units[i]) {
			numbers = append(numbers, pods[p].Number)
		}
		got = append(got, numbers)
	}
	want := [][]uint64{{2}, {5, 6}, {7}, {3}, {4}, {1}, {8}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got units %v, want %v: by priority, pods of PodGroups first, of these the larger, then by start and number", got, want)
	}
}

// Members that are not alike are on rows that take them once the victims have left, and no victim could have stayed beside those that
// come before it.
func TestMembersOfSeveralClassesKeepTheirPlaces(t *testing.T) {
	placed := 0
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		other := &pb.Query{ClassId: 2, Filters: []pb.Plugin{pb.Plugin_PLUGIN_NODE_RESOURCES_FIT},
			Fit: &pb.FitQuery{Requests: &pb.Resources{MilliCpu: w.milliCPU + 1}}}
		var classes []*scorer.Class
		for _, q := range []*pb.Query{w.query(), other} {
			c, err := scorer.NewClass(q)
			if err != nil {
				t.Fatal(err)
			}
			classes = append(classes, c)
		}
		of := make([]int, w.members)
		for i := range of {
			of[i] = i % 2
		}
		ask := scorer.Leaving{Preemption: scorer.Preemption{Priority: w.priority, Budgets: w.allowed}, List: true}
		x := scorer.NewEvaluator(nil).Leavers(w.tables(t), classes, &ask)
		p := x.Place(of)
		l := New(x.Pods, now, func(*scorer.Leaver) Belongs { return Belongs{} })
		l.Charge(x.BudgetSets, w.allowed)
		var left []*Unit
		for i := range l.Units {
			if u := &l.Units[i]; slices.ContainsFunc(l.Pods(u), p.Uses) {
				x.Leave(l.Pods(u))
				left = append(left, u)
			}
		}
		slices.SortFunc(left, func(a, b *Unit) int { return compareBool(Before(a, b), Before(b, a)) * -1 })
		gone := map[uint64]bool{}
		for _, u := range l.Reprieve(left, func(u *Unit) bool { return p.Back(l.Pods(u)) }) {
			for _, i := range l.Pods(u) {
				gone[x.Pods[i].Number] = true
			}
			if p.Back(l.Pods(u)) {
				t.Fatalf("unit %+v has to leave, though the members keep their places beside it", u)
			}
		}
		type use struct{ cpu, memory, pods int64 }
		free := make([]use, len(w.nodes))
		for i, n := range w.nodes {
			free[i] = use{n[0], n[1], n[2]}
		}
		for _, q := range w.pods {
			if !gone[q.number] {
				free[q.node] = use{free[q.node].cpu - q.milliCPU, free[q.node].memory - q.memory, free[q.node].pods - 1}
			}
		}
		for i, at := range p.Rows {
			if at.Index < 0 {
				continue
			}
			placed++
			node, n := int(at.Row)*2+int(at.Shard), use{w.milliCPU + 1, 0, 1}
			if of[i] == 0 {
				n = use{w.milliCPU, w.memory, 1}
			}
			f := &free[node]
			*f = use{f.cpu - n.cpu, f.memory - n.memory, f.pods - n.pods}
			if f.cpu < 0 || n.memory > 0 && f.memory < 0 || f.pods < 0 || of[i] == 0 && w.tainted[node] {
				t.Fatalf("member %d does not fit on node %d: %+v is left; victims %v of %+v", i, node, *f, gone, w)
			}
		}
	})
	if placed == 0 {
		t.Error("no member was placed")
	}
}
