package coordinator

import (
	"cmp"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/preempt"
	"github.com/shardsched/shardsched/coordinator/tracing"
)

// tellGang tells what the attempt has found of a pod group, where that is something else than before.
//
// Differs from upstream: the condition's message goes on behind upstream's sentence with the numbers, and what the pod group waits for.
func (s *Scheduler) tellGang(o *gangOutcome) {
	v := o.verdict()
	if o.code == gangShort && !o.holds && s.queue.GroupOf(s.reservation.holder) != nil {
		v.Waits = fmt.Sprintf("room, some of which is held for pod group %s", s.reservation.holder)
	}
	if o.group.GivenUp() { // for this attempt was the last
		giveUp(v, o.group.Spec())
	}
	v.Follow(o.group.Verdict(), s.cfg.Now())
	o.group.SetVerdict(v)
	s.tellPodGroup(o.group, v)
}

// tellPodGroup tells where a pod group stands, by its PodGroup's condition and by an event, where that is something else than was told.
func (s *Scheduler) tellPodGroup(x *groups.Group, v *groups.Verdict) {
	spec, r := x.Spec(), s.groupReporter
	if spec == nil || r == nil {
		return
	}
	changed, event := x.Tell(v, s.cfg.Now())
	if !changed {
		return
	}
	line := v.Line()
	if v.State == groups.Scheduled {
		r.GroupCondition(spec.Object, metav1.ConditionTrue, v.State.Reason(), "")
	} else {
		r.GroupCondition(spec.Object, metav1.ConditionFalse, v.State.Reason(), line)
	}
	if !event {
		return
	}
	scheduler := v1.DefaultSchedulerName
	for m := range x.EachMember() {
		scheduler = m.Pod.Spec.SchedulerName
		break
	}
	switch v.State {
	case groups.Scheduled, groups.Gated, groups.Waiting:
		r.GroupEvent(spec.Object, scheduler, v1.EventTypeNormal, v.State.Reason(), line)
	default:
		r.GroupEvent(spec.Object, scheduler, v1.EventTypeWarning, "FailedScheduling", line)
	}
}

const (
	// newsEvery is how often pod groups are told of that were not tried: those whose members come at once start without a word about that.
	newsEvery = 2 * time.Second
	// newsAtOnce is of how many, so that whoever makes PodGroups that can't be tried fills nobody's API server.
	newsAtOnce = 256
)

// tellNews tells where pod groups stand without an attempt: gated, not tried yet, given up.
func (s *Scheduler) tellNews(now time.Time) {
	due := &s.sweeps.news
	switch {
	case !s.groups.HasNews():
		return
	case due.IsZero():
		*due = now.Add(newsEvery)
		return
	case now.Before(*due):
		return
	}
	for range newsAtOnce {
		x := s.groups.NextNews()
		if x == nil {
			break
		}
		s.tellPodGroup(x, x.Standing())
	}
	if *due = (time.Time{}); s.groups.HasNews() {
		*due = now.Add(newsEvery)
	}
}

// verdict is what is known of the pod group after the try.
func (o *gangOutcome) verdict() *groups.Verdict {
	v := &groups.Verdict{
		State: o.state(), Exist: o.group.Existing(), Held: o.group.Held(), Scheduled: o.scheduled, Fit: o.scheduled + o.fit,
		Nodes: o.nodes, Reasons: o.reasons, Base: o.sentence(), Waits: o.waits,
		Members: map[types.UID]groups.MemberState{},
	}
	if spec := o.group.Spec(); spec != nil {
		v.Need = spec.MinCount
	}
	if n := o.victims(); o.code == gangPreempting {
		v.Waits = fmt.Sprintf("preemption of %d pods", n)
	}
	if o.code == gangFits {
		v.Scheduled += o.fit
	}
	v.Domain, v.DomainFits = o.best.String(), o.bestFits
	for i := range o.members {
		m := &o.members[i]
		v.Members[m.Pod.Obj.UID] = o.memberState(m)
	}
	return v
}

func (o *gangOutcome) memberState(m *member) groups.MemberState {
	switch {
	case m.fits() && o.code == gangFits:
		return groups.Fits
	case m.node != "":
		return groups.HeldBack
	case m.end != nil:
		return groups.DoesNotFit
	}
	return groups.NotTried
}

func (o *gangOutcome) state() groups.State {
	if spec := o.group.Spec(); spec != nil && o.scheduled >= max(spec.MinCount, 1) {
		return groups.Scheduled // whatever becomes of more members
	}
	return [...]groups.State{
		gangShort: groups.Unschedulable, gangFits: groups.Scheduled, gangPreempting: groups.Preempting, gangFailed: groups.Failed,
	}[o.code]
}

// sentence is upstream's for the PodGroup, or for the members that came after its quorum was scheduled.
func (o *gangOutcome) sentence() string {
	status := cmp.Or(o.status, unschedulableGroup)
	switch {
	case o.code == gangFits:
		return ""
	case o.code == gangFailed:
		return o.whole().Error()
	case o.code == gangPreempting && o.room == nil:
		return preemptingGroup
	case o.refused == preempt.StillShort && o.group.Spec().TopologyKey != "": // upstream does not look for victims there
		return status + ", preemption would not make enough room in any domain"
	case o.refused == preempt.StillShort: // upstream adds the status of a try without the pods that might leave
		return status + ", " + status
	case o.refused != "":
		return status + ", " + o.refused
	}
	return status
}

// whole is the error of the pod group.
func (o *gangOutcome) whole() error {
	if o.failing < 0 {
		return o.err
	}
	return fmt.Errorf(otherPodFailed, o.err)
}

// victims counts the pods that have to leave.
func (o *gangOutcome) victims() (n int) {
	if o.room != nil {
		return len(o.room.Victims)
	}
	for i := range o.members {
		n += len(o.members[i].help.Victims)
	}
	return n
}

// beginGangSpan has the attempts of members traced as those of one pod group; nil: nothing is traced.
func beginGangSpan(g *groups.Group, attempts []attempt) *tracing.Gang {
	if attempts[0].Trace == nil {
		return nil
	}
	return tracing.BeginGang(g.Name().String(), len(attempts), func(i int) *tracing.Attempt { return attempts[i].Trace })
}

// endGangSpan tells a trace the verdict.
func (s *Scheduler) endGangSpan(span *tracing.Gang, o *gangOutcome) {
	if span == nil {
		return
	}
	v := tracing.GangVerdict{Fit: o.scheduled + o.fit, Domain: o.best.String(), Result: o.result()}
	if spec := o.group.Spec(); spec != nil {
		v.Need = spec.MinCount
	}
	span.Decided(v, s.cfg.Now())
}
