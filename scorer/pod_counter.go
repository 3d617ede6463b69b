package scorer

import (
	"cmp"
	"slices"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// setPodCounter replaces a counter in what the shard's pods count for, or those of a part of it.
func (t *Table) setPodCounter(c *pb.CounterColumn) {
	s := &t.placed
	if c.GetToRow() == 0 {
		s.dropCounter(c.GetCounter())
	} else {
		s.dropCounterIn(c.GetCounter(), c.GetFromRow(), c.GetToRow())
	}
	r := recount{s: s, id: c.GetCounter()}
	defer r.end()
	for i, row := range c.GetPodRows() {
		at := s.find(row, c.GetPodNumbers()[i])
		value := int64(1)
		if len(c.GetPodValues()) > 0 {
			value = c.GetPodValues()[i]
		}
		if value != 0 {
			r.set(&s.ofRow[row][at], value)
		}
	}
}

// dropCounter takes a counter from all pods.
func (s *podSet) dropCounter(id uint32) {
	var has []bool // by content
	for i := range s.counts.contents {
		if s.counts.refs[i] == 0 {
			continue
		}
		if _, found := findCounter(s.counts.contents[i].counts, id); found {
			if has == nil {
				has = make([]bool, len(s.counts.contents))
			}
			has[i] = true
		}
	}
	if has == nil {
		return
	}
	r := recount{s: s, id: id}
	defer r.end()
	for row := range s.ofRow {
		for i := range s.ofRow[row] {
			if p := &s.ofRow[row][i]; int(p.counts) < len(has) && has[p.counts] {
				r.set(p, 0)
			}
		}
	}
}

// dropCounterIn takes a counter from the pods of few rows: those from one on and before another.
func (s *podSet) dropCounterIn(id uint32, from, to uint32) {
	r := recount{s: s, id: id}
	defer r.end()
	n := uint32(len(s.ofRow))
	for _, pods := range s.ofRow[min(from, n):min(to, n)] {
		for i := range pods {
			if _, found := findCounter(s.counts.contents[pods[i].counts].counts, id); found {
				r.set(&pods[i], 0)
			}
		}
	}
}

// recount gives pods another value of one counter. Pods that count alike share a content: what becomes of
// it is made once, however many they are.
type recount struct {
	s  *podSet
	id uint32
	// made holds its contents, the old and the new, so that their numbers keep their meaning. last is the last that was looked up in it,
	// now what became of it: mostly the next pod is like the last.
	made map[recounted]uint32
	last recounted
	now  uint32
}

// recounted is a content, and the counter's new value.
type recounted struct {
	counts uint32
	value  int64
}

// set gives a pod a value, 0: none.
func (r *recount) set(p *placedPod, value int64) {
	counts, was := &r.s.counts, recounted{p.counts, value}
	now := r.now
	if len(r.made) == 0 || r.last != was {
		now = r.to(was)
		r.last, r.now = was, now
	}
	counts.hold(now)
	p.counts = now
	counts.release(was.counts)
}

// to is what becomes of a content.
func (r *recount) to(was recounted) uint32 {
	now, known := r.made[was]
	if known {
		return now
	}
	counts := &r.s.counts
	now = r.s.internCounts(counts.contents[was.counts].with(r.id, was.value))
	if r.made == nil {
		r.made = map[recounted]uint32{}
	}
	r.made[was] = now
	counts.hold(was.counts)
	return now
}

// end lets the contents go.
func (r *recount) end() {
	for was, now := range r.made {
		r.s.counts.release(was.counts)
		r.s.counts.release(now)
	}
}

// with is the counts with another value of a counter, 0: without it.
func (x podCounts) with(id uint32, value int64) podCounts {
	at, found := findCounter(x.counts, id)
	rest := x.counts[at:]
	if found {
		rest = rest[1:]
	}
	list := append(make([]counterChange, 0, len(x.counts)+1), x.counts[:at]...)
	if value != 0 {
		list = append(list, counterChange{id, value})
	}
	x.counts = append(list, rest...)
	return x
}

// findCounter is the index of a counter in a list that is sorted by counter.
func findCounter(list []counterChange, id uint32) (int, bool) {
	return slices.BinarySearchFunc(list, id, func(c counterChange, id uint32) int { return cmp.Compare(c.id, id) })
}
