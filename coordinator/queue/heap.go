package queue

import "iter"

// heap is a binary heap of pods, each of which knows its index: Pod.at, or Pod.slot in the heap of
// a bucket or a tenant, or tenant.at among those that are first of a tenant. A pod is in one heap of each at a time.
type heap struct {
	before func(a, b *Pod) bool
	pods   []*Pod
	slots  bool // it is a bucket's or a tenant's
	heads  bool // it is of those that are first of a tenant
}

func (h *heap) at(p *Pod) *int {
	switch {
	case h.slots:
		return &p.slot
	case h.heads:
		return &p.tenant.at
	}
	return &p.at
}

func (h *heap) len() int { return len(h.pods) }

// head is the first pod, nil where there is none.
func (h *heap) head() *Pod {
	if len(h.pods) == 0 {
		return nil
	}
	return h.pods[0]
}

func (h *heap) push(p *Pod) {
	*h.at(p) = len(h.pods)
	h.pods = append(h.pods, p)
	h.up(len(h.pods) - 1)
}

func (h *heap) remove(p *Pod) {
	i, last := *h.at(p), len(h.pods)-1
	h.swap(i, last)
	h.pods[last] = nil
	h.pods = h.pods[:last]
	if i < last {
		h.fix(h.pods[i])
	}
}

// fix restores the order after a pod's fields have changed.
func (h *heap) fix(p *Pod) {
	if i := *h.at(p); !h.down(i) {
		h.up(i)
	}
}

// inOrder are the pods in order, each for log n. The heap must not change meanwhile.
func (h *heap) inOrder() iter.Seq[*Pod] {
	return func(yield func(*Pod) bool) {
		next := frontier{of: h}
		for next.push(0); len(next.at) > 0; {
			i := next.pop()
			if !yield(h.pods[i]) {
				return
			}
			next.push(2*i + 1)
			next.push(2*i + 2)
		}
	}
}

// frontier is a heap of the indices in another, of those pods whose parents are through.
type frontier struct {
	of *heap
	at []int
}

func (f *frontier) before(i, j int) bool { return f.of.before(f.of.pods[f.at[i]], f.of.pods[f.at[j]]) }

// push adds an index, if there is a pod.
func (f *frontier) push(index int) {
	if index >= len(f.of.pods) {
		return
	}
	f.at = append(f.at, index)
	for i := len(f.at) - 1; i > 0 && f.before(i, (i-1)/2); i = (i - 1) / 2 {
		f.at[i], f.at[(i-1)/2] = f.at[(i-1)/2], f.at[i]
	}
}

// pop takes the index of the first pod.
func (f *frontier) pop() (index int) {
	index, last := f.at[0], len(f.at)-1
	f.at[0] = f.at[last]
	f.at = f.at[:last]
	for i := 0; ; {
		child := 2*i + 1
		if right := child + 1; right < last && f.before(right, child) {
			child = right
		}
		if child >= last || !f.before(child, i) {
			return index
		}
		f.at[i], f.at[child] = f.at[child], f.at[i]
		i = child
	}
}

func (h *heap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.before(h.pods[i], h.pods[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

// down reports whether the pod moved.
func (h *heap) down(i int) bool {
	from := i
	for {
		child := 2*i + 1
		if child >= len(h.pods) {
			break
		}
		if right := child + 1; right < len(h.pods) && h.before(h.pods[right], h.pods[child]) {
			child = right
		}
		if !h.before(h.pods[child], h.pods[i]) {
			break
		}
		h.swap(i, child)
		i = child
	}
	return i > from
}

func (h *heap) swap(i, j int) {
	h.pods[i], h.pods[j] = h.pods[j], h.pods[i]
	*h.at(h.pods[i]), *h.at(h.pods[j]) = i, j
}
