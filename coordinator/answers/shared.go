package answers

import (
	"slices"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// sharing knows which classes share an answer: classes that differ only in what they count, such as those of Deployments
// that spread by default. They have one base class (compile.Class.Base), which counts no pods. The workers are asked
// only about the base, and its answer is repaired once for all of its classes. Each class has a view of that answer. A
// row without pods that the class counts has the same verdict for the class as for the base. The other rows, which are few,
// are the view's own.
type sharing struct {
	engine *Engine
	of     map[uint64]*sharers // by the id of the base class
	// views are the views of classes with recent decisions, by class. readers are the views that read a counter.
	views   map[uint64]*View
	readers map[uint32][]*View
	rows    int // own rows of all views
}

// sharers are the classes of a base class.
type sharers struct {
	base *compile.Class
	seen map[uint64]struct{}
	// left are the classes that have left the shared answer, because their own rows cost more than an answer of their own.
	// The value is how many classes were seen then.
	left map[uint64]int
}

func newSharing(e *Engine) sharing {
	return sharing{engine: e, of: map[uint64]*sharers{}, views: map[uint64]*View{}, readers: map[uint32][]*View{}}
}

// mostRows is how many own rows a view may have in a cluster of so many nodes. Each takes a microsecond when the view begins.
// This is weighed against the changes, which every class with an answer of its own has to repair, and against the
// workers' pass over all rows.
func (s *sharing) mostRows(base uint64, nodes int) int {
	l, x := &s.engine.limits, s.of[base]
	if x == nil {
		return l.OwnRows
	}
	return max(min(l.OwnRows*len(x.seen), max(nodes/l.OwnMost, l.OwnFew)), nodes/l.OwnShare)
}

// join adds a class to the sharers of its base.
func (s *sharing) join(c *compile.Class) {
	if c.Base == nil || c.Base.Scorer.MemoryBytes() > largeClass {
		return
	}
	x := s.of[c.Base.ID()]
	if x == nil {
		if len(s.of) >= s.engine.limits.Bases {
			clear(s.of)
		}
		x = &sharers{c.Base, map[uint64]struct{}{}, map[uint64]int{}}
		s.of[c.Base.ID()] = x
	}
	if len(x.seen) < s.engine.limits.CountedClasses {
		x.seen[c.ID()] = struct{}{}
	}
}

// baseOf is the base class whose shared answer a class uses; nil: the class has an answer of its own.
func (s *sharing) baseOf(c *compile.Class) *compile.Class {
	if c.Base == nil {
		return nil
	}
	x := s.of[c.Base.ID()]
	if x == nil || len(x.seen) < s.engine.limits.Sharers {
		return nil
	}
	if n, left := x.left[c.ID()]; left && len(x.seen) < 2*n {
		return nil
	}
	// Without a view, the class finds out here whether it will have one: before the base is asked for nothing, and before its own
	// answer is given up.
	if s.views[c.ID()] == nil && s.atLeast(c.Scorer) > s.mostRows(c.Base.ID(), s.engine.tables.Nodes()) {
		s.leave(c)
		return nil
	}
	return x.base
}

// atLeast is a lower bound of the number of own rows that a class's view would begin with.
func (s *sharing) atLeast(class *scorer.Class) (rows int) {
	t := s.engine.tables
	for _, counter := range class.GroupCounters() {
		n := 0
		for shard := range t.NumShards() {
			n += t.Table(shard).CountRows(counter)
		}
		rows = max(rows, n)
	}
	return rows
}

// leave gives a class an answer of its own from now on, until its base has twice as many classes.
func (s *sharing) leave(c *compile.Class) {
	s.drop(c.ID())
	if x := s.of[c.Base.ID()]; x != nil {
		if len(x.left) >= s.engine.limits.Views {
			clear(x.left)
		}
		x.left[c.ID()] = len(x.seen)
	}
}

// drop forgets the view of a class.
func (s *sharing) drop(id uint64) {
	v := s.views[id]
	if v == nil {
		return
	}
	delete(s.views, id)
	s.rows -= len(v.own)
	for _, counter := range v.class.GroupCounters() {
		list := slices.DeleteFunc(s.readers[counter], func(o *View) bool { return o == v })
		if len(list) == 0 {
			delete(s.readers, counter)
		} else {
			s.readers[counter] = list
		}
	}
	*v = View{gone: true} // the base's answer may still list the view as an owner
}

// dropReaders drops the views that read a counter that was set anew.
func (s *sharing) dropReaders(columns []uint32) {
	for _, counter := range columns {
		for _, v := range slices.Clone(s.readers[counter]) {
			s.drop(v.class.ID())
		}
	}
}

// evict drops the views whose base has lost its answer, because changes are logged only while there is an answer. Too many views
// are dropped all at once.
func (s *sharing) evict(held map[uint64]*Answer) {
	many := len(s.views) > s.engine.limits.Views || s.rows > s.engine.limits.allOwnRows(s.engine.tables.Nodes())
	for id, v := range s.views {
		if many || v.of.class == nil || held[v.of.class.ID()] != v.of {
			s.drop(id)
		}
	}
}

// counted notes that counters of a row have changed.
func (s *sharing) counted(row cache.Row, changes []*pb.CounterValue) {
	for _, c := range changes {
		for _, v := range s.readers[c.GetCounter()] {
			v.markDirty(row)
		}
	}
}

// viewOf brings a class's view up to date with the repaired answer of its base. It is nil where an answer of the class's own
// costs less: the view has too many own rows, or walks past too many of them to find the best other row.
func (s *sharing) viewOf(c *compile.Class, base *Answer) *View {
	l := &s.engine.limits
	most, pass := s.mostRows(base.class.ID(), s.engine.tables.Nodes()), l.OwnRows
	if x := s.of[base.class.ID()]; x != nil {
		pass *= len(x.seen)
	}
	v := s.views[c.ID()]
	if v == nil {
		v = &View{engine: s.engine, class: c.Scorer}
		s.views[c.ID()] = v
		for _, counter := range c.Scorer.GroupCounters() {
			s.readers[counter] = append(s.readers[counter], v)
		}
	}
	// The own rows may be the best rows of each decision: then every decision walks past them.
	if v.passed = max(0, v.passed-pass); v.passed > l.PassedRows {
		return nil
	}
	before := len(v.own)
	anew := v.of != base || v.begunAt != base.begun || v.lost || len(v.result.Groups) > 4*v.opened+256
	if !anew {
		v.follow()
		if anew = len(v.own) > most; anew { // many of them may have lost the pods that the class counts
			most /= 2
		}
	}
	costly := anew && s.atLeast(v.class) > most
	if anew && !costly {
		v.begin(base, most)
	}
	s.rows += len(v.own) - before
	if costly || len(v.own) > most {
		return nil
	}
	return v
}

// logMove logs for the views that a row has left a group. same tells that its share of the measures is the same.
func (a *Answer) logMove(r *repairedRow, from int, same bool) {
	if !a.shared {
		return
	}
	if len(a.moves) >= a.engine.limits.Moves || !same {
		a.begun++ // the views begin anew
		a.moves = a.moves[:0]
		return
	}
	a.moves = append(a.moves, groupMove{int32(r.at), int32(from), int32(r.group)})
}

// owned makes a repaired row a view's own.
func (a *Answer) owned(at int, o owner) {
	for len(a.owners) <= at {
		a.owners = append(a.owners, nil)
	}
	switch list := a.owners[at]; {
	case list == nil: // most rows have one owner
		if len(a.firstOwners) == 0 {
			a.firstOwners = make([]owner, min(at+1, 256))
		}
		a.owners[at], a.firstOwners = a.firstOwners[:0:1], a.firstOwners[1:]
	case len(list) == cap(list):
		a.owners[at] = slices.DeleteFunc(list, func(o owner) bool { return o.outdated() })
	}
	a.owners[at] = append(a.owners[at], o)
}

// stir tells the owners of a row that its score may have changed.
func (a *Answer) stir(r *repairedRow) {
	if r.at >= len(a.owners) {
		return
	}
	list := a.owners[r.at]
	for i := 0; i < len(list); {
		if o := list[i]; o.outdated() || !o.of.stir(o.at) {
			list[i] = list[len(list)-1]
			list = list[:len(list)-1]
			continue
		}
		i++
	}
	a.owners[r.at] = list
}
