package aside

import (
	"time"

	"github.com/shardsched/shardsched/coordinator/queue"
)

const (
	// gangTime is how long a gang may be tried in one domain after the other in a row, one try at the least.
	gangTime = 10 * time.Millisecond
	// gangRest is how long no gang is tried so, and no victims are looked for that make room for one, as a multiple of the time that it has
	// just taken: others must find the loop idle most of the time.
	//
	// Differs from upstream: it tries pod groups, and looks for their victims, whenever their backoff ends, whoever waits.
	gangRest = 3
)

// GangsRest is how long gangs that take long are still to wait.
func (x *Aside) GangsRest() time.Duration { return max(x.gangsAgain.Sub(x.Now()), 0) }

// GangIsOver tells whether what began at begun has to go on later.
func (x *Aside) GangIsOver(begun time.Time) bool { return x.Over(x.Now().Sub(begun), gangTime) }

// NoteGang notes how long something took for a gang that began at begun.
func (x *Aside) NoteGang(begun time.Time) {
	if now := x.Now(); x.Over(now.Sub(begun), gangTime/4) {
		x.gangsAgain = now.Add(gangRest * now.Sub(begun))
	}
}

// ForGangs sets a pod of a gang aside until gangs have rested. All pods of it are set aside by the number of one of them.
func (x *Aside) ForGangs(p *queue.Pod, gang uint64) { x.Queue.SetAside(p, queue.ForGangs, gang) }

// popGang pops the gang whose turn it is.
func (x *Aside) popGang(into []*queue.Pod) []*queue.Pod {
	if x.Queue.Aside(queue.ForGangs) == 0 || x.GangsRest() > 0 {
		return into
	}
	return x.Queue.PopAside(queue.ForGangs, x.Queue.AsideFor(queue.ForGangs), 1, into)
}
