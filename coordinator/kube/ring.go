package kube

// ring is a queue that grows, and does not keep what was taken from it.
type ring[T any] struct {
	items []T
	head  int
	n     int
}

func (r *ring[T]) len() int { return r.n }

func (r *ring[T]) push(x T) {
	if r.n == len(r.items) {
		grown := make([]T, max(64, 2*r.n))
		k := copy(grown, r.items[r.head:])
		copy(grown[k:], r.items[:r.head])
		r.items, r.head = grown, 0
	}
	r.items[(r.head+r.n)%len(r.items)] = x
	r.n++
}

func (r *ring[T]) pop() T {
	var zero T
	x := r.items[r.head]
	r.items[r.head] = zero
	r.head = (r.head + 1) % len(r.items)
	r.n--
	return x
}
