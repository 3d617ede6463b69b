package queue

import (
	v1 "k8s.io/api/core/v1"
)

// OutOfTree are plugins that are written against upstream's interfaces, which may look at anything.
// All are called on the queue's goroutine.
type OutOfTree struct {
	// Plugins are those that hold pods back or turn them away. Their PreEnqueue is not asked. A pod
	// that one of them has turned away is asked about by itself, whatever its class.
	Plugins []Plugin
	// PreEnqueue gives the out-of-tree plugin that holds a pod back, and why, asking the one that does already
	// first; empty: none does. nil: none ever does.
	PreEnqueue func(pod *v1.Pod, gated string) (plugin, message string)
	// Less is the queue's order; nil: PrioritySort's.
	Less func(a, b *Pod) bool
}

// order is the queue's, where out-of-tree plugins say what it is. Of equal pods the first that came goes first.
func (g *OutOfTree) order() func(a, b *Pod) bool {
	if g == nil || g.Less == nil {
		return before
	}
	return func(a, b *Pod) bool {
		if g.Less(a, b) {
			return true
		}
		return !g.Less(b, a) && a.Seq < b.Seq
	}
}

// plugins are the out-of-tree plugins'.
func (g *OutOfTree) plugins() []Plugin {
	if g == nil {
		return nil
	}
	return g.Plugins
}

// endsIn orders pods that back off: by the end, then by the queue's order.
func endsIn(order func(a, b *Pod) bool) func(a, b *Pod) bool {
	return func(a, b *Pod) bool {
		if c := a.BackoffUntil.Compare(b.BackoffUntil); c != 0 {
			return c < 0
		}
		return order(a, b)
	}
}

// gateOutOfTree asks the out-of-tree plugins whether they hold a pod back.
func (r *rules) gateOutOfTree(p *Pod) (plugin, message string) {
	if r.outOfTree == nil || r.outOfTree.PreEnqueue == nil {
		return "", ""
	}
	return r.outOfTree.PreEnqueue(p.Obj, p.Gated)
}

// Other is the event of a resource that the queue knows nothing of, by the name that out-of-tree plugins have
// registered for it. old is nil for Add, now for Delete.
func Other(resource string, old, now any) Event {
	e := Event{resource: OtherResource, kind: resource, oldObj: old, obj: now}
	switch {
	case old == nil:
		e.action = Add
	case now == nil:
		e.action = Delete
	default:
		e.action = Update
	}
	return e
}

// Kinded tells what an event is about where the queue does not know it; empty: it does.
func (e *Event) Kinded() string { return e.kind }

// Resource is what an event is about, and Action what happened.
func (e *Event) Resource() Resource { return e.resource }

// Action is described at Resource.
func (e *Event) Action() Action { return e.action }

// Objects are the event's object as it was and as it is; nil: there is none.
func (e *Event) Objects() (old, now any) {
	switch e.resource {
	case Node:
		return orNil(e.oldNode), orNil(e.node)
	case AssignedPod, PendingPod:
		return orNil(e.oldPod), orNil(e.pod)
	}
	return e.oldObj, e.obj
}

// orNil is no pointer to nothing.
func orNil[T any](p *T) any {
	if p == nil {
		return nil
	}
	return p
}
