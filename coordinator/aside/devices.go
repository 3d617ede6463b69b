package aside

import (
	"sync/atomic"
	"time"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/scorer"
)

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
	// decided is the number of the decision before the slice.
	decided uint64
}

// BeginSearching begins a batch, or a step of a read.
func (x *Aside) BeginSearching() {
	y := &x.searching
	clear(y.unfinished)
	y.hard, y.allowed = false, searchSteps
	if y.rested = x.SearchingRests() == 0; !y.rested {
		y.allowed = restSteps
	}
	y.first = x.IsSlice()
	x.allow()
}

// EndSearching ends what began at begun. Whoever searches on the loop from then on has no bound.
func (x *Aside) EndSearching(begun time.Time) {
	y := &x.searching
	x.NoteSteps()
	x.LiftBound()
	if now := x.Now(); y.hard && y.rested {
		y.until = now.Add(max(searchRest*now.Sub(begun), leastRest))
	}
}

// SearchingRests is how long searching still rests.
func (x *Aside) SearchingRests() time.Duration { return max(x.searching.until.Sub(x.Now()), 0) }

// allow allows searches on the loop their steps.
func (x *Aside) allow() {
	if y := &x.searching; !x.Free {
		y.left.Store(y.allowed)
		x.Evaluator().Allow(&y.left)
	}
}

// AllowDecision allows a decision its steps. The first of a slice has all steps, whatever was taken before it: it is how the
// slice comes to something.
func (x *Aside) AllowDecision() {
	y := &x.searching
	if y.first && y.rested {
		y.allowed = searchSteps
	}
	y.first = false
	x.allow()
}

// AllowMore lets another class of a batch search a little where others have used up the steps.
func (x *Aside) AllowMore() {
	if y := &x.searching; !x.Free {
		y.left.Store(max(y.left.Load(), leastSteps))
	}
}

// LiftBound lets searches on the loop take any number of steps.
func (x *Aside) LiftBound() { x.Evaluator().Allow(nil) }

// Unbounded is LiftBound until what it returns is called.
func (x *Aside) Unbounded() (end func()) {
	x.LiftBound()
	return func() {
		if !x.Free {
			x.Evaluator().Allow(&x.searching.left)
		}
	}
}

// Afford makes sure that the devices of a chosen row can be searched for once more when they are reserved, for nothing may stop
// that then.
func (x *Aside) Afford(class *compile.Class, row cache.Row) {
	x.Evaluator().Afford(x.State.Table(int(row.Shard)), row.Index, class.Scorer)
}

// NoteSteps looks at what was taken since steps were allowed. Where that is much the rest of the batch may take less.
func (x *Aside) NoteSteps() {
	if y := &x.searching; !x.Free && y.allowed-y.left.Load() > restSteps {
		y.long()
	}
}

func (y *searching) long() { y.hard, y.allowed = true, restSteps }

// NoteRound looks at what a round of workers took that has classes with claims of devices.
func (x *Aside) NoteRound(took time.Duration) {
	if x.Over(took, searchTime) {
		x.searching.hard = true
	}
}

// StepsFor is how many steps each of so many classes with claims of a round may take; 0: any number.
func (x *Aside) StepsFor(classes int) int64 {
	if x.Free {
		return 0
	}
	return max(x.searching.allowed/max(int64(classes), 1), leastSteps)
}

// IsUnfinished tells whether a value that was recovered, or an error, says that not all devices are found yet.
func IsUnfinished(value any) bool { return value == scorer.ErrUnfinished }

// NoteUnfinished notes that not all is found for a class where what was recovered of its evaluation says so; false: it does not.
func (x *Aside) NoteUnfinished(class uint64, value any) bool {
	if !IsUnfinished(value) {
		return false
	}
	x.searching.note(class)
	x.searching.long()
	return true
}

func (y *searching) note(class uint64) {
	if y.unfinished == nil {
		y.unfinished = map[uint64]struct{}{}
	}
	y.unfinished[class] = struct{}{}
}

// HasUnfinished tells whether not all is found for a class.
func (x *Aside) HasUnfinished(c *compile.Class) bool {
	list := x.searching.unfinished
	_, own := list[c.ID()]
	if own || c.Base == nil || len(list) == 0 {
		return own
	}
	_, base := list[c.Base.ID()]
	return base
}

// AwaitsSlice tells whether pods of a class wait for their slice, which all pods of the class in this batch have to wait for then.
func (x *Aside) AwaitsSlice(c *compile.Class) bool {
	if x.IsSlice() || !c.Scorer.Claims() || !x.Queue.IsAside(queue.ForDevices, c.ID()) {
		return false
	}
	x.searching.note(c.ID())
	return true
}

// ForDevices sets a pod aside for which not all is found.
func (x *Aside) ForDevices(p *queue.Pod, class *compile.Class) {
	if x.IsSlice() && x.Decided() == x.searching.decided {
		x.searching.class = class.ID() // nothing was decided yet
	}
	x.Queue.SetAside(p, queue.ForDevices, class.ID())
}

// popSlice pops pods of the class that is searched for next.
func (x *Aside) popSlice(most int, into []*queue.Pod) []*queue.Pod {
	y := &x.searching
	if x.Queue.Aside(queue.ForDevices) == 0 || x.SearchingRests() > 0 {
		return nil
	}
	class := y.class
	if y.class, y.slices = 0, y.slices+1; class == 0 || y.slices > mostSlices || !x.Queue.IsAside(queue.ForDevices, class) {
		class, y.slices = x.Queue.AsideFor(queue.ForDevices), 1
	}
	y.decided = x.Decided()
	return x.Queue.PopAside(queue.ForDevices, class, min(slicePods, most), into)
}
