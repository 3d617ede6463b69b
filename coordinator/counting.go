package coordinator

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/count"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/tracing"
)

// Counters are filled, and dropped, in steps. A step takes some 0.1 µs. Budgets are told to the tables in the same way. What
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
	// fillSteps is how many steps a turn takes, or fewer where they take fillTime: events and decisions wait for the turn's
	// end. The clock is read every stepsAtOnce steps.
	fillSteps   = 1 << 16
	fillTime    = 5 * time.Millisecond
	stepsAtOnce = 1 << 13
	// fillRest is how long the next turns fill nothing, as a multiple of the time that filling has just taken: pods that
	// wait for no counter must find the loop idle most of the time.
	fillRest = 3
	// filledTogether is how many counters one pass over the pods fills: else each would look at every pod.
	filledTogether = 16
	// indexedSteps is how many steps it takes to add a pod to the index by label.
	indexedSteps = 2
	// fillAtOnce is how many steps a batch waits for new counters: about 0.2 ms.
	fillAtOnce = 1 << 11
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

// counting has the counters that are postponed, filled and dropped.
type counting struct {
	// atOnce and perTurn are fillAtOnce and fillSteps, or no bounds; atLeast is addedAtLeast.
	atOnce, perTurn, atLeast int

	postponed map[uint32]struct{} // not filled yet
	fillings  []*filling          // the first is under way
	// opened is the class whose counters are being filled; 0: none. ready tells that they are filled, and that the pods of
	// the class are to be popped.
	opened uint64
	ready  bool
}

func unboundedCounting() counting {
	return counting{atOnce: math.MaxInt, perTurn: math.MaxInt, atLeast: addedAtLeast, postponed: map[uint32]struct{}{}}
}

// bound has counters filled and dropped in bounded steps.
func (x *counting) bound() { x.atOnce, x.perTurn = fillAtOnce, fillSteps }

// fillNew fills the new counters that few pods may add to, and postpones the others.
func (s *state) fillNew(list []*count.Counter) error {
	left := s.counting.atOnce
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

// awaits tells whether a class reads counters that are not filled.
func (s *state) awaits(c *compile.Class) bool {
	x := &s.counting
	if len(x.postponed) == 0 || c == nil || c.Scorer == nil {
		return false
	}
	return slices.ContainsFunc(c.Scorer.Counters(), func(id uint32) bool { _, postponed := x.postponed[id]; return postponed })
}

// open begins to fill the postponed counters of a class, unless those of another class are being filled.
func (s *state) open(c *compile.Class) {
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

// forgetPostponed drops the postponed counters that are not opened. A class that asks for them again gets new ones.
func (s *state) forgetPostponed() {
	x := &s.counting
	for id := range x.postponed {
		if s.counters.Forget(id) {
			delete(x.postponed, id)
		}
	}
}

// makeRoom drops counters that no class has asked for since its last call, where pods add to too many counters.
func (s *state) makeRoom() {
	pods, _ := s.Pods()
	most := max(addedPerPod*pods, s.counting.atLeast)
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
func (s *state) dropSome() {
	if ids := s.counters.TakeDropped(); len(ids) > 0 {
		s.counting.fillings = append(s.counting.fillings, &filling{ids: ids})
	}
}

// fillSome goes on filling and dropping counters, for the steps of a turn, or until enough returns true after some
// of them.
func (s *state) fillSome(enough func() bool) error {
	x := &s.counting
	for left := x.perTurn; left > 0 && x.isUnderWay(s); {
		steps, err := s.budgets.Some(min(left, stepsAtOnce), cache.TellSteps, s.tellBudgets)
		if left -= steps; err == nil && x.isFilling(s) {
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
func (s *state) fillNext(most int) (steps int, err error) {
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

// fillSome goes on filling and dropping counters, unless filling rests.
func (s *Scheduler) fillSome() {
	if s.restsFilling() > 0 {
		return
	}
	begun := s.cfg.Now()
	took := func() time.Duration { return s.cfg.Now().Sub(begun) }
	if err := s.cache.fillSome(func() bool { return s.budget.over(took(), fillTime) }); err != nil {
		s.fail(err)
	}
	if took := took(); s.budget.over(took, fillTime/4) {
		s.fillAt = begun.Add(took + fillRest*took)
	}
}

// restsFilling is how long filling still rests.
func (s *Scheduler) restsFilling() time.Duration { return max(s.fillAt.Sub(s.cfg.Now()), 0) }

// restsCounting is how long the loop may wait for other work: 0 where pods that were set aside may be popped.
func (s *Scheduler) restsCounting() time.Duration {
	if x := &s.cache.counting; x.ready || x.opened == 0 && s.queue.Aside() > 0 {
		return 0
	}
	return s.restsFilling()
}

// setAside takes the attempts whose counters are not filled yet out of a batch, and opens the counters of the first.
func (s *Scheduler) setAside(attempts []attempt) []attempt {
	if len(s.cache.counting.postponed) == 0 {
		return attempts
	}
	kept := attempts[:0]
	for i := range attempts {
		if a := &attempts[i]; a.failed != nil || !s.waits(a) {
			kept = append(kept, *a)
		}
	}
	s.cache.forgetPostponed()
	return kept
}

// waits sets an attempt aside where its counters are not filled yet.
func (s *Scheduler) waits(a *attempt) bool {
	if !s.cache.awaits(a.class) {
		return false
	}
	if s.aside || s.queue.Aside() == 0 { // else other classes have waited longer
		s.cache.open(a.class)
	}
	s.queue.SetAside(a.pod, a.class.ID())
	a.trace.Finish(tracing.GivenBack, nil)
	return true
}

// popAside pops pods that were set aside: those of the class whose counters are filled by now, or of the class whose counters
// are to be filled next.
func (s *Scheduler) popAside() []*queue.Pod {
	x := &s.cache.counting
	class := x.opened
	switch {
	case x.ready:
		x.opened, x.ready = 0, false
	case class == 0:
		class = s.queue.AsideFor()
	default:
		return nil
	}
	if class == 0 {
		return nil
	}
	return s.queue.PopAside(class, s.size.next(), s.popped[:0])
}

// isBusy tells whether no other class can have its counters filled now.
func (x *counting) isBusy() bool { return x.opened != 0 && !x.ready }

// isFilling tells whether counters are being filled or dropped, and isUnderWay whether they are, or budgets are being told.
func (x *counting) isFilling(s *state) bool  { return s.Indexing() || len(x.fillings) > 0 }
func (x *counting) isUnderWay(s *state) bool { return x.isFilling(s) || s.budgets.Changing() }

// isCounting tells whether the loop has counters to go on with though no event comes.
func (s *Scheduler) isCounting() bool {
	x := &s.cache.counting
	return x.isUnderWay(s.cache) || x.ready || s.queue.Aside() > 0
}
