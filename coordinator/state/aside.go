package state

import (
	"time"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/queue"
)

const (
	// fillTime is how long a turn fills counters at the most.
	fillTime = 5 * time.Millisecond
	// fillRest is how long the next turns fill nothing, as a multiple of the time that filling has just taken: pods that
	// wait for no counter must find the loop idle most of the time.
	fillRest = 3
)

// Aside sets pods aside in the queue until the counters that their class reads are filled, and has them filled, a part each turn.
type Aside struct {
	state *State
	queue *queue.Queue
	now   func() time.Time
	// over tells whether a part of a turn has used up its time.
	over  func(took, most time.Duration) bool
	until time.Time // when filling goes on
}

// NewAside makes one. over tells whether what took so long has used up the most that a turn has for it.
func NewAside(s *State, q *queue.Queue, now func() time.Time, over func(took, most time.Duration) bool) *Aside {
	return &Aside{state: s, queue: q, now: now, over: over}
}

// Fill goes on filling and dropping counters, unless filling rests. An error ends the term.
func (x *Aside) Fill() error {
	if x.fillingRests() > 0 {
		return nil
	}
	begun := x.now()
	took := func() time.Duration { return x.now().Sub(begun) }
	err := x.state.FillSome(func() bool { return x.over(took(), fillTime) })
	if took := took(); x.over(took, fillTime/4) {
		x.until = begun.Add(took + fillRest*took)
	}
	return err
}

// fillingRests is how long filling still rests.
func (x *Aside) fillingRests() time.Duration { return max(x.until.Sub(x.now()), 0) }

// Rests is how long the loop may wait for other work: 0 where pods that were set aside for counters may be popped.
func (x *Aside) Rests() time.Duration {
	if x.state.HasFilled() || !x.state.IsOpen() && x.queue.Aside(queue.ForCounters) > 0 {
		return 0
	}
	return x.fillingRests()
}

// IsUnderWay tells whether the loop has counters to go on with though no event comes.
func (x *Aside) IsUnderWay() bool {
	return x.state.IsCounting() || x.queue.Aside(queue.ForCounters) > 0
}

// Takes sets a pod aside where its counters are not filled yet; false: they are. first says that no other class has waited longer.
func (x *Aside) Takes(p *queue.Pod, class *compile.Class, first bool) bool {
	if !x.state.Awaits(class) {
		return false
	}
	if first || x.queue.Aside(queue.ForCounters) == 0 {
		x.state.Open(class)
	}
	x.queue.SetAside(p, queue.ForCounters, class.ID())
	return true
}

// Pop pops pods that were set aside for counters: those of the class whose counters are filled by now, or of the class whose counters
// are to be filled next.
func (x *Aside) Pop(most int, into []*queue.Pod) []*queue.Pod {
	if x.state.IsOpen() {
		return nil
	}
	class := x.state.TakeFilled()
	if class == 0 {
		class = x.queue.AsideFor(queue.ForCounters)
	}
	if class == 0 {
		return nil
	}
	return x.queue.PopAside(queue.ForCounters, class, most, into)
}
