package coordinator

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/placement"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/tracing"
)

// A gang whose members differ is simulated in steps: a class is asked about, or the members are tried in one domain. Once steps have taken
// long, the gang is set aside with what it knows by then, and others go first (package aside). Its next attempt begins anew, but takes no
// step again that it has taken. The last try, of which members keep what they hold, is of what is there then.
//
//	attempt ── step, step, … ──┬─ all are taken ──> a try in the best domain
//	   ^                       └─ they take long ──> set aside ──┐
//	   └──────────────── others, then its turn ──────────────────┘
//
// Differs from upstream: it tries a pod group in all domains in one cycle, however long that takes.
//
// Steps of an earlier attempt may have seen less room than there is. So a gang that fails then, and meanwhile something has happened, is
// tried again after its backoff.

// simulation is what the steps of a gang have found.
type simulation struct {
	// What it is of: other pods, classes or domains are another simulation.
	pods    []*queue.Pod
	classes []uint64
	tree    *placement.Tree
	// begun: a step was taken, and there were so many events before.
	begun bool
	moved uint64

	// bounds are those of the first classes, so many.
	bounds  [][]estimate
	bounded int
	tried   map[placement.Domain]simulated
}

// keptSimulations is how many simulations are known before those are looked for whose pod groups are gone.
const keptSimulations = 64

// simulation is the one that an attempt goes on with, or begins.
func (t *topology) simulation() *simulation {
	s, name := t.s, t.group.Name()
	x := &simulation{tree: t.tree, tried: map[placement.Domain]simulated{}}
	for i := range t.attempts {
		a, id := &t.attempts[i], uint64(0)
		if a.failed == nil {
			id = a.Class.ID()
		}
		x.pods, x.classes = append(x.pods, a.Pod), append(x.classes, id)
	}
	if was := s.simulations[name]; was != nil && was.tree == x.tree && slices.Equal(was.pods, x.pods) && slices.Equal(was.classes, x.classes) {
		return was
	}
	if s.simulations == nil {
		s.simulations = map[types.NamespacedName]*simulation{}
	}
	if len(s.simulations) >= keptSimulations {
		maps.DeleteFunc(s.simulations, func(name types.NamespacedName, _ *simulation) bool { return s.queue.GroupOf(name) == nil })
	}
	s.simulations[name] = x
	return x
}

// steps are those of one attempt.
type steps struct {
	begun time.Time
	taken int
}

// step begins a step. An outcome has the pod group set aside instead: others go first.
func (t *topology) step() *gangOutcome {
	aside := t.s.aside
	switch {
	case t.steps.taken == 0 && aside.GangsRest() == 0:
		t.steps.begun = t.s.cfg.Now()
	case t.steps.taken == 0, aside.GangIsOver(t.steps.begun):
		o := t.s.newOutcome(t.group, t.attempts)
		o.aside = t.s.awaitGangs
		return o
	}
	if x := t.simulated; !x.begun {
		x.begun, x.moved = true, t.s.queue.Moved()
	}
	t.steps.taken++
	return nil
}

// endSteps ends the steps of an attempt.
func (t *topology) endSteps() {
	if t.steps.taken > 0 {
		t.s.aside.NoteGang(t.steps.begun)
	}
}

// awaitGangs sets the attempts of a pod group aside until it may take more time.
func (s *Scheduler) awaitGangs(attempts []attempt) {
	gang := attempts[0].Pod.Group
	for i := range attempts {
		s.aside.ForGangs(attempts[i].Pod, attempts[0].Pod.Seq)
		attempts[i].Trace.Finish(tracing.GivenBack, nil)
	}
	s.queue.SetMatesAside(gang, queue.ForGangs, attempts[0].Pod.Seq)
}

// endSimulation forgets what the steps of a pod group have found, whose attempt is over. If it has failed while things have happened that
// they have not seen, it is tried again.
func (s *Scheduler) endSimulation(o *gangOutcome) {
	x := s.simulations[o.group.Name()]
	delete(s.simulations, o.group.Name())
	if x == nil || !x.begun || o.code != gangShort || s.queue.Moved() == x.moved {
		return
	}
	for i := range o.members {
		s.queue.Activate(o.members[i].Pod.Obj.UID)
	}
}
