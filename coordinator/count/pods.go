package count

import (
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/selector"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// podIndex finds the selector counters that a pod adds to.
type podIndex struct {
	everywhere *podSpace // counters of all namespaces
	wide       *podSpace // of many
	spaces     map[string]*podSpace
	keptBytes  int // of what all spaces keep
	both       unions
	sight      []byte // scratch
}

// podSpace is the counters of one namespace, of many, or of all.
type podSpace struct {
	index selector.Index[*Counter]
	kept  sights[*answer]
	// unselected is how many counters leave out all pods.
	unselected int
}

// answer is a list of contributions that is kept.
type answer struct{ list []*pb.CounterValue }

func newPodIndex() podIndex {
	return podIndex{everywhere: &podSpace{}, wide: &podSpace{}, spaces: map[string]*podSpace{}}
}

func (x *podIndex) add(c *Counter, m *matched) {
	x.each(m, func(s *podSpace) {
		s.index.Add(m.selector, c)
		if m.unselected() {
			s.unselected++
		}
	})
}

func (x *podIndex) remove(c *Counter, m *matched) {
	x.each(m, func(s *podSpace) {
		s.index.Remove(m.selector, c)
		if m.unselected() {
			s.unselected--
		}
	})
	if m.among.many() {
		return
	}
	for _, name := range m.among.Names {
		if s := x.spaces[name]; s != nil && s.index.Len() == 0 {
			delete(x.spaces, name)
		}
	}
}

// each calls f for the spaces that a counter is in, whose answers change thereby.
func (x *podIndex) each(m *matched, f func(*podSpace)) {
	x.both.clear()
	switch {
	case m.among.All:
		x.everywhere.kept.forget(&x.keptBytes)
		f(x.everywhere)
		return
	case m.among.many():
		x.wide.kept.forget(&x.keptBytes)
		f(x.wide)
		return
	}
	for _, name := range m.among.Names {
		s := x.spaces[name]
		if s == nil {
			s = &podSpace{}
			x.spaces[name] = s
		}
		s.kept.forget(&x.keptBytes)
		f(s)
	}
}

// of is what a pod adds to selector counters; nil: nothing.
func (x *podIndex) of(p *v1.Pod) *answer {
	var a *answer
	if x.everywhere.index.Len() > 0 {
		a = x.in(x.everywhere, p)
	}
	if x.wide.index.Len() > 0 {
		a = x.both.of(x.in(x.wide, p), a)
	}
	if own := x.spaces[p.Namespace]; own != nil {
		a = x.both.of(x.in(own, p), a)
	}
	return a
}

// in is what a pod adds to the counters of one space.
func (x *podIndex) in(s *podSpace, p *v1.Pod) *answer {
	x.sight = s.index.Sight(p.Labels, x.sight[:0])
	if p.DeletionTimestamp != nil {
		x.sight = append(x.sight, 1)
	}
	if s == x.wide {
		x.sight = append(append(x.sight, 0), p.Namespace...)
	}
	if a, ok := s.kept.bySight[string(x.sight)]; ok {
		return a
	}
	a := s.match(p)
	x.keep(s, string(x.sight), a)
	return a
}

func (x *podIndex) keep(s *podSpace, sight string, a *answer) {
	bytes := 0
	if a != nil {
		bytes = 16 * len(a.list)
	}
	if s.kept.keep(sight, a, bytes, &x.keptBytes) {
		return
	}
	x.everywhere.kept.forget(&x.keptBytes)
	x.wide.kept.forget(&x.keptBytes)
	for _, other := range x.spaces {
		other.kept.forget(&x.keptBytes)
	}
	x.both.clear()
	s.kept.keep(sight, a, bytes, &x.keptBytes)
}

// match asks the index.
func (s *podSpace) match(p *v1.Pod) *answer {
	var list []*pb.CounterValue
	s.index.Matching(p.Labels, func(c *Counter) {
		if m := c.what.(*matched); m.passes(p) || m.among.many() && !m.among.Has(p.Namespace) {
			return
		}
		list = append(list, c.one())
	})
	if len(list) == 0 {
		return nil
	}
	return &answer{sum(list)} // a counter is found once: no value is added to
}
