package queue

import (
	"slices"
	"time"
)

// A pod group that has failed waits in Unschedulable, all of its members, for what any of those that rejected one of them waits for.
//
// Where its members are of one class and priority, it is known how many more of them have to fit. Then no event has the pod group tried
// before the room that events have made may be enough. What a class has room for is the same for all pod groups that wait with it, so they
// share a bucket, which knows at most how many copies of the class fit:
//
//	copies = what the last attempt of any of them found + room of nodes that events were about since
//	called = what the pod groups want that were called and have not come to an end since
//	wants <= copies − called: it is called, the first in the queue's order first
//
// So 5,000 pod groups that wait cost one sum an event, and as many are called as may have room. One that fails nevertheless says how
// many copies there are now; with that the next one is called, or none.
//
// Differs from upstream: cluster events wake no pod group there, its backoff does.

// wait is how a pod group waits.
type wait struct {
	counted  bool
	topology string // the label of nodes of which its members want one value; copies are those in the best domain then
	wants    int
	called   bool
	caller   bucketKey
}

// mates says which members share a bucket.
type mates struct {
	of       matesOf
	priority int32
	topology string
}

type matesOf uint8

const (
	noMates      matesOf = iota // pods of no pod group
	anyMates                    // any event that helps calls the pod group
	countedMates                // room is added up
)

// copies is how many pods of a class fit, for the pod groups of a bucket.
type copies struct {
	most   int            // at the most
	seen   map[string]int // by node, the room that events have found since most was known
	called []*Group
	least  int    // no pod group of the bucket wants less; 0: not known
	event  string // the last that made room
}

// maxSeen bounds the nodes of which a bucket remembers the room. Beyond that room is added that was added before: too many are called.
const maxSeen = 4096

// mates is with which members a pod shares a bucket.
func (p *Pod) mates(class uint64) mates {
	switch g := p.Group; {
	case g == nil:
		return mates{}
	case class == 0 || !g.wait.counted:
		return mates{of: anyMates}
	default:
		return mates{countedMates, p.Priority, g.wait.topology}
	}
}

// GroupFailed tells that an attempt of a pod group has failed, after Unschedulable or Error of each of its pods: they back off as one, and
// wait together. It would have taken wants pods that fit, and fit do, in the best domain where the PodGroup names a topology; wants is 0
// where it is not known whether so many copies would do.
func (q *Queue) GroupFailed(g *Group, wants, fit int) {
	if g == nil || q.groups[g.name] != g {
		return
	}
	var (
		first   *Pod
		by      set
		until   time.Time
		counted = wants > fit
		queued  bool
	)
	g.failed = false
	for _, p := range g.pods {
		switch p.place {
		case Active, Backoff, ErrorBackoff:
			queued = true
			g.failed = g.failed || len(p.RejectedBy) == 0 && p.Attempts > 0
		case Unschedulable:
			if first == nil {
				first = p
			}
			by |= p.rejectors
			counted = counted && p.ClassID != 0 && p.ClassID == first.ClassID && p.Priority == first.Priority && !p.isLong()
		default:
			continue
		}
		if p.BackoffUntil.After(until) {
			until = p.BackoffUntil
		}
	}
	q.backOff(g)
	if first == nil {
		q.limit(g)
		return
	}
	g.wait = wait{counted: counted && !queued && !g.favoured, wants: wants}
	if x := q.states.Get(g.name); x != nil && x.Spec() != nil {
		spec := x.Spec()
		g.wait.topology = spec.TopologyKey
		if spec.Asks.SliceSize > 0 || len(spec.Asks.Preferred) > 0 || spec.TopologyKey != "" && x.Scheduled() > 0 {
			g.wait.counted = false // it is particular about domains as others of its bucket are not
		}
	}
	if g.favoured && fit > g.fit {
		until = time.Time{} // it gains room
	}
	g.fit = fit
	for _, p := range g.pods {
		if p.place == Unschedulable {
			q.index.remove(p)
			p.rejectors, p.BackoffUntil = by, until
			q.addToIndex(p)
		}
	}
	switch {
	case queued: // one of them is to be tried again in any case, and the others with it
		q.wakeMates(g, eventAttemptFailed)
	case first.bucket.mates.of == countedMates:
		c := &first.bucket.copies
		c.most, c.least, c.event = fit, 0, eventAttemptFailed
		clear(c.seen)
		q.call(first.bucket)
	}
	q.limit(g)
}

// backOff has the pods of a pod group that back off do so as its last attempt has ended: some went there before that was known.
func (q *Queue) backOff(g *Group) {
	for _, p := range g.pods {
		if to := q.retried(p); (p.place == Backoff || p.place == ErrorBackoff) && to != p.place && to != Active {
			q.take(p)
			q.put(p, to)
		}
	}
}

// placed takes in that a pod of a pod group has found a node: if it was called, there is one copy less for others.
func (q *Queue) placed(g *Group) {
	if g == nil || !g.wait.called {
		return
	}
	if b := q.index.shared[g.wait.caller]; b != nil {
		b.copies.most--
		g.wait.wants--
	}
}

// callOthers has others called, where a pod group that was called is gone.
func (q *Queue) callOthers(g *Group) {
	if b := q.index.shared[g.wait.caller]; g.wait.called && b != nil {
		q.call(b)
	}
}

// call tries the pod groups of a bucket again that there may be room for.
func (q *Queue) call(b *bucket) {
	event := b.copies.event
	for _, p := range b.call(nil) {
		if p.bucket != nil {
			q.requeue(p, event)
		}
	}
}

// queued tells whether a pod group is tried, or will be without any event.
func (g *Group) queued() bool {
	return slices.ContainsFunc(g.pods, func(p *Pod) bool { return p.place != Unschedulable && p.place != Gated })
}

// helpedCounted appends a pod of each pod group that an event calls.
func (b *bucket) helpedCounted(r *rules, e *Event, each bool, into []*Pod) []*Pod {
	helps := func(p *Pod) bool { return e.moves(p) && r.helps(b.rejectors, p, e) }
	if !slices.ContainsFunc(b.pods, e.moves) || each && !slices.ContainsFunc(b.pods, helps) || !each && !r.helps(b.rejectors, b.pods[0], e) {
		return into
	}
	room, limited := r.room(b.rejectors, b.pods[0], e)
	if !limited {
		return append(into, b.pods...)
	}
	b.copies.add(e.nodeName(), room)
	b.copies.event = e.String()
	return b.call(into)
}

// add adds the room of a node, as far as that is not added yet.
func (c *copies) add(node string, room int) {
	c.most += max(room-c.seen[node], 0)
	if c.seen == nil {
		c.seen = map[string]int{}
	}
	if len(c.seen) < maxSeen {
		c.seen[node] = room
	}
}

// call appends a pod of each pod group that there may be room for beside those that were called before.
func (b *bucket) call(into []*Pod) []*Pod {
	c := &b.copies
	free := c.most
	c.called = slices.DeleteFunc(c.called, func(g *Group) bool {
		if !g.wait.called || g.wait.caller != b.bucketKey {
			return true
		}
		if g.wait.called = g.queued(); g.wait.called {
			free -= g.wait.wants
		}
		return !g.wait.called
	})
	for free > 0 && free >= c.least {
		var best *Pod
		c.least = 0
		for _, p := range b.pods {
			w := &p.Group.wait
			switch {
			case w.called:
			case w.wants <= free && (best == nil || b.before(p, best)):
				best = p
			}
			if !w.called && (c.least == 0 || w.wants < c.least) {
				c.least = w.wants
			}
		}
		if best == nil {
			break
		}
		g := best.Group
		g.wait.called, g.wait.caller = true, b.bucketKey
		c.called = append(c.called, g)
		free -= g.wait.wants
		into = append(into, best)
	}
	return into
}
