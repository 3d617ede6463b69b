package coordinator

import (
	"cmp"
	"fmt"

	"k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/groups"
)

// tellGang tells what the attempt has found of a pod group, where that is something else than before.
//
// Differs from upstream: the condition's message goes on behind upstream's sentence with the numbers, and what the pod group waits for.
func (s *Scheduler) tellGang(o *gangOutcome) {
	v := o.verdict()
	if o.code == gangShort && !o.holds && s.queue.GroupOf(s.holder) != nil {
		v.Waits = fmt.Sprintf("room, some of which is held for pod group %s", s.holder)
	}
	changed := v.Follow(o.group.Verdict(), s.cfg.Now())
	o.group.SetVerdict(v)
	spec := o.group.Spec()
	if !changed || spec == nil {
		return
	}
	status, reason, message := metav1.ConditionFalse, v1alpha2.PodGroupReasonUnschedulable, v.Line()
	switch v.State {
	case groups.Scheduled:
		status, reason, message = metav1.ConditionTrue, "Scheduled", ""
	case groups.Failed:
		reason = v1alpha2.PodGroupReasonSchedulerError
	}
	if r, tells := s.cfg.Reporter.(GroupReporter); tells {
		r.GroupCondition(spec.Object, status, reason, message)
	}
}

// verdict is what is known of the pod group after the try.
func (o *gangOutcome) verdict() *groups.Verdict {
	v := &groups.Verdict{
		State: o.state(), Exist: o.group.Existing(), Scheduled: o.scheduled, Fit: o.scheduled + o.fit,
		Nodes: o.nodes, Reasons: o.reasons, Base: o.sentence(), Members: map[types.UID]groups.MemberState{},
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
	switch {
	case o.code == gangFits:
		return ""
	case o.code == gangFailed:
		return o.whole().Error()
	case o.code == gangPreempting && o.room == nil:
		return preemptingGroup
	case o.refused != "":
		return cmp.Or(o.status, unschedulableGroup) + ", " + o.refused
	}
	return cmp.Or(o.status, unschedulableGroup)
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
