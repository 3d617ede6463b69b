package state

import (
	"cmp"
	"math"
	"slices"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/count"
)

// Counters are filled, and dropped, in steps. A step takes some 0.1 to 0.2 µs. Budgets are told to the tables in the same way. What
// becomes of a new counter depends on how many pods may add to it:
//
//	few pods                      filled at once, within fillAtOnce steps a batch
//	few pods, once pods are       postponed, until an index of all pods by that label is built, a part each
//	found by one more label       turn; then filled at once
//	many pods                     postponed: the pods whose class reads it are set aside in the queue
//	    one class at a time ──>   opened, and filled row by row, fillSteps a turn
//	                              ──> the pods of the class are popped and decided
//	no class asks for it          dropped row by row
//
// Only one class at a time has its postponed counters filled, until its pods are decided. Namespaces take turns. Counters that
// no class uses any more stay until all pods add to more than addedPerPod counters on average. Then the counters go that most
// pods add to. So the work for a pod that comes or leaves is bounded on average, however many classes there are.
const (
	// fillSteps is how many steps a turn takes, or fewer where they take long: events and decisions wait for the turn's
	// end. The clock is read every stepsAtOnce steps.
	fillSteps   = 1 << 16
	stepsAtOnce = 1 << 13
	// filledTogether is how many counters one pass over the pods fills: else each would look at every pod.
	filledTogether = 16
	// indexedSteps is how many steps it takes to add a kind of pods to the index by label.
	indexedSteps = 2
	// fillAtOnce is how many steps a batch waits for new counters: about 1.8 ms. To set the first pod of a workload aside until all
	// pods are gone through takes several times that, so it pays up to some thousand pods.
	fillAtOnce = 1 << 13
	// addedPerPod is how many counters a pod may add to, on average: three are usual. addedAtLeast is the bound for all
	// pods together in a small cluster.
	addedPerPod, addedAtLeast = 16, 1 << 16
	// droppedAtOnce is how many counters are dropped together.
	droppedAtOnce = 256
)

// filling is a list of counters that are filled, or dropped, row by row.
type filling struct {
	// class asks for the counters; 0: they are dropped.
	class uint64
	ids   []uint32
	rows  *cache.Filling // how far the first of ids are filled; nil: they are not begun
}

// Bounds say how much work counters are.
type Bounds struct {
	// AtOnce is how many steps a batch waits for new counters, and PerTurn how many a turn takes.
	AtOnce, PerTurn int
	// PerPod is how many counters a pod may add to, on average, and AtLeast how many all pods together may in a small cluster.
	PerPod, AtLeast int
}

// Unbounded has counters filled at once, however many steps that takes, and Bounded a part each turn.
func Unbounded() Bounds {
	return Bounds{AtOnce: math.MaxInt, PerTurn: math.MaxInt, AtLeast: addedAtLeast}
}
func Bounded() Bounds { return Bounds{AtOnce: fillAtOnce, PerTurn: fillSteps, AtLeast: addedAtLeast} }

// Bound sets the bounds.
func (s *State) Bound(b Bounds) { s.counting.Bounds = b }

// counting has the counters that are postponed, filled and dropped.
type counting struct {
	Bounds
	postponed map[uint32]struct{} // not filled yet
	fillings  []*filling          // the first is under way
	// opened is the class whose counters are being filled; 0: none. ready tells that they are filled, and that the pods of
	// the class are to be popped.
	opened uint64
	ready  bool
}

// fillNew fills the new counters that few pods may add to, and postpones the others.
func (s *State) fillNew(list []*count.Counter) error {
	left := s.counting.AtOnce
	var ids, terms []uint32
	var namespaces, departing, carriers []string
	all := false
	for _, c := range list {
		if c.Namespaces() != nil && len(c.Namespaces()) == 0 {
			continue // it counts only pods that come from now on
		}
		if c.OfTerm() { // of placed pods, by a key that nodes have just got: it concerns each pod that the term matches
			terms, carriers = append(terms, c.ID()), append(carriers, c.Namespaces()...)
			continue
		}
		steps, filled, err := s.FillCounter(c.ID(), c.Demands(), c.Namespaces(), left)
		if err != nil {
			return err
		}
		if left -= steps; filled {
			continue
		}
		if steps = s.PodsIn(c.Namespaces()); c.OfDeparting() {
			steps *= cache.TellSteps // each of them
		}
		if steps > left {
			s.counters.Postpone(c.ID())
			s.counting.postponed[c.ID()] = struct{}{}
			continue
		}
		left -= steps
		if c.OfDeparting() {
			departing = append(departing, c.Namespaces()...)
		}
		ids = append(ids, c.ID())
		all = all || c.Namespaces() == nil
		namespaces = append(namespaces, c.Namespaces()...)
	}
	if len(ids) > 0 {
		slices.Sort(namespaces)
		if err := s.FillCounters(ids, all, slices.Compact(namespaces)); err != nil {
			return err
		}
	}
	if len(terms) > 0 {
		slices.Sort(carriers)
		if err := s.FillTerms(terms, slices.Compact(carriers)); err != nil {
			return err
		}
	}
	return s.retellIn(departing)
}

// Awaits tells whether a class reads counters that are not filled.
func (s *State) Awaits(c *compile.Class) bool {
	x := &s.counting
	if len(x.postponed) == 0 || c == nil || c.Scorer == nil {
		return false
	}
	return slices.ContainsFunc(c.Scorer.Counters(), func(id uint32) bool { _, postponed := x.postponed[id]; return postponed })
}

// Open begins to fill the postponed counters of a class, unless those of another class are being filled.
func (s *State) Open(c *compile.Class) {
	x := &s.counting
	if x.opened != 0 {
		return
	}
	s.makeRoom()
	f := &filling{class: c.ID()}
	for _, id := range c.Scorer.Counters() {
		// While the index by label is built, no counter is filled from all pods: the index will do it in fewer steps.
		if _, postponed := x.postponed[id]; postponed && !s.Indexing() && s.counters.Open(id) {
			f.ids = append(f.ids, id)
		}
	}
	x.opened, x.fillings = c.ID(), append(x.fillings, f)
}

// ForgetPostponed drops the postponed counters that are not opened. A class that asks for them again gets new ones.
func (s *State) ForgetPostponed() {
	x := &s.counting
	for id := range x.postponed {
		if s.counters.Forget(id) {
			delete(x.postponed, id)
		}
	}
}

// makeRoom drops counters that no class has asked for since its last call, where pods add to too many counters.
func (s *State) makeRoom() {
	pods, _ := s.Pods()
	most := max(s.counting.PerPod*pods, s.counting.AtLeast)
	if s.Added() <= most {
		return
	}
	ids := s.counters.Unused()
	slices.SortStableFunc(ids, func(a, b uint32) int { return cmp.Compare(s.Adding(b), s.Adding(a)) })
	n := 0
	for left := s.Added(); n < min(len(ids), droppedAtOnce) && left > most/2; n++ {
		left -= s.Adding(ids[n])
	}
	s.counters.Drop(ids[:n])
	s.dropSome()
}

// dropSome begins to drop the counters that the registry has given up, row by row.
func (s *State) dropSome() {
	if ids := s.counters.TakeDropped(); len(ids) > 0 {
		s.counting.fillings = append(s.counting.fillings, &filling{ids: ids})
	}
}

// FillSome goes on filling and dropping counters, for the steps of a turn, or until enough returns true after some
// of them.
func (s *State) FillSome(enough func() bool) error {
	x := &s.counting
	for left := x.PerTurn; left > 0 && s.isUnderWay(); {
		steps, err := s.budgets.Some(min(left, stepsAtOnce), cache.TellSteps, s.tellBudgets)
		if left -= steps; err == nil && s.isFilling() {
			steps, err = s.fillNext(min(max(left, 1), stepsAtOnce))
			left -= max(steps, 1)
		}
		if err != nil {
			return err
		}
		if enough() {
			break
		}
	}
	return nil
}

// fillNext goes on with the index by label, or else with the first filling, for some steps.
func (s *State) fillNext(most int) (steps int, err error) {
	x := &s.counting
	if s.Indexing() {
		s.Index((most + indexedSteps - 1) / indexedSteps)
		return most, nil
	}
	f := x.fillings[0]
	if n := min(len(f.ids), filledTogether); n > 0 {
		if f.rows == nil {
			f.rows = s.Fill(f.ids[:n], f.class == 0, s.counters.DepartingIn(f.ids[:n]))
		}
		steps, done, err := f.rows.Some(most)
		if err != nil || !done {
			return steps, err
		}
		for _, id := range f.ids[:n] {
			delete(x.postponed, id)
		}
		if f.ids, f.rows = f.ids[n:], nil; len(f.ids) > 0 {
			return steps, nil
		}
	}
	x.fillings = x.fillings[1:]
	x.ready = x.ready || f.class != 0
	return steps, nil
}

// isFilling tells whether counters are being filled or dropped, and isUnderWay whether they are, or budgets are being told.
func (s *State) isFilling() bool  { return s.Indexing() || len(s.counting.fillings) > 0 }
func (s *State) isUnderWay() bool { return s.isFilling() || s.budgets.Changing() }

// IsCounting tells whether there are counters to go on with, or a class whose counters are filled.
func (s *State) IsCounting() bool { return s.isUnderWay() || s.counting.ready }

// IsOpen tells whether a class has its counters filled now, so that no other can have.
func (s *State) IsOpen() bool { return s.counting.opened != 0 && !s.counting.ready }

// HasPostponed tells whether any counter is postponed, and HasFilled whether a class has its counters by now.
func (s *State) HasPostponed() bool { return len(s.counting.postponed) > 0 }
func (s *State) HasFilled() bool    { return s.counting.ready }

// TakeFilled is the class whose counters are filled by now; 0: there is none. Another class may be opened then.
func (s *State) TakeFilled() (class uint64) {
	x := &s.counting
	if !x.ready {
		return 0
	}
	class, x.opened, x.ready = x.opened, 0, false
	return class
}
