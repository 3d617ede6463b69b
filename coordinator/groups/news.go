package groups

import (
	"time"

	"k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Told is what was told of a pod group last.
type Told struct {
	// Verdict is the last; nil: nothing was told. Exist is how many members there were.
	Verdict *Verdict
	// Event is when the last event was; zero: there was none.
	Event time.Time
}

// eventEvery is how long after an event of a pod group the next one is, where it is in the same state.
const eventEvery = time.Minute

// Tell takes in that a verdict is about to be told. It reports whether it says something new, and whether that is worth an event: each
// change of state is; of changes of numbers, one a minute.
//
// Differs from upstream: a PodGroup has no events there.
func (x *Group) Tell(v *Verdict, now time.Time) (changed, event bool) {
	before := x.told.Verdict
	if !v.saysMore(before) && (v.State != Gated || v.Exist == before.Exist) {
		return false, false
	}
	x.told.Verdict = v
	if event = before == nil || v.State != before.State || v.saysMore(before) && now.Sub(x.told.Event) >= eventEvery; event {
		x.told.Event = now
	}
	return true, event
}

// HasStarted tells whether it was told that the pod group has nodes: what becomes of its members then is told with attempts alone.
func (x *Group) HasStarted() bool { return x.told.Verdict != nil && x.told.Verdict.State == Scheduled }

// KeepNews has pod groups kept for NextNews.
func (g *Groups) KeepNews() {
	if g != nil {
		g.keepsNews = true
	}
}

// HasNews tells whether NextNews has a pod group.
func (g *Groups) HasNews() bool { return g != nil && len(g.news) > 0 }

// NextNews is the pod group that was changed first, without an attempt, of those that are not told yet: it is gated, not tried yet, or
// given up. nil: there is none. A pod group of which no pod of this scheduler waits is none: it may be another scheduler's.
func (g *Groups) NextNews() *Group {
	for g.HasNews() {
		x := g.news[0]
		g.news[0] = nil
		if g.news = g.news[1:]; len(g.news) == 0 {
			g.news = nil
		}
		x.isNews = false
		if x.counted && x.isToBeTold() {
			return x
		}
	}
	return nil
}

// note has a pod group told that was changed.
func (g *Groups) note(x *Group) {
	if g.keepsNews && !x.isNews && x.isToBeTold() {
		x.isNews = true
		g.news = append(g.news, x)
	}
}

func (x *Group) isToBeTold() bool {
	if x.spec == nil || len(x.members) == x.placed || x.HasStarted() {
		return false
	}
	switch x.share.state {
	case Gated, GivenUp:
		return true
	case Waiting: // what an earlier leader's attempt has found says more
		c := meta.FindStatusCondition(x.spec.Object.Status.Conditions, v1alpha2.PodGroupScheduled)
		return c == nil || c.Reason == Gated.Reason() || c.Reason == Waiting.Reason() || c.Reason == GivenUp.Reason()
	}
	return false
}

// remembers is what earlier leaders have told of a PodGroup that starts to be known.
func remembers(obj *v1alpha2.PodGroup) (t Told) {
	if meta.IsStatusConditionTrue(obj.Status.Conditions, v1alpha2.PodGroupScheduled) {
		t.Verdict = &Verdict{State: Scheduled}
	}
	return t
}
