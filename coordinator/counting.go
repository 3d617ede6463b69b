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

// Counters come into use, and go, in steps: a step is some 0.1 µs. So are pods told which budgets count them.
//
//	few pods may add to it        filled at once, within fillAtOnce steps a batch
//	few may, once pods are        postponed likewise, until all pods are looked through for the label, a part
//	found by one more label       each turn; then filled at once
//	many pods may                 postponed: the pods whose class reads it are set aside in the queue
//	    one class at a time ──>   opened, and filled row by row, fillSteps a turn
//	                              ──> the pods of the class are popped and decided
//	nobody asks for it            it goes as it came, row by row
//
// One class at a time has such counters until its pods are decided. Namespaces take turns. What classes leave behind goes, those first
// that most pods add to, once all pods add more to counters than addedPerPod each: however many classes there are,
// what a pod adds is bounded on average.
const (
	// fillSteps is what a turn may take, where it does not take fillTime before. stepsAtOnce are between two looks
	// at the clock.
	fillSteps   = 1 << 16
	fillTime    = 5 * time.Millisecond
	stepsAtOnce = 1 << 13
	// fillRest is for how many times as long as a turn has taken for that the next ones leave it: pods that wait for
	// nothing are to find the loop at rest.
	fillRest = 3
	// filledTogether is how many counters pods are asked for together.
	filledTogether = 16
	// indexedSteps is how many steps it takes to have a pod found by a label.
	indexedSteps = 2
	// fillAtOnce is what counters of one batch may take that are filled before it goes on.
	fillAtOnce = 1 << 11
	// addedPerPod is how many counters a pod adds to, on average: three are usual. addedAtLeast is what all
	// pods of a small cluster may add.
	addedPerPod, addedAtLeast = 16, 1 << 16
	// droppedAtOnce is how many counters go together.
	droppedAtOnce = 256
)

// filling is counters that come into use, or go.
type filling struct {
	// class is who asks for them; 0: they go.
	class uint64
	ids   []uint32
	rows  *cache.Filling // of the first of ids; nil: they are to be begun with
}

// counting is the counters that come and go.
type counting struct {
	// atOnce and perTurn are fillAtOnce and fillSteps, or no bounds; atLeast is addedAtLeast.
	atOnce, perTurn, atLeast int

	postponed map[uint32]struct{} // not filled yet
	fillings  []*filling          // the first is under way
	// opened is the class whose counters are filled; ready: they are, and its pods are to be popped. 0: none.
	opened uint64
	ready  bool
}

func unboundedCounting() counting {
	return counting{atOnce: math.MaxInt, perTurn: math.MaxInt, atLeast: addedAtLeast, postponed: map[uint32]struct{}{}}
}

// bound has counters come and go in bounded steps.
func (x *counting) bound() { x.atOnce, x.perTurn = fillAtOnce, fillSteps }

// fillNew brings new counters into use that few pods may add to, and postpones the others.
func (s *state) fillNew(list []*count.Counter) error {
	left := s.counting.atOnce
	var ids, terms []uint32
	var namespaces, departing, carriers []string
	all := false
	for _, c := range list {
		if c.Namespaces() != nil && len(c.Namespaces()) == 0 {
			continue // all that count for it have come since, with it
		}
		if c.OfTerm() { // of placed pods, and of a key that nodes have got just now: it concerns whoever it matches
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

// open begins to fill the counters of a class, unless another has its pods set aside for that already.
func (s *state) open(c *compile.Class) {
	x := &s.counting
	if x.opened != 0 {
		return
	}
	s.makeRoom()
	f := &filling{class: c.ID()}
	for _, id := range c.Scorer.Counters() {
		// What may be found by a label before long is not filled from all pods.
		if _, postponed := x.postponed[id]; postponed && !s.Indexing() && s.counters.Open(id) {
			f.ids = append(f.ids, id)
		}
	}
	x.opened, x.fillings = c.ID(), append(x.fillings, f)
}

// forgetPostponed drops the new counters that are not opened: who asks for them again gets new ones.
func (s *state) forgetPostponed() {
	x := &s.counting
	for id := range x.postponed {
		if s.counters.Forget(id) {
			delete(x.postponed, id)
		}
	}
}

// makeRoom has counters go that no class has asked for since it was called last, where pods add to too many.
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

// dropSome has the counters go that were dropped.
func (s *state) dropSome() {
	if ids := s.counters.TakeDropped(); len(ids) > 0 {
		s.counting.fillings = append(s.counting.fillings, &filling{ids: ids})
	}
}

// fillSome goes on with the counters that come and go, for the steps of a turn, or until enough says so after some
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

// fillNext goes on with what is first, for some steps.
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

// fillSome goes on with the counters that come and go, unless it rests from that.
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

// restsFilling is for how long counters stay as they are.
func (s *Scheduler) restsFilling() time.Duration { return max(s.fillAt.Sub(s.cfg.Now()), 0) }

// restsCounting is for how long there is nothing to go on with: 0 where pods that were set aside may be popped.
func (s *Scheduler) restsCounting() time.Duration {
	if x := &s.cache.counting; x.ready || x.opened == 0 && s.queue.Aside() > 0 {
		return 0
	}
	return s.restsFilling()
}

// setAside takes the attempts out of a batch whose counters are not filled yet, and has the first of them filled.
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
	if s.aside || s.queue.Aside() == 0 { // else others wait for their turn
		s.cache.open(a.class)
	}
	s.queue.SetAside(a.pod, a.class.ID())
	a.trace.Finish(tracing.GivenBack, nil)
	return true
}

// popAside pops pods that were set aside: of a class whose counters are filled by now, or is next to have them filled.
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

// isFilling tells whether counters come or go, isUnderWay whether they or budgets do.
func (x *counting) isFilling(s *state) bool  { return s.Indexing() || len(x.fillings) > 0 }
func (x *counting) isUnderWay(s *state) bool { return x.isFilling(s) || s.budgets.Changing() }

// isCounting tells whether there is something to go on with, though nothing happens.
func (s *Scheduler) isCounting() bool {
	x := &s.cache.counting
	return x.isUnderWay(s.cache) || x.ready || s.queue.Aside() > 0
}
