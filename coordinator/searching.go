package coordinator

import (
	"sync/atomic"
	"time"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/tracing"
	"github.com/shardsched/shardsched/scorer"
)

// Devices are searched for once for each state that the devices of nodes are in, and a search takes up to devices.DefaultBudget
// steps of some 50 ns. Claims that are hard to meet, on nodes that all differ, would hold workers and the loop for minutes. So
// workers, own tables and decisions stop at a number of steps, with scorer.ErrUnfinished, and what they have found is kept
// (scorer.Searches): the pod is set aside, and tried again in slices until all is found. Its decision is then what it would have
// been at once.
//
//	batch ── within the steps ──> decided
//	  │
//	  └── more ──> set aside in the queue ── slice ── all is found ──> decided
//	                  ^                        │
//	                  └── the loop rests ──────┘ more
//
// A slice is a batch of one class. Between slices the loop rests from searching: others find it idle most of the time.

const (
	// searchSteps is how many steps a round to workers, and a decision, may take: 13 ms. One search at the least is within.
	searchSteps = 1 << 18
	// restSteps is the same while searching rests, and what a decision may take for searching to go on.
	restSteps = 1 << 16
	// leastSteps is what each class of a round has, however many there are: one or two searches of ordinary claims.
	leastSteps = 1 << 10
	// searchTime is how long a round may take with claims of devices for searching to go on.
	searchTime = 10 * time.Millisecond
	// searchRest is how long searching rests, as a multiple of the time that the batch has taken.
	searchRest = 3
	// leastRest is how long it rests at the least: expressions may be compiled meanwhile.
	leastRest = 5 * time.Millisecond
	// slicePods is how many pods a slice has at the most: the first may use up the steps for all.
	slicePods = 16
	// mostSlices is how many slices in a row a class gets before another that waits. The states of 5,000 nodes take
	// 2,500 at worst.
	mostSlices = 1 << 12
)

// searching is how far the searches for devices of a batch, or of a read, have come.
type searching struct {
	left    atomic.Int64 // of the steps on the loop
	allowed int64
	hard    bool // it has taken what has the loop rest
	rested  bool // it began while searching did not rest
	first   bool // the next decision is the first of a slice
	// unfinished are the classes of the batch for which not all is found.
	unfinished map[uint64]struct{}
	until      time.Time // searching rests
	// class is the one that the next slice goes on with, after so many; 0: whose turn it is.
	class  uint64
	slices int
}

// beginSearching begins a batch, or a step of a read.
func (s *Scheduler) beginSearching() {
	x := &s.searching
	clear(x.unfinished)
	x.hard, x.allowed = false, searchSteps
	if x.rested = s.restsSearching() == 0; !x.rested {
		x.allowed = restSteps
	}
	x.first = s.batch.slice
	s.allowSteps()
}

// endSearching ends what began at begun. Whoever searches on the loop from then on has no bound.
func (s *Scheduler) endSearching(begun time.Time) {
	x := &s.searching
	s.noteSteps()
	s.answers.Evaluator().Allow(nil)
	if now := s.cfg.Now(); x.hard && x.rested {
		x.until = now.Add(max(searchRest*now.Sub(begun), leastRest))
	}
}

// restsSearching is how long searching still rests.
func (s *Scheduler) restsSearching() time.Duration { return max(s.searching.until.Sub(s.cfg.Now()), 0) }

// allowSteps allows searches on the loop their steps.
func (s *Scheduler) allowSteps() {
	if x := &s.searching; !s.budget.free {
		x.left.Store(x.allowed)
		s.answers.Evaluator().Allow(&x.left)
	}
}

// allowDecision is allowSteps for one decision. The first of a slice has all steps, whatever was taken before it: it is how the
// slice comes to something.
func (s *Scheduler) allowDecision() {
	x := &s.searching
	if x.first && x.rested {
		x.allowed = searchSteps
	}
	x.first = false
	s.allowSteps()
}

// withoutBound lets searches on the loop take any number of steps, until what it returns is called.
func (s *Scheduler) withoutBound() (end func()) {
	s.answers.Evaluator().Allow(nil)
	return func() {
		if !s.budget.free {
			s.answers.Evaluator().Allow(&s.searching.left)
		}
	}
}

// allowMore lets another class of a batch search a little where others have used up the steps.
func (s *Scheduler) allowMore() {
	if x := &s.searching; !s.budget.free {
		x.left.Store(max(x.left.Load(), leastSteps))
	}
}

// noteSteps looks at what was taken since allowSteps. Where that is much the rest of the batch may take less.
func (s *Scheduler) noteSteps() {
	if x := &s.searching; !s.budget.free && x.allowed-x.left.Load() > restSteps {
		s.searchedLong()
	}
}

func (s *Scheduler) searchedLong() { s.searching.hard, s.searching.allowed = true, restSteps }

// stepsFor is how many steps each of the needs of a round may take; 0: any number.
func (s *Scheduler) stepsFor(needs []*answers.Need) int64 {
	if s.budget.free {
		return 0
	}
	n := int64(0)
	for _, x := range needs {
		if x.Class.Claims() {
			n++
		}
	}
	return max(s.searching.allowed/max(n, 1), leastSteps)
}

// noteUnfinished notes that not all is found for a class.
func (s *Scheduler) noteUnfinished(class uint64) {
	if s.searching.unfinished == nil {
		s.searching.unfinished = map[uint64]struct{}{}
	}
	s.searching.unfinished[class] = struct{}{}
	s.searchedLong()
}

// unfinished tells whether not all is found for a class.
func (s *Scheduler) unfinished(c *compile.Class) bool {
	list := s.searching.unfinished
	_, own := list[c.ID()]
	if own || c.Base == nil || len(list) == 0 {
		return own
	}
	_, base := list[c.Base.ID()]
	return base
}

// awaitsSlice notes that pods of the class of an attempt wait for their slice, which it is to wait for as well.
func (s *Scheduler) awaitsSlice(a *attempt) bool {
	if s.batch.slice || !a.Class.Scorer.Claims() || !s.queue.IsAside(queue.ForDevices, a.Class.ID()) {
		return false
	}
	if s.searching.unfinished == nil {
		s.searching.unfinished = map[uint64]struct{}{}
	}
	s.searching.unfinished[a.Class.ID()] = struct{}{}
	return true
}

// awaitSearches sets an attempt aside for which not all is found.
func (s *Scheduler) awaitSearches(a *attempt) {
	if s.batch.slice && s.seq == s.batch.after {
		s.searching.class = a.Class.ID() // nothing was decided yet
	}
	s.metrics.Unfinished()
	s.queue.SetAside(a.Pod, queue.ForDevices, a.Class.ID())
	a.Trace.Finish(tracing.GivenBack, nil)
}

// popSlice pops pods of the class that is searched for next.
func (s *Scheduler) popSlice() []*queue.Pod {
	x := &s.searching
	if s.queue.Aside(queue.ForDevices) == 0 || s.restsSearching() > 0 {
		return nil
	}
	class := x.class
	if x.class, x.slices = 0, x.slices+1; class == 0 || x.slices > mostSlices || !s.queue.IsAside(queue.ForDevices, class) {
		class, x.slices = s.queue.AsideFor(queue.ForDevices), 1
	}
	s.batch.after = s.seq
	return s.queue.PopAside(queue.ForDevices, class, min(slicePods, s.batch.size.next()), s.batch.popped[:0])
}

// afford makes sure that the devices of a chosen row can be searched for once more when they are reserved, for nothing may stop
// that then.
func (s *Scheduler) afford(a *attempt, c *answers.Choice) {
	s.answers.Evaluator().Afford(s.state.Table(int(c.Row.Shard)), c.Row.Index, a.Class.Scorer)
}

// commit begins what a panic may not stop any more.
func (s *Scheduler) commit() {
	s.batch.committing = true
	s.answers.Evaluator().Allow(nil)
}

// untilAside is for how long the loop may wait though pods are set aside, or counters are not filled; false: there are none.
func (s *Scheduler) untilAside() (d time.Duration, any bool) {
	if s.aside.IsUnderWay() {
		d, any = s.aside.Rests(), true
	}
	if s.queue.Aside(queue.ForDevices) > 0 {
		if rest := s.restsSearching(); !any || rest < d {
			d, any = rest, true
		}
	}
	return d, any
}

// mayGoOn tells whether there is something to do though no event comes.
func (s *Scheduler) mayGoOn() bool {
	d, any := s.untilAside()
	return any && d == 0
}

// isUnfinished tells whether a value that was recovered, or an error, says that not all devices are found yet.
func isUnfinished(value any) bool { return value == scorer.ErrUnfinished }
