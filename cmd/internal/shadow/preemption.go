package shadow

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// A preemption of theirs is two things that are written in any order: the preemptor's status.nominatedNodeName, and on that node the
// condition DisruptionTarget of its victims. It is judged at the first of them, and held against all victims once these have had the
// time to come.

// preemption is one of theirs that was judged.
type preemption struct {
	pod     *v1.Pod
	node    string
	at      time.Time
	victims map[types.UID]*v1.Pod
	ours    *coordinator.Judgement
	// among tells that other pods preempted at about the same time: nominations and victims are written in another order than they were
	// decided in. shares: one of them did on the same node, and whose victims these are is not written anywhere.
	among, shares bool
}

// stray is a victim whose preemptor is not known yet.
type stray struct {
	pod *v1.Pod
	at  time.Time
}

// maxStrays is how many victims are kept until their preemptors come: those of other schedulers never do.
const maxStrays = 1024

// isVictim tells whether a pod has to leave for another.
func isVictim(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonPreemptionByScheduler
	})
}

func wasVictim(obj objects.Object) bool {
	p, _ := obj.(*v1.Pod)
	return p != nil && isVictim(p)
}

// victim takes in that a pod has to leave its node.
func (m *Mirror) victim(ctx context.Context, p *v1.Pod, late bool) error {
	node := p.Spec.NodeName
	for _, x := range m.opened {
		if x.node == node {
			x.victims[p.UID] = p
			return nil
		}
	}
	if m.strays = append(m.strays, stray{p, m.cfg.Now()}); len(m.strays) > maxStrays {
		m.strays = slices.Delete(m.strays, 0, 1)
	}
	if known := m.nomineeAhead(node, p); known != nil {
		return m.preempts(ctx, known, node, late)
	}
	return nil
}

// nomineeAhead is the pod that comes to be nominated to a node, above a victim; nil: none does.
func (m *Mirror) nomineeAhead(node string, victim *v1.Pod) *pendingPod {
	var list []*v1.Pod
	m.ahead(func(e *objects.Event) bool {
		if e.Kind == objects.KindPod && e.Pod.Status.NominatedNodeName == node && e.Type != objects.Deleted {
			list = append(list, e.Pod)
		}
		return true
	})
	for _, p := range list {
		if known := m.pending[p.UID]; known != nil && known.obj.Status.NominatedNodeName != node && priority(p) > priority(victim) {
			return known
		}
	}
	return nil
}

// nominated judges a pod that they have nominated to a node: for a preemption, or because they are about to bind it there.
func (m *Mirror) nominated(ctx context.Context, known *pendingPod, node string, refused, late bool) error {
	if slices.ContainsFunc(m.opened, func(x *preemption) bool { return x.pod.UID == known.obj.UID && x.node == node }) {
		return nil
	}
	if refused || len(m.victimsOn(node)) > 0 {
		return m.preempts(ctx, known, node, late)
	}
	known.expected = node
	return m.chosen(ctx, known, node, late)
}

// victimsOn are the victims on a node whose preemptor is not known: those that have come lately, and those that come.
func (m *Mirror) victimsOn(node string) map[types.UID]*v1.Pod {
	out := map[types.UID]*v1.Pod{}
	for _, s := range m.strays {
		if s.pod.Spec.NodeName == node && m.cfg.Now().Sub(s.at) <= m.patience() {
			out[s.pod.UID] = s.pod
		}
	}
	m.ahead(func(e *objects.Event) bool {
		if e.Kind == objects.KindPod && e.Pod.Spec.NodeName == node && isVictim(e.Pod) {
			out[e.Pod.UID] = e.Pod
		}
		return true
	})
	for uid := range out {
		if wasVictim(m.last[uid]) && !slices.ContainsFunc(m.strays, func(s stray) bool { return s.pod.UID == uid }) {
			delete(out, uid) // that of an earlier preemption
		}
	}
	return out
}

// patience is how long the parts of a preemption may be apart.
func (m *Mirror) patience() time.Duration { return 2 * m.limits.hold }

// preempts judges a preemption.
func (m *Mirror) preempts(ctx context.Context, known *pendingPod, node string, late bool) error {
	if why := m.unasked(known.obj); why != "" || late {
		m.notJudged(cmp.Or(why, behind))
		return nil
	}
	x := &preemption{pod: known.obj, node: node, at: m.cfg.Now(), victims: m.victimsOn(node)}
	m.strays = slices.DeleteFunc(m.strays, func(s stray) bool { return s.pod.Spec.NodeName == node })
	agrees := func(j *coordinator.Judgement) bool { return j.Nominated == node && sameVictims(j, x.victims) }
	var err error
	if x.ours, err = m.scheduler.Judge(ctx, known.obj.UID, "", true); err == nil && !agrees(x.ours) {
		var other *coordinator.Judgement
		if other, _, err = m.otherStates(ctx, known, "", true, agrees); other != nil {
			x.ours = other
		}
	}
	if err != nil {
		return m.failed(ctx, err)
	}
	for _, other := range m.opened {
		shares := other.node == node
		x.among, x.shares = true, x.shares || shares
		other.among, other.shares = true, other.shares || shares
	}
	m.opened = append(m.opened, x)
	return nil
}

// leaving are the victims that do not leave already.
func leaving(j *coordinator.Judgement) []*v1.Pod {
	return slices.DeleteFunc(slices.Clone(j.Victims), func(p *v1.Pod) bool { return p.DeletionTimestamp != nil })
}

func sameVictims(j *coordinator.Judgement, theirs map[types.UID]*v1.Pod) bool {
	ours := leaving(j)
	return len(ours) == len(theirs) && !slices.ContainsFunc(ours, func(p *v1.Pod) bool { return theirs[p.UID] == nil })
}

// noOthers tells whether all victims of theirs are ours, too.
func noOthers(j *coordinator.Judgement, theirs map[types.UID]*v1.Pod) bool {
	ours := map[types.UID]bool{}
	for _, p := range j.Victims {
		ours[p.UID] = true
	}
	for uid := range theirs {
		if !ours[uid] {
			return false
		}
	}
	return true
}

// closePreemptions counts the preemptions whose victims have had the time to come. all: no more will.
func (m *Mirror) closePreemptions(all bool) {
	now := m.cfg.Now()
	m.opened = slices.DeleteFunc(m.opened, func(x *preemption) bool {
		if !all && now.Sub(x.at) < m.patience() {
			return false
		}
		m.settle(x)
		return true
	})
}

// closePreemption counts that of a pod that is bound by now.
func (m *Mirror) closePreemption(pod types.UID) {
	m.opened = slices.DeleteFunc(m.opened, func(x *preemption) bool {
		if x.pod.UID == pod {
			m.settle(x)
		}
		return x.pod.UID == pod
	})
}

// settle counts a preemption.
func (m *Mirror) settle(x *preemption) {
	j := x.ours
	theirs := slices.Collect(maps.Values(x.victims))
	agree := func(c Class) { m.count(func(t *tally) { t.agree(x.pod, c, false) }) }
	disagree := func(c Class, ours, why string) {
		d := disagreement(c, x.at, x.node, ours, why)
		m.count(func(t *tally) { t.disagree(x.pod, d, func() string { return "" }) })
	}
	switch {
	case j.Nominated == x.node && sameVictims(j, x.victims), j.Nominated == x.node && x.shares && noOthers(j, x.victims):
		agree(Same)
	case j.Nominated != "" && j.Nominated != x.node && weightOf(theirs) == weightOf(leaving(j)):
		agree(Tie)
	case x.among:
		m.notJudged(amongOthers)
	case j.Node != "":
		disagree(OnlyOurs, j.Node, fmt.Sprintf("they preempt %s on %s, and we have a node without that", names(theirs), x.node))
	case j.Nominated == "":
		disagree(Victims, "", fmt.Sprintf("they preempt %s, and we find nobody to preempt: %s", names(theirs), j.Message))
	default:
		disagree(Victims, j.Nominated, fmt.Sprintf("they preempt %s, and we would %s", names(theirs), names(leaving(j))))
	}
}

// weight is what upstream weighs candidates by, as far as it is known afterwards: budgets are not.
type weight struct {
	highest, count int
	sum            int64
}

func weightOf(victims []*v1.Pod) (c weight) {
	for i, p := range victims {
		if n := int(priority(p)); i == 0 || n > c.highest {
			c.highest = n
		}
		c.sum += int64(priority(p))
		c.count++
	}
	return c
}

// shownVictims is how many victims are named.
const shownVictims = 8

// names names pods with their priorities.
func names(pods []*v1.Pod) string {
	if len(pods) == 0 {
		return "nobody that was seen"
	}
	list := make([]string, 0, len(pods))
	for _, p := range pods {
		list = append(list, fmt.Sprintf("%s/%s (%d)", p.Namespace, p.Name, priority(p)))
	}
	slices.Sort(list)
	if n := len(list) - shownVictims; n > 0 {
		list = append(list[:shownVictims], fmt.Sprintf("and %d more", n))
	}
	return strings.Join(list, ", ")
}
