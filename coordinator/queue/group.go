package queue

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/groups"
)

// GangScheduling is the plugin that holds members of pod groups back. It has rejected those that fit where too few of their mates do.
const GangScheduling = "GangScheduling"

// Group is the pods of the queue that are of one pod group. Each is in a place of its own, and ranks as any pod. What makes them one
// entry is that they leave together: with the first that is popped come all others that wait, whatever is left of their backoff.
//
// Differs from upstream: a pod group that has failed backs off as one, its members are not popped before that is over, and then they
// wait for an event. Upstream tries them again after their backoff, and at once where nothing else is active.
type Group struct {
	name    types.NamespacedName
	pods    []*Pod
	stalled int // of the pods, those that are gated by the state of the pod group
	tried   int // of the pods, those that are tried, or will be without any event
	wait    wait
	// since is when it began to be tried; zero: when the first of the pods was ready. due is its deadline; zero: it has none.
	since, due time.Time
	givenUp    bool
	// lead is the pod that they were popped for last. recalled: one of the pods was given back that an event helps.
	lead     *Pod
	recalled bool
	// failed: the last attempt of one of the pods has ended in an error, and the others wait with it.
	failed bool
	// favoured: it goes before others of its priority. fit is how many of its pods fitted last.
	favoured bool
	fit      int
}

// KnowsGroups is implemented by Profiles that know of pod groups.
type KnowsGroups interface {
	// Groups are the pod groups; nil: there are none.
	Groups() *groups.Groups
	// MayPreempt tells whether any node has pods that a member of a pod group may push out.
	MayPreempt(member *v1.Pod) bool
}

// Name is the PodGroup's.
func (g *Group) Name() types.NamespacedName { return g.name }

// Pods are its pods of the queue, in no order. The caller must not change the list, which holds until the queue changes.
func (g *Group) Pods() []*Pod { return g.pods }

// Len counts the pods.
func (g *Group) Len() int { return len(g.pods) }

// GroupOf is a pod group of which the queue has pods; nil: it has none.
func (q *Queue) GroupOf(name types.NamespacedName) *Group { return q.groups[name] }

// count notes that a pod came to a place, or has left it.
func (g *Group) count(place Place, by int) {
	if g != nil && place != Unschedulable && place != Gated {
		g.tried += by
	}
}

// join makes a pod known to its pod group.
func (q *Queue) join(p *Pod) {
	if q.states == nil {
		return
	}
	name, ok := groups.NameOf(p.Obj)
	if !ok {
		return
	}
	g := q.groups[name]
	if g == nil {
		g = &Group{name: name}
		q.groups[name] = g
	}
	p.Group, p.mate = g, len(g.pods)
	g.pods = append(g.pods, p)
}

// leave takes a pod out of its pod group.
func (q *Queue) leave(p *Pod) {
	g := p.Group
	if g == nil {
		return
	}
	last := g.pods[len(g.pods)-1]
	g.pods[p.mate], last.mate = last, p.mate
	g.pods[len(g.pods)-1] = nil
	if g.pods = g.pods[:len(g.pods)-1]; len(g.pods) == 0 {
		delete(q.groups, g.name)
		q.deadlines.remove(g)
		q.within(g, "")
	}
	q.release(g)
}

// Lead is the pod of a pod group that goes before its others, of those that wait or are in flight; nil: there is none.
func (q *Queue) Lead(g *Group) (lead *Pod) {
	for _, p := range g.pods {
		if p.place != Gated && (lead == nil || q.active.before(p, lead)) {
			lead = p
		}
	}
	return lead
}

// Favour has a pod group go before all other pods of its priority, and wake with each event that may give it more room; as long as each
// attempt finds room for more of its pods, it does not back off. false ends that.
func (q *Queue) Favour(g *Group, on bool) {
	if g == nil || g.favoured == on {
		return
	}
	for _, p := range g.pods { // their order among others changes
		if h := q.lineOf(p); h != nil {
			h.remove(p)
		} else if p.bucket != nil {
			q.index.remove(p)
		}
	}
	g.favoured = on
	for _, p := range g.pods {
		if h := q.lineOf(p); h != nil {
			h.push(p)
		} else if p.place != InFlight {
			q.addToIndex(p)
		}
	}
}

// lineOf is where a pod waits for its turn; nil: it does not.
func (q *Queue) lineOf(p *Pod) ordered {
	switch p.place {
	case Active:
		return q.ready(p)
	case Backoff:
		return &q.backoff
	case ErrorBackoff:
		return &q.errors
	}
	return nil
}

// hold notes whether a pod is gated by the state of its pod group.
func (q *Queue) hold(p *Pod, held bool) {
	if p.Group == nil || p.stalled == held {
		return
	}
	if p.stalled = held; held {
		p.Group.stalled++
	} else {
		p.Group.stalled--
	}
}

// Regroup tells that the state of a pod group has changed: pods that it has held back are tried, if it does not any more.
// Changed: the PodGroup is another one, so that its pods are tried in any case. They are as well where fewer of them have to fit than
// at the last attempt.
func (q *Queue) Regroup(name types.NamespacedName, changed bool) {
	g := q.groups[name]
	if g == nil {
		return
	}
	q.regroup(g, eventPodGroup)
	if x := q.states.Get(name); changed || x != nil && x.Need() < g.wait.need {
		g.wait.need = 0
		q.wakeMates(g, eventPodGroup)
	}
}

// regroup lets pods in that the state of their pod group does not hold back any more.
func (q *Queue) regroup(g *Group, event string) {
	if g == nil || g.stalled == 0 {
		return
	}
	if state := q.states.Get(g.name); state != nil && state.Gate() != "" && (!g.givenUp || state.GivenUp()) {
		return
	}
	if g.givenUp { // even where it is held back for something else by now
		g.givenUp, g.since = false, q.now()
		q.deadlines.remove(g)
	}
	for _, p := range g.pods {
		if p.stalled {
			q.requeue(p, event)
		}
	}
}

// RetryGroup tells that some pods of a pod group have been placed, after GroupFailed for the others. These are tried again at once, and
// their backoff begins anew: one attempt for each that places a pod.
func (q *Queue) RetryGroup(g *Group) {
	if g == nil || q.groups[g.name] != g {
		return
	}
	for _, p := range g.pods {
		if p.place == Unschedulable {
			p.UnschedulableCount, p.BackoffUntil = 0, time.Time{}
		}
	}
	q.wakeMates(g, eventAttemptFailed)
}

// wakeMates has the pods of a pod group tried that wait for an event.
func (q *Queue) wakeMates(g *Group, event string) {
	for _, p := range g.pods {
		if p.place == Unschedulable {
			q.requeueOne(p, event)
		}
	}
}

// popWithMates pops a pod, and the others of its pod group that wait for anything but a gate, in the order in which they are decided.
func (q *Queue) popWithMates(p *Pod, early bool, into []*Pod) []*Pod {
	if p.Group == nil {
		return append(into, q.pop(p))
	}
	from := len(into)
	p.Group.lead = p
	p.Group.wait.counted, p.Group.recalled = false, false
	for _, m := range p.Group.pods {
		if m.place != InFlight && m.place != Gated {
			into = append(into, m)
		}
	}
	if most := from + groups.MaxMembers; len(into) > most { // those that were tried least, so that all are in turn
		slices.SortFunc(into[from:], func(a, b *Pod) int { return cmp.Or(cmp.Compare(a.Attempts, b.Attempts), inGang(a, b)) })
		if slices.Contains(into[most:], p) {
			into[most-1] = p
		}
		clear(into[most:])
		into = into[:most]
	}
	slices.SortFunc(into[from:], inGang)
	last := slices.ContainsFunc(into[from:], func(m *Pod) bool { return m.isCostly() || m.Aside != 0 })
	for _, m := range into[from:] {
		if m.place != Active && (m != p || !early) {
			q.tell(Active, eventActivated)
		}
		if m.FirstAttempt.IsZero() {
			m.FirstAttempt = q.now()
		}
		q.pop(m)
		m.last = last
	}
	return into
}

// PopGroup pops all pods of a pod group that wait for anything but a gate, as PopBatch does, though it is not their turn. They need
// no Turn.
func (q *Queue) PopGroup(g *Group, into []*Pod) []*Pod {
	lead := q.waitingLead(g)
	if lead == nil {
		return into
	}
	from := len(into)
	into = q.popWithMates(lead, false, into)
	for _, p := range into[from:] {
		p.last = true
	}
	return into
}

// waitingLead is Lead of the pods that are not in flight.
func (q *Queue) waitingLead(g *Group) (lead *Pod) {
	for _, p := range g.pods {
		if p.place != Gated && p.place != InFlight && (lead == nil || q.active.before(p, lead)) {
			lead = p
		}
	}
	return lead
}

// inGang is the order in which members are decided.
func inGang(a, b *Pod) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.FirstAttempt.Compare(b.FirstAttempt), cmp.Compare(a.Seq, b.Seq))
}

// first is the pod that a pod in flight was popped for, which may be gone: its pod group is decided in the place of that.
func (q *Queue) first(p *Pod) *Pod {
	if p.Group == nil || p.Group.lead == nil {
		return p
	}
	return p.Group.lead
}
