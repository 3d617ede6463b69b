package shadow

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator"
)

// refusal is the condition of a pod for which they have found no node; nil: it has none.
func refusal(p *v1.Pod) *v1.PodCondition {
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable {
			return c
		}
	}
	return nil
}

// isRefusedAnew tells whether they have found no node for a pod since it was as before. A refusal in the words of the one before is not
// written.
func isRefusedAnew(before, p *v1.Pod) bool {
	was, now := refusal(before), refusal(p)
	return now != nil && (was == nil || was.Message != now.Message || !was.LastTransitionTime.Equal(&now.LastTransitionTime))
}

// changed judges what the change of a pod without a node tells: that they have found none, or that they expect it on one.
func (m *Mirror) changed(ctx context.Context, known *pendingPod, p *v1.Pod, late bool) (err error) {
	before := known.obj
	refused := isRefusedAnew(before, p)
	switch node := p.Status.NominatedNodeName; {
	case node != "" && node != before.Status.NominatedNodeName:
		err = m.nominated(ctx, known, node, refused, late)
	case refused:
		err = m.refused(ctx, known, late)
	}
	known.obj = p
	if refused {
		known.refused, known.queued = true, m.number+1
	}
	return err
}

// refused judges a pod for which they have found no node.
func (m *Mirror) refused(ctx context.Context, known *pendingPod, late bool) error {
	if why := m.unasked(known.obj); why != "" || late {
		if late && why == "" {
			why = behind
		}
		if !known.counted {
			known.counted = true
			m.notJudged(why)
		}
		return nil
	}
	agrees := func(j *coordinator.Judgement) bool { return j.Node == "" }
	j, err := m.scheduler.Judge(ctx, known.obj.UID, "", false)
	if err == nil && !agrees(j) {
		var other *coordinator.Judgement
		if other, _, err = m.otherStates(ctx, known, "", false, agrees); other != nil {
			j = other
		}
	}
	if err != nil {
		return m.failed(ctx, err)
	}
	m.doubt(known, j)
	return nil
}

// doubt notes whether we have a node for a pod that they have left pending: it is looked at again.
func (m *Mirror) doubt(known *pendingPod, j *coordinator.Judgement) {
	now := m.cfg.Now()
	if j.Node != "" {
		known.doubted = now
		m.lookAt(known, now.Add(m.limits.again))
		return
	}
	known.doubted = time.Time{}
	m.lookAt(known, now.Add(m.limits.rest))
	if !known.counted {
		known.counted = true
		m.count(func(t *tally) { t.agree(known.obj, Neither, false) })
	}
}

// look is a look at a pod that is left pending, once it is due.
type look struct {
	pod types.UID
	due time.Time
}

// lookAt plans the next look at a pod.
func (m *Mirror) lookAt(known *pendingPod, due time.Time) {
	known.look = due
	at, _ := slices.BinarySearchFunc(m.looks, due, func(l look, due time.Time) int {
		if l.due.After(due) {
			return 1
		}
		return -1
	})
	m.looks = slices.Insert(m.looks, at, look{known.obj.UID, due})
}

// looksAtOnce is how many pods are looked at again before events are taken in that are due.
const looksAtOnce = 16

// lookAgain looks again at pods that they have left pending. One that we have had a node for all the time is a disagreement: what was in
// their way is over by now, and they have had the time to see it.
func (m *Mirror) lookAgain(ctx context.Context) error {
	for range looksAtOnce {
		if len(m.looks) == 0 || m.looks[0].due.After(m.cfg.Now()) {
			return nil
		}
		l := m.looks[0]
		m.looks = m.looks[1:]
		known := m.pending[l.pod]
		if known == nil || known.look != l.due || m.unasked(known.obj) != "" {
			continue
		}
		j, err := m.scheduler.Judge(ctx, l.pod, "", false)
		switch {
		case err != nil && (ctx.Err() != nil || isStopped(err)):
			return err
		case err != nil: // it is being deleted, or waits for objects
			m.lookAt(known, m.cfg.Now().Add(m.limits.rest))
		case j.Node == "" || known.doubted.IsZero():
			m.doubt(known, j)
		default:
			if err := m.leftPending(ctx, known, j); err != nil {
				return err
			}
		}
	}
	return nil
}

// leftPending counts a pod that they have left pending and that we have a node for.
func (m *Mirror) leftPending(ctx context.Context, known *pendingPod, j *coordinator.Judgement) error {
	answer, err := m.explain(ctx, known.obj, j.Node)
	if err != nil {
		return err
	}
	why := "they said: "
	if c := refusal(known.obj); c != nil {
		why += c.Message
	}
	d := disagreement(OnlyOurs, m.cfg.Now(), "", j.Node, why)
	m.count(func(t *tally) { t.disagree(known.obj, d, func() string { return m.words(known.obj, answer) }) })
	return nil
}
