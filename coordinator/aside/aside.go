package aside

import (
	"time"

	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/state"
	"github.com/shardsched/shardsched/scorer"
)

// Config is what an Aside is made of.
type Config struct {
	State *state.State
	Queue *queue.Queue
	// Evaluator searches for devices on the loop.
	Evaluator func() *scorer.Evaluator
	Now       func() time.Time
	// Over tells whether what took so long has used up the most that a turn has for it. Free says that nothing is ever over.
	Over func(took, most time.Duration) bool
	Free bool
	// Decided is the number of the last decision.
	Decided func() uint64
}

// Aside sets pods aside. Only the loop calls it.
type Aside struct {
	Config
	// batch says which pods the batch is of.
	batch     batch
	fillAgain time.Time // when filling of counters goes on
	// gangsAgain is when gangs that take long are tried again.
	gangsAgain time.Time
	searching  searching
}

type batch uint8

const (
	ofOthers   batch = iota // they were not set aside
	ofCounters              // their counters are filled by now, or are to be filled next
	ofDevices               // they wait for devices: a slice
	ofGang                  // a gang that takes long
)

// New makes an Aside.
func New(cfg Config) *Aside { return &Aside{Config: cfg} }

// Pop pops the next batch, in turns with those of pods that were not set aside: none then, or where none is to be popped. into is empty.
func (x *Aside) Pop(most int, into []*queue.Pod) []*queue.Pod {
	if x.batch != ofOthers {
		x.batch = ofOthers
		return into
	}
	if list := x.popCounted(most, into); len(list) > 0 {
		x.batch = ofCounters
		return list
	}
	if list := x.popSlice(most, into); len(list) > 0 {
		x.batch = ofDevices
		return list
	}
	if list := x.popGang(into); len(list) > 0 {
		x.batch = ofGang
		return list
	}
	return into
}

// Others says that the next batch is of pods that were not set aside.
func (x *Aside) Others() { x.batch = ofOthers }

// IsSlice tells whether the batch is a slice.
func (x *Aside) IsSlice() bool { return x.batch == ofDevices }

// Until is for how long the loop may wait though pods are set aside, or counters are not filled; false: there are none.
func (x *Aside) Until() (d time.Duration, any bool) {
	if x.isCounting() {
		d, any = x.countingRests(), true
	}
	if x.Queue.Aside(queue.ForDevices) > 0 {
		if rest := x.SearchingRests(); !any || rest < d {
			d, any = rest, true
		}
	}
	if x.Queue.Aside(queue.ForGangs) > 0 {
		if rest := x.GangsRest(); !any || rest < d {
			d, any = rest, true
		}
	}
	return d, any
}

// MayGoOn tells whether there is something to do though no event comes.
func (x *Aside) MayGoOn() bool {
	d, any := x.Until()
	return any && d == 0
}
