package queue

import "slices"

// An event that makes room on one node helps as many pods of a class as the node has room for:
// were more to be tried, the others would be refused. The first pods in the queue's order are
// moved. Each of them represents the pods that stay: if it leaves before its attempt has succeeded or was refused
// (it is deleted, changed, gated, or its attempt ends in an error), the next pod takes its
// place. If it is refused, the others would be refused, too, unless its labels are matched by something else by now, such as the term of
// a pod that came since, and a plugin that looks at other pods has refused it: then the next pod is tried as well.
//
// Without this, 500,000 pods that wait for room would all be tried again whenever any pod ends.
//
// Differs from upstream: it tries all of them.
//
// Where the node gets a taint that such a pod does not tolerate, or loses one, another plugin refuses the node than
// before, and what the pod was told is out of date. So a number of the pods that stay is tried again, too: retellings
// of them at once, and as many each second. All others are told by their next attempt, after MaxUnschedulable at the latest.
// A crowd of up to retellings pods is told at once, as by upstream.

// retellings is 256 because as many attempts take the loop a few milliseconds: the pods that stay are of few classes.
const retellings = 256

// representative tells which waiting pods a moved pod represents, and by which event it was moved.
type representative struct {
	bucket bucketKey
	event  string
}

// nodeName is the node that an event is about; empty: it is about none.
func (e *Event) nodeName() string {
	switch {
	case e.node != nil:
		return e.node.Name
	case e.resource != AssignedPod:
	case e.action == Delete && e.oldPod.Spec.NodeName == "":
		return e.oldPod.Status.NominatedNodeName
	case e.action == Delete:
		return e.oldPod.Spec.NodeName
	case e.action == UpdatePodScaleDown:
		return e.pod.Spec.NodeName
	}
	return ""
}

// room is how many pods like this one an event can help; false: any number. All plugins that it
// helps with have to be local, and NodeResourcesFit has to be in force for the pod.
func (r *rules) room(rejectors set, p *Pod, e *Event) (n int, limited bool) {
	node := e.nodeName()
	if node == "" || r.profiles == nil || rejectors&r.fit == 0 {
		return 0, false
	}
	for _, h := range r.hooks[e.resource][e.action.index()] {
		if h.plugin&rejectors&^r.local&r.interested(e) != 0 && (h.Helps == nil || r.asksHelps(&h, p, e)) {
			return 0, false
		}
	}
	room, known := r.profiles.Room(p.Obj, p.uses().GetRequests(), node)
	return int(max(room, 0)), known
}

// retells tells whether a plugin before NodeResourcesFit now refuses a node that it did not refuse before, or the other
// way round.
//
// A node that is cordoned has no event of its own, as upstream: the taint that Kubernetes gives to such a node has one.
func (e *Event) retells(p *Pod) bool {
	if e.resource != Node || e.action != UpdateNodeTaint {
		return false
	}
	return e.node.Spec.Unschedulable != e.oldNode.Spec.Unschedulable || ToleratesAll(p.Obj, e.node) != ToleratesAll(p.Obj, e.oldNode)
}

// retold appends the pods that an event has tried again for what they are told alone, an equal number of each bucket.
func (q *Queue) retold(e *Event, into []*Pod) []*Pod {
	kept := slices.DeleteFunc(q.index.kept, func(b *bucket) bool { return b.len() <= b.room || !e.retells(b.head()) })
	now := q.now()
	for i, b := range kept {
		left := len(kept) - i
		share := min((int(q.retellings.TokensAt(now))+left-1)/left, b.len()-b.room)
		if share > 0 && q.retellings.AllowN(now, share) {
			into = append(into, b.first(b.room+share, e, nil)[b.room:]...)
		}
	}
	clear(kept)
	return into
}

// first appends the first n pods that an event may move, in the queue's order.
func (b *bucket) first(n int, e *Event, into []*Pod) []*Pod {
	if e.atMost != nil && slices.ContainsFunc(b.pods, func(p *Pod) bool { return !e.moves(p) }) {
		return b.firstOfFew(max(n, 0), e, into)
	}
	for p := range b.inOrder() {
		if n <= 0 {
			break
		}
		if e.moves(p) {
			into = append(into, p)
			n--
		}
	}
	return into
}

// firstOfFew is first where many pods may have to be passed over.
func (b *bucket) firstOfFew(n int, e *Event, into []*Pod) []*Pod {
	from := len(into)
	for _, p := range b.pods {
		if e.moves(p) {
			into = append(into, p)
		}
	}
	slices.SortFunc(into[from:], func(x, y *Pod) int {
		if b.before(x, y) {
			return -1
		}
		return 1
	})
	end := min(from+n, len(into))
	clear(into[end:])
	return into[:end]
}

// awaited appends the pods that are nominated to the node which an event has made room on: the
// room may be kept for them.
func (q *Queue) awaited(e *Event, into []*Pod) []*Pod {
	node := e.nodeName()
	if node == "" {
		return into
	}
	for _, p := range q.nominations.pods[node] {
		if p.bucket != nil && e.moves(p) && q.rules.helps(p.rejectors, p, e) {
			into = append(into, p)
		}
	}
	return into
}

// gaining leaves the members of a favoured pod group out for which a node has no more room than is held there for those that fit: no more
// of them would fit, unless others are pushed out.
func (q *Queue) gaining(e *Event, list []*Pod) []*Pod {
	class, none := uint64(0), false
	return slices.DeleteFunc(list, func(p *Pod) bool {
		if p.Group == nil || !p.Group.favoured || p.ClassID == 0 {
			return false
		}
		if p.ClassID != class {
			room, limited := q.rules.room(p.rejectors, p, e)
			class, none = p.ClassID, limited && room <= q.heldOn(e.nodeName(), p.Group) && !q.rules.mayPreempt(p)
		}
		return none
	})
}

// heldOn is for how many members of a pod group that fit room is held on a node. What has rejected these is that mates don't fit.
func (q *Queue) heldOn(node string, g *Group) (n int) {
	for _, p := range q.nominations.pods[node] {
		if p.Group == g && len(p.RejectedBy) == 1 && p.RejectedBy[0] == GangScheduling {
			n++
		}
	}
	return n
}

// speaksForItself tells whether the refusal of a pod says nothing of the pods that it represents.
func (q *Queue) speaksForItself(p *Pod) bool {
	return p.represents != nil && p.represents.bucket.matched != p.Matched && p.rejectors&^q.rules.local != 0
}

// passOn has the next pod of its class take the place of one that stood in for it.
func (q *Queue) passOn(p *Pod) {
	s := p.represents
	if s == nil {
		return
	}
	p.represents = nil
	if b := q.index.shared[s.bucket]; b != nil {
		next := b.head()
		next.represents = s
		q.requeue(next, s.event)
	}
}
