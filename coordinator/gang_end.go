package coordinator

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/choice"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/queue"
)

// leaving is how a member goes back to the queue.
type leaving struct {
	// message tells why, and by are the plugins that refuse the pod. failed is an error instead.
	message string
	by      []string
	failed  error
	// help is what PostFilter plugins have done for it.
	help *choice.Help
	// nominating is what becomes of its nominated node; nil: nothing, but for an error, which clears it.
	nominating *objects.Nominating
}

// byGang says that mates are why a member leaves: it waits for what they wait for.
var byGang = []string{queue.GangScheduling}

// own is how a member leaves that found no node, and whose mates have no part in that.
func (m *member) own() leaving {
	x := leaving{message: m.end.Message, by: m.end.By, failed: m.end.Failed, help: &m.help, nominating: m.help.Nominating}
	if m.decision.Nodes == 0 {
		x.nominating = &objects.Nominating{}
	}
	return x
}

// leaving is how a member goes back to the queue where the pod group is not placed: upstream's texts, which go by what becomes of all.
func (o *gangOutcome) leaving(i int) leaving {
	m := &o.members[i]
	unnominated := &objects.Nominating{}
	switch {
	case o.room != nil:
		return o.nominated(i)
	case o.code == gangFailed && (i == o.failing || o.failing < 0):
		return leaving{failed: o.err}
	case o.code == gangFailed:
		return leaving{failed: o.whole()}
	case o.code == gangPreempting && m.fits():
		return leaving{message: preemptingGroup, by: byGang, nominating: &objects.Nominating{Node: m.node}}
	case o.code == gangShort && m.node != "" && (o.holds || o.awaits):
		// Differs from upstream: there, the nominations of mates end at the first attempt while victims are still leaving, and the room that
		// the victims give is nobody's.
		return leaving{message: quorumMissed, by: byGang, nominating: &objects.Nominating{Node: m.node}}
	case o.code == gangShort && m.node != "":
		return leaving{message: quorumMissed, by: byGang, nominating: unnominated}
	}
	return m.own()
}

// awaitsVictims tells whether a member waits for pods to leave a node: it is nominated there, finds no node as yet, and PostFilter plugins
// leave that as it is.
func (o *gangOutcome) awaitsVictims() bool {
	for i := range o.members {
		if m := &o.members[i]; m.node == "" && m.end != nil && m.end.Failed == nil && m.help.Nominating == nil && m.Pod.Nomination() != "" {
			return true
		}
	}
	return false
}

// failGang sends the members back to the queue: nobody has a node. Then what may help them is carried out.
func (s *Scheduler) failGang(ctx context.Context, o *gangOutcome) {
	o.shareVictims()
	o.holds = s.holdsFor(o)
	o.awaits = o.awaitsVictims()
	s.gateAll(o)
	failing := false
	for i := range o.members {
		x := o.leaving(i)
		failing = failing || len(x.by) == 0
		o.tellBeside(i)
		s.failMember(ctx, &o.members[i], x)
	}
	if failing { // mates are tried with it
		for i := range o.members {
			s.failing[o.members[i].Pod.Obj.UID] = struct{}{}
		}
	}
	wants, fit := o.copies()
	s.queue.GroupFailed(s.queue.GroupOf(o.group.Name()), wants, fit)
	s.helpMembers(o)
	s.makeWay(o)
	s.forecastFor(o)
}

// copies are how many members would have to fit, and how many do, where all ask for the same and it is known how many more pods of the
// class fit; 0: it is not.
func (o *gangOutcome) copies() (wants, fit int) {
	first := o.members[0].Class
	if o.code != gangShort || o.sliced || first == nil || first.Scorer == nil || first.Volatile || first.Claims || first.Scorer.Tied() != "" {
		return 0, 0
	}
	for i := range o.members {
		if m := &o.members[i]; m.Class == nil || m.Class.ID() != first.ID() || m.Extenders != nil || m.Plugins != nil {
			return 0, 0
		}
	}
	if o.best.Whole() {
		return o.need, o.fit
	}
	return o.need, o.bestFits - o.scheduled
}

// failMember records that a member has no node, and sends it back to the queue.
func (s *Scheduler) failMember(ctx context.Context, m *member, x leaving) {
	d := m.decision
	d.Message, m.failed = x.message, x.failed
	if x.failed != nil {
		d.Message = x.failed.Error()
	}
	switch {
	case x.help != nil:
		tell(d, x.help)
		m.preemption = observe.Preempting(m.Pod.Obj, x.help.Victims, s.state.Budgets())
		s.gate(m.attempt, x.help)
	case x.nominating != nil:
		d.Nominated = x.nominating.Node
	}
	s.record(m.attempt, d, x.failed != nil)
	s.refuse(ctx, m.attempt, d, x.by, x.nominating)
}

// tellBeside has a member told which of the three it is: it does not fit, is held back by mates, or was not tried. Where pods leave for it,
// or the error is its own, upstream's message says it all.
func (o *gangOutcome) tellBeside(i int) {
	m := &o.members[i]
	if m.beside = nil; o.code == gangPreempting || o.code == gangFailed && (i == o.failing || o.failing < 0) {
		return
	}
	state, name := o.memberState(m), o.group.Name().Name
	m.beside = func(message string) string { return state.Beside(message, name) }
}

// shareVictims leaves a pod that several members push out to the first of them.
func (o *gangOutcome) shareVictims() {
	told := map[types.UID]bool{}
	for i := range o.members {
		x := &o.members[i].help
		x.Victims = slices.DeleteFunc(slices.Clone(x.Victims), func(v *v1.Pod) bool {
			again := told[v.UID]
			told[v.UID] = true
			return again
		})
	}
}

// helpMembers carries out what PostFilter plugins have planned for members that are back in the queue: pods leave only where the pod
// group fits then.
//
// Differs from upstream: resource claims lose their devices once it is known what becomes of all members, and not where one of them has
// ended in an error. Upstream's lose them at once, and where a try ends, its members lose reservations that they had before.
func (s *Scheduler) helpMembers(o *gangOutcome) {
	nominated := map[*queue.Pod]bool{} // with it, and so not by whoever is nominated to the same node
	for i := range o.members {
		if m := &o.members[i]; o.code == gangPreempting && m.node != "" {
			nominated[m.Pod] = true
		}
	}
	for i := range o.members {
		m := &o.members[i]
		if o.code == gangPreempting {
			s.carryOut(m.attempt, &m.help, nominated)
		}
		if o.code != gangFailed {
			s.carryPlanOut(m.Pod.Obj, m.help.Claims)
		}
	}
}
