package aside

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

// Fill goes on filling and dropping counters, unless filling rests. An error ends the term.
func (x *Aside) Fill() error {
	if x.fillingRests() > 0 {
		return nil
	}
	begun := x.Now()
	took := func() time.Duration { return x.Now().Sub(begun) }
	err := x.State.FillSome(func() bool { return x.Over(took(), fillTime) })
	if took := took(); x.Over(took, fillTime/4) {
		x.fillAgain = begun.Add(took + fillRest*took)
	}
	return err
}

// fillingRests is how long filling still rests.
func (x *Aside) fillingRests() time.Duration { return max(x.fillAgain.Sub(x.Now()), 0) }

// countingRests is how long the loop may wait for other work: 0 where pods that were set aside for counters may be popped.
func (x *Aside) countingRests() time.Duration {
	if x.State.HasFilled() || !x.State.IsOpen() && x.Queue.Aside(queue.ForCounters) > 0 {
		return 0
	}
	return x.fillingRests()
}

// isCounting tells whether the loop has counters to go on with though no event comes.
func (x *Aside) isCounting() bool {
	return x.State.IsCounting() || x.Queue.Aside(queue.ForCounters) > 0
}

// ForCounters sets a pod aside where its counters are not filled yet; false: they are.
func (x *Aside) ForCounters(p *queue.Pod, class *compile.Class) bool {
	if !x.State.Awaits(class) {
		return false
	}
	if x.batch == ofCounters || x.Queue.Aside(queue.ForCounters) == 0 { // else other classes have waited longer
		x.State.Open(class)
	}
	x.Queue.SetAside(p, queue.ForCounters, class.ID())
	return true
}

// popCounted pops pods that were set aside for counters: those of the class whose counters are filled by now, or of the class
// whose counters are to be filled next.
func (x *Aside) popCounted(most int, into []*queue.Pod) []*queue.Pod {
	if x.State.IsOpen() {
		return nil
	}
	class := x.State.TakeFilled()
	if class == 0 {
		class = x.Queue.AsideFor(queue.ForCounters)
	}
	if class == 0 {
		return nil
	}
	return x.Queue.PopAside(queue.ForCounters, class, most, into)
}
