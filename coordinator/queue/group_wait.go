package queue

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/groups"
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
// Where pods may be pushed out, there may be more copies than anybody has counted. Then an event that calls nobody calls the first in
// the queue's order nevertheless, if none is called: one pod group is tried to find out.
//
// So 5,000 pod groups that wait cost one sum an event, and as many are called as may have room. One that fails nevertheless says how
// many copies there are now; with that the next one is called, or none.
//
// Differs from upstream: cluster events wake no pod group there, its backoff does.

// wait is how a pod group waits.
type wait struct {
	counted  bool
	topology string // the label of nodes of which its members want one value; copies are those in the best domain then. within sets it
	wants    int
	need     int // how many had to fit
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
	least  int    // no pod group of the bucket that is not called wants less
	event  string // the last that made room
}

// maxSeen bounds the nodes of which a bucket remembers the room. Beyond that room is added that was added before: too many are called.
const maxSeen = 4096

// mates is with which members a pod shares a bucket.
func (p *Pod) mates(class uint64) mates {
	g, topology := p.Group, ""
	if g != nil && class != 0 {
		topology = g.wait.topology
	}
	switch {
	case g == nil:
		return mates{}
	case class == 0 || !g.wait.counted:
		return mates{of: anyMates, topology: topology}
	default:
		return mates{countedMates, p.Priority, topology}
	}
}

// within notes the topology of a pod group, so that it is tried again where a node comes to another domain: no plugin that has refused
// nodes within a domain waits for that.
func (q *Queue) within(g *Group, topology string) {
	if was := g.wait.topology; was != "" {
		if q.topologies[was]--; q.topologies[was] == 0 {
			delete(q.topologies, was)
		}
	}
	if topology != "" {
		q.topologies[topology]++
	}
	g.wait.topology = topology
}

// domainChanged is what GangScheduling waits for.
func (q *Queue) domainChanged() *Registration {
	return &Registration{Resource: Node, Actions: UpdateNodeLabel,
		If: func(e *Event) bool {
			changed := func(one, other *v1.Node) bool {
				for key, value := range one.Labels {
					if has, ok := other.Labels[key]; q.topologies[key] > 0 && (!ok || has != value) {
						return true
					}
				}
				return false
			}
			return changed(e.oldNode, e.node) || changed(e.node, e.oldNode)
		},
		Helps: func(p *Pod, e *Event) bool {
			if p.Group == nil {
				return false
			}
			was, had := e.oldNode.Labels[p.Group.wait.topology]
			now, has := e.node.Labels[p.Group.wait.topology]
			return had != has || was != now
		},
	}
}

// TopologyPlacementGenerator has rejected the members of a pod group for which there are too few domains of its keys, or too little room
// in each of them.
const TopologyPlacementGenerator = "TopologyPlacementGenerator"

// domainComes is what TopologyPlacementGenerator waits for: nodes that come to a domain of a key. What taints nodes have is nothing to it.
func domainComes(all *groups.Groups) Plugin {
	keys := func(p *v1.Pod) []string {
		if g := all.Of(p); g != nil && g.Spec() != nil {
			return []string{g.Spec().TopologyKey, g.Spec().Asks.SliceKey}
		}
		return nil
	}
	comes := func(p *Pod, e *Event) bool {
		return slices.ContainsFunc(keys(p.Obj), func(key string) bool {
			now, has := e.node.Labels[key]
			if !has || e.oldNode == nil {
				return has
			}
			was, had := e.oldNode.Labels[key]
			return !had || was != now
		})
	}
	alike := func(p *v1.Pod) likeness {
		var d digest
		d.list(keys(p))
		return d.sum()
	}
	return Plugin{Name: TopologyPlacementGenerator, Alike: alike, Events: []Registration{
		{Resource: Node, Actions: Add | UpdateNodeLabel, Helps: comes},
		{Resource: Node, Actions: UpdateNodeTaint, If: func(*Event) bool { return false }},
	}}
}

// GroupFailed tells that an attempt of a pod group has failed, after Unschedulable or Error of each of its pods: they back off as one, and
// wait together. It would have taken wants pods that fit, and fit do, in the best domain where the PodGroup names a topology; wants is 0
// where it is not known whether so many copies would do.
func (q *Queue) GroupFailed(g *Group, wants, fit int) {
	if g == nil || q.groups[g.name] != g {
		return
	}
	e, was := q.ended(g), g.wait
	q.backOff(g)
	if !e.waits {
		q.limit(g)
		return
	}
	q.within(g, "")
	g.wait = wait{counted: e.alike && !e.queued && !g.favoured && fit < wants, wants: wants}
	if x := q.states.Get(g.name); x != nil && x.Spec() != nil {
		spec := x.Spec()
		g.wait.need = x.Need()
		if q.within(g, spec.TopologyKey); spec.TopologyKey != "" {
			e.by |= q.rules.names[GangScheduling]
		}
		if spec.Asks.SliceSize > 0 || len(spec.Asks.Preferred) > 0 || spec.TopologyKey != "" && x.Scheduled() > 0 {
			g.wait.counted = false // it is particular about domains as others of its bucket are not
		}
	}
	if g.favoured && fit > g.fit {
		e.until = time.Time{} // it gains room
	}
	g.fit = fit
	if b := q.share(g, &e); b == nil && g.wait.counted {
		g.wait.counted = false
		q.share(g, &e)
	} else if g.wait.counted {
		b.copies.found(wants, fit)
		q.call(b)
	}
	if e.queued && len(g.pods) <= groups.MaxMembers { // one of them is to be tried again in any case, and the others with it
		q.wakeMates(g, eventAttemptFailed)
	}
	if b := q.index.shared[was.caller]; was.called && b != nil { // it waits in another bucket maybe
		q.call(b)
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

// ended is where an attempt has left the pods of a pod group.
type ended struct {
	waits  bool      // some wait for an event
	queued bool      // others are tried without any
	alike  bool      // room for one that waits is room for any of them
	by     set       // what has rejected those that wait
	until  time.Time // all back off as long
}

// ended looks through the pods of a pod group.
func (q *Queue) ended(g *Group) ended {
	var first *Pod
	e := ended{alike: true}
	g.failed = false
	for _, p := range g.pods {
		switch p.place {
		case Active, Backoff, ErrorBackoff:
			e.queued = true
			g.failed = g.failed || len(p.RejectedBy) == 0 && p.Attempts > 0
		case Unschedulable:
			if first == nil {
				first = p
			}
			e.waits = true
			e.by |= p.rejectors
			// The room that a pod is nominated to is no other's, whose attempts do not count it.
			e.alike = e.alike && p.ClassID != 0 && p.ClassID == first.ClassID && p.Priority == first.Priority && !p.isLong() &&
				p.Nomination() == ""
		default:
			continue
		}
		if p.BackoffUntil.After(e.until) {
			e.until = p.BackoffUntil
		}
	}
	return e
}

// share has the pods of a pod group that wait share their rejectors and their backoff, and tells the bucket that all of them are in, if
// members are counted there.
func (q *Queue) share(g *Group, e *ended) (all *bucket) {
	for _, p := range g.pods {
		if p.place == Unschedulable {
			q.index.remove(p)
			p.rejectors, p.BackoffUntil = e.by, e.until
			q.addToIndex(p)
		}
	}
	for _, p := range g.pods {
		switch {
		case p.place != Unschedulable:
		case p.bucket.mates.of != countedMates || all != nil && p.bucket != all:
			return nil
		default:
			all = p.bucket
		}
	}
	return all
}

// placed takes in that a pod leaves the queue. If it has found a node, and its pod group was called, there is one copy less for others.
func (q *Queue) placed(p *Pod) {
	g := p.Group
	if g == nil || !g.wait.called {
		return
	}
	if x := q.states.Get(g.name); x == nil {
		return
	} else if m, ok := x.Member(p.Obj.UID); !ok || m.Node == "" {
		return // it is deleted
	}
	if b := q.index.shared[g.wait.caller]; b != nil {
		b.copies.most--
		g.wait.wants--
	}
}

// inherit has a new bucket know what another one knew, whose only pod was filed anew.
func (b *bucket) inherit(was *bucket) {
	if b != was && b.bucketKey == was.bucketKey {
		b.copies = was.copies
	}
}

// release has others called in place of a pod group that was called, and of which no pod is tried any more.
func (q *Queue) release(g *Group) {
	if g == nil || !g.wait.called || g.tried > 0 {
		return
	}
	g.wait.called = false
	if b := q.index.shared[g.wait.caller]; b != nil {
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
	if into = b.call(into); len(b.copies.called) == 0 && r.mayPreempt(b.head()) {
		into = append(into, b.callGroup(b.head()))
	}
	return into
}

// mayPreempt tells whether pods may be pushed out for a pod of a pod group.
func (r *rules) mayPreempt(p *Pod) bool {
	k, ok := r.profiles.(KnowsGroups)
	return ok && k.MayPreempt(p.Obj)
}

// callGroup notes that a pod's pod group is called.
func (b *bucket) callGroup(p *Pod) *Pod {
	p.Group.wait.called, p.Group.wait.caller = true, b.bucketKey
	b.copies.called = append(b.copies.called, p.Group)
	return p
}

// found is what the last attempt of a pod group has found that wants so many.
func (c *copies) found(wants, fit int) {
	if c.most, c.event = fit, eventAttemptFailed; c.least == 0 {
		c.least = wants
	}
	c.least = min(c.least, wants)
	clear(c.seen)
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
		if g.wait.called = g.tried > 0; g.wait.called {
			free -= g.wait.wants
		}
		return !g.wait.called
	})
	if free < c.least {
		return into
	}
	least := 0 // of those that are passed over
	for p := range b.inOrder() {
		switch w := &p.Group.wait; {
		case w.called:
		case w.wants <= free:
			free -= w.wants
			into = append(into, b.callGroup(p))
		case least == 0 || w.wants < least:
			least = w.wants
		}
		if free < c.least {
			return into
		}
	}
	c.least = least
	return into
}
