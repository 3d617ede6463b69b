package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/queue"
)

// Where SchedulerConfig.GangReservation is set, room is held for one gang: the first in the queue's order that can't start. Its members
// that fit are nominated to their nodes, so that pods of its priority and below leave the room alone that they would take, except pods that
// end before the gang may start (gang_backfill.go); all others may fill what is left. The gang goes before pods of its priority where more
// room becomes free, and so it gains room until it starts. That ends once it has started, is gone, gated or given up, or the next gang that
// fails is of higher priority.
//
// No room is held for a gang that would not fit if no other pod were there (gang_room.go): it would be held for nothing. Nor is it held
// for longer than mostHeld in a row, for nobody knows what else a gang lacks:
//
//	held ── mostHeld, and it has not started ──> rests ── mostHeld ──> held, at the next attempt
//	                                               └─ meanwhile, room may be held for another gang
//
// Differs from upstream: no room is held there, and a big gang waits for as long as small pods keep coming.

// mostHeld is for how long room is held in a row, and for how long it is not held after that, by the queue's clock: as long as a job that
// makes room may take to end in most clusters of batch jobs, and as long as pods of others can bear to wait.
const mostHeld = 10 * time.Minute

// reservation is for which pod group room is held.
type reservation struct {
	holder   types.NamespacedName // zero: for none
	since    time.Time
	forecast forecast // of the holder
	// rests are until when room is not held for pod groups for which it was held for too long.
	rests map[types.NamespacedName]time.Time
	// judged are how many pods would fit without others.
	judged map[types.NamespacedName]emptiedRoom
}

// wakes is when the room is let go, or a new forecast is due before that; zero: none is held.
func (r *reservation) wakes() time.Time {
	if next := r.forecast.at.Add(forecastEvery); r.forecast.of != nil && next.Before(r.ends()) {
		return next
	}
	return r.ends()
}

// ends is when the room is let go; zero: none is held.
func (r *reservation) ends() time.Time {
	if r.holder == (types.NamespacedName{}) {
		return time.Time{}
	}
	return r.since.Add(mostHeld)
}

// holdsFor tells whether the room that an attempt has found stays held for the pod group, which was too little for it.
func (s *Scheduler) holdsFor(o *gangOutcome) bool {
	g, spec, r := o.members[0].Pod.Group, o.group.Spec(), &s.reservation
	if !s.cfg.GangReservation || o.code != gangShort || g == nil || spec == nil || !spec.Gang || o.group.Scheduled() >= spec.MinCount {
		return false
	}
	if !o.members[0].Profile.PodGroups().Counts { // its members need not fit together
		return false
	}
	holder := s.queue.GroupOf(r.holder)
	switch {
	case holder == g:
		if s.fitsEmptied(o) {
			return true
		}
		s.endHold("it would not fit if no other pod were there")
		return false
	case holder != nil:
		if lead := s.queue.Lead(holder); lead != nil && s.queue.Before(lead, s.queue.Lead(g)) {
			return false
		}
	}
	if s.cfg.QueueNow().Before(r.rests[g.Name()]) || !s.fitsEmptied(o) {
		return false
	}
	s.endHold("another pod group goes before it")
	klog.FromContext(s.life).V(2).Info("Hold room for a pod group", "podGroup", klog.KRef(g.Name().Namespace, g.Name().Name))
	r.holder, r.since = g.Name(), s.cfg.QueueNow()
	s.queue.Favour(g, true)
	return true
}

// reviewHold gives the room to others that is held for a pod group which does not wait for room any more, or has it held for too long.
// It is called with each turn, and once members of the pod group are placed.
func (s *Scheduler) reviewHold() {
	r := &s.reservation
	if r.holder == (types.NamespacedName{}) {
		return
	}
	g, x, now := s.queue.GroupOf(r.holder), s.groups.Get(r.holder), s.cfg.QueueNow()
	waits := g != nil && x != nil && x.Spec() != nil && x.Scheduled() < x.Spec().MinCount && s.waitsForRoom(g)
	if waits && now.Before(r.ends()) {
		if f := &r.forecast; f.of != nil && now.Sub(f.at) >= forecastEvery {
			s.renewForecast(now)
		}
		return
	}
	why := "it does not wait for room"
	if waits {
		why = fmt.Sprintf("it was held for %v", mostHeld)
		maps.DeleteFunc(r.rests, func(_ types.NamespacedName, until time.Time) bool { return !now.Before(until) })
		if r.rests == nil {
			r.rests = map[types.NamespacedName]time.Time{}
		}
		r.rests[r.holder] = now.Add(mostHeld)
	}
	s.endHold(why)
}

// waitsForRoom tells whether pods of a pod group may be tried, or will be once they have told their victims to leave.
func (s *Scheduler) waitsForRoom(g *queue.Group) bool {
	return slices.ContainsFunc(g.Pods(), func(p *queue.Pod) bool {
		_, preempts := s.preemptions.gated[p.Obj.UID]
		return p.Place() != queue.Gated || preempts
	})
}

// endHold gives the room that is held to others, if any is.
func (s *Scheduler) endHold(why string) {
	name := s.reservation.holder
	if name == (types.NamespacedName{}) {
		return
	}
	klog.FromContext(s.life).V(2).Info("Give room that was held to others", "podGroup", klog.KRef(name.Namespace, name.Name), "why", why)
	if g := s.queue.GroupOf(name); g != nil {
		s.letGo(g)
	}
	s.reservation.holder, s.reservation.forecast = types.NamespacedName{}, forecast{}
}

// letGo gives the room that is held for a pod group to others.
func (s *Scheduler) letGo(g *queue.Group) {
	s.queue.Favour(g, false)
	for _, p := range g.Pods() {
		if node := p.NominatedNode; node != "" {
			s.unnominate(p)
			s.tellFree(p, node)
		}
	}
}

// unnominate ends the nomination of a pod that waits.
func (s *Scheduler) unnominate(p *queue.Pod) {
	s.queue.Nominate(p, "")
	s.journal.Put(p.Obj.UID, s.queue.Entry(p))
	s.cfg.Reporter.Unnominated(p.Obj)
}

// isLeftHeld tells whether an earlier leader has held room for a pod whose pod group can't start any more.
func (s *Scheduler) isLeftHeld(p *queue.Pod) bool {
	return s.cfg.GangReservation && p.Gated == queue.GangScheduling && p.Nomination() != ""
}

// tellFree has pods tried again that may use the room which is held for a pod on a node, or was.
func (s *Scheduler) tellFree(p *queue.Pod, node string) {
	s.move(queue.AssignedPodDeleted(withNode(p.Obj, node)))
}

// reserved is the room that is held for a pod group; nil: none is.
func (s *Scheduler) reserved() *observe.HeldRoom {
	g := s.queue.GroupOf(s.reservation.holder)
	if g == nil {
		return nil
	}
	x := &observe.HeldRoom{PodGroup: g.Name(), Nodes: map[string]int{}}
	if starts := s.reservation.forecast.starts; starts.After(s.cfg.QueueNow()) {
		x.Starts = starts
	}
	for _, p := range g.Pods() {
		if p.NominatedNode != "" {
			x.Nodes[p.NominatedNode]++
			x.Priority = max(x.Priority, p.Priority)
		}
	}
	return x
}

// unreserved is why no room is held for a pod group; "": others go before it, or it does not ask.
func (s *Scheduler) unreserved(name types.NamespacedName) string {
	r := &s.reservation
	if until := r.rests[name]; s.cfg.QueueNow().Before(until) {
		return fmt.Sprintf("it was held for %v, and the pod group has not started; others may have it until %s", mostHeld,
			until.UTC().Format(time.RFC3339))
	}
	if room, judged := r.judged[name]; judged && !room.fits() {
		return room.String()
	}
	return ""
}
