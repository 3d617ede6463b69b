package queue

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
