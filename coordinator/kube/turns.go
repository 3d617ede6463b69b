package kube

import "slices"

// turns is a queue whose namespaces take turns, so that a namespace with many items keeps another's waiting for one
// item of its own at a time. Within a namespace the first in is the first out. It does not keep what was taken.
type turns[T any] struct {
	of func(T) (namespace string)
	// waiting are the items by namespace, and order the namespaces that have some, the next first.
	waiting map[string][]T
	order   []string
	n       int
	resting map[string]struct{} // namespaces that have no turn
}

func newTurns[T any](of func(T) string) *turns[T] {
	return &turns[T]{of: of, waiting: map[string][]T{}, resting: map[string]struct{}{}}
}

// Len is how many items there are; Len, Push, Pop and Touch make it a workqueue.Queue.
func (q *turns[T]) Len() int { return q.n }

// Touch is called for an item that waits already.
func (q *turns[T]) Touch(T) {}

// Push adds an item.
func (q *turns[T]) Push(x T) {
	namespace := q.of(x)
	items := q.waiting[namespace]
	if _, rests := q.resting[namespace]; len(items) == 0 && !rests {
		q.order = append(q.order, namespace)
	}
	q.waiting[namespace] = append(items, x)
	q.n++
}

// Rest puts an item back, behind its namespace's others, and leaves the namespace without a turn until Resume. It
// reports whether the rest begins.
func (q *turns[T]) Rest(x T) (begins bool) {
	namespace := q.of(x)
	_, rests := q.resting[namespace]
	q.resting[namespace] = struct{}{}
	q.order = slices.DeleteFunc(q.order, func(n string) bool { return n == namespace })
	q.Push(x)
	return !rests
}

// Resume ends a namespace's rest.
func (q *turns[T]) Resume(namespace string) {
	delete(q.resting, namespace)
	q.order = append(q.order, namespace) // of what was put back, something is there
}

// Pop takes the first item of the namespace whose turn it is. There has to be one.
func (q *turns[T]) Pop() T {
	namespace := first(&q.order)
	items := q.waiting[namespace]
	x := first(&items)
	if q.n--; len(items) == 0 {
		delete(q.waiting, namespace)
	} else {
		q.waiting[namespace] = items
		q.order = append(q.order, namespace)
	}
	return x
}

func first[T any](of *[]T) T {
	x := (*of)[0]
	clear((*of)[:1])
	*of = (*of)[1:]
	return x
}
