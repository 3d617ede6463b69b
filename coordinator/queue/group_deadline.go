package queue

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardsched/shardsched/coordinator/groups"
)

// A PodGroup may say after which time it is given up, and after which it is tried again:
//
//	a member is ready for the first time ──give-up-after──> given up ──retry-after──> its members are let in, anew
//
// Differs from upstream: a pod group is tried for ever there.
//
// A pod group that is given up is gated: no event has it tried. A new member lets it in, or a change of the PodGroup.

// deadline is when something is due of a pod group.
type deadline struct {
	at    time.Time
	group *Group
}

// deadlines are in order of time. A pod group has one at the most: its due.
type deadlines []deadline

func byTime(a, b deadline) int { return a.at.Compare(b.at) }

func (d *deadlines) set(g *Group, at time.Time) {
	d.remove(g)
	g.due = at
	x := deadline{at, g}
	i, _ := slices.BinarySearchFunc(*d, x, byTime)
	*d = slices.Insert(*d, i, x)
}

func (d *deadlines) remove(g *Group) {
	if g.due.IsZero() {
		return
	}
	i, _ := slices.BinarySearchFunc(*d, deadline{at: g.due}, byTime)
	for (*d)[i].group != g {
		i++
	}
	*d, g.due = slices.Delete(*d, i, i+1), time.Time{}
}

// asks are what annotations of a pod group's PodGroup ask for, and its state; nil: there is no PodGroup.
func (q *Queue) asks(g *Group) (groups.Asks, *groups.Group) {
	if x := q.states.Get(g.name); x != nil && x.Spec() != nil {
		return x.Spec().Asks, x
	}
	return groups.Asks{}, nil
}

// limit gives up a pod group whose time is over after an attempt that has failed, or notes when it will be.
func (q *Queue) limit(g *Group) {
	asks, x := q.asks(g)
	if x == nil || asks.GiveUpAfter == 0 {
		q.deadlines.remove(g)
		return
	}
	if g.since.IsZero() {
		for _, p := range g.pods {
			if !p.FirstAttempt.IsZero() && (g.since.IsZero() || p.FirstAttempt.Before(g.since)) {
				g.since = p.FirstAttempt
			}
		}
	}
	if end := g.since.Add(asks.GiveUpAfter); q.now().Before(end) {
		q.deadlines.set(g, end)
	} else {
		q.giveUp(g)
	}
}

// expire does what is due of a pod group.
func (q *Queue) expire(g *Group) {
	q.deadlines.remove(g)
	_, x := q.asks(g)
	switch {
	case x == nil:
	case x.GivenUp():
		x.Resume()
		q.regroup(g, eventTimeout)
	case !slices.ContainsFunc(g.pods, func(p *Pod) bool { return p.place == InFlight }): // else its attempt ends first
		q.limit(g)
	}
}

// giveUp gates the members of a pod group.
func (q *Queue) giveUp(g *Group) {
	asks, x := q.asks(g)
	why := fmt.Sprintf("given up after %v: too few of its pods fit", asks.GiveUpAfter)
	q.deadlines.remove(g)
	if asks.RetryAfter > 0 {
		why += fmt.Sprintf(", it is tried again after %v", asks.RetryAfter)
		q.deadlines.set(g, q.now().Add(asks.RetryAfter))
	}
	x.GiveUp(why)
	g.givenUp = true
	for _, p := range g.pods {
		if p.place != InFlight && p.place != Gated {
			q.requeueOne(p, eventTimeout)
		}
	}
	if q.gaveUp != nil {
		q.gaveUp(g)
	}
}
