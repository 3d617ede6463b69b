package coordinator

import (
	"context"
	"slices"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/tracing"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// familySize is from how many classes on a family has one answer for all.
const familySize = 2

// Tests make them smaller.
var (
	// maxFamilies is how many of them are known at the most, and maxSiblings how many of their siblings
	// are kept.
	maxFamilies, maxSiblings = 1024, 4096
	// maxSharedRows is how many rows the answer of a family may have repaired, and maxOwnRows how many
	// rows all siblings may have of their own, of some 350 bytes each.
	maxSharedRows, maxOwnRows = 1 << 17, 1 << 18
	// ownRows is how many rows a class may have of its own for each of its family, and ownShare the part of
	// all rows that it may have whatever its family is: to begin with one takes a microsecond, which is
	// about what a change costs each class that is asked by itself, and what a pass takes for so many rows.
	// ownMost is the part that it may have however large its family is, and ownFew how many in a small cluster.
	ownRows, ownShare, ownMost, ownFew = 32, 32, 8, 512
	// countedClasses is how many classes of a family are counted.
	countedClasses = 1024
	// maxPassed is how many rows of its own a sibling may walk past to find others, on top of ownRows a
	// decision for each of its family.
	maxPassed = 1 << 14
	// maxDirty is how many changes a sibling takes in before it begins anew.
	maxDirty = 1024
	// maxMoves is how many moves of rows a base keeps before all of its siblings begin anew.
	maxMoves = 1 << 16
)

// families are the classes that are the same but for what they count, such as the Pods of Deployments that
// spread: they have one base, compile.Class.Base. The workers are asked about the base alone, and its
// answer is repaired once for all of them. A row of which a class counts nothing is what it is to the base;
// the others, few, are its own.
type families struct {
	of map[uint64]*family // by the id of the base
	// siblings are those that have decided of late, by class. readers find them by what they count.
	siblings map[uint64]*sibling
	readers  map[uint32][]*sibling
	rows     int // of their own, in all
	// size is from how many classes on a family has one answer.
	size int
}

// family is the classes of a base.
type family struct {
	base *compile.Class
	seen map[uint64]struct{}
	// apart are the classes that are asked by themselves all the same, for what their own rows cost, each
	// with how many classes were seen then.
	apart map[uint64]int
}

// most is how many rows of so many a class may have of its own.
func (x *family) most(nodes int) int {
	return max(min(ownRows*len(x.seen), max(nodes/ownMost, ownFew)), nodes/ownShare)
}

func newFamilies() families {
	return families{of: map[uint64]*family{}, siblings: map[uint64]*sibling{}, readers: map[uint32][]*sibling{}, size: familySize}
}

// join makes a class one of its family.
func (f *families) join(c *compile.Class) {
	if c.Base == nil || c.Base.Scorer.MemoryBytes() > largeClass {
		return
	}
	x := f.of[c.Base.ID()]
	if x == nil {
		if len(f.of) >= maxFamilies {
			clear(f.of)
		}
		x = &family{c.Base, map[uint64]struct{}{}, map[uint64]int{}}
		f.of[c.Base.ID()] = x
	}
	if len(x.seen) < countedClasses {
		x.seen[c.ID()] = struct{}{}
	}
}

// baseOf is the base that a class is asked by; nil: it is asked by itself.
func (f *families) baseOf(c *compile.Class) *compile.Class {
	if c.Base == nil {
		return nil
	}
	x := f.of[c.Base.ID()]
	if x == nil || len(x.seen) < f.size {
		return nil
	}
	if n, apart := x.apart[c.ID()]; apart && len(x.seen) < 2*n {
		return nil
	}
	return x.base
}

// part has a class asked by itself from now on.
func (f *families) part(c *compile.Class) {
	f.drop(c.ID())
	if x := f.of[c.Base.ID()]; x != nil {
		if len(x.apart) >= maxSiblings {
			clear(x.apart)
		}
		x.apart[c.ID()] = len(x.seen)
	}
}

// drop forgets a sibling.
func (f *families) drop(id uint64) {
	m := f.siblings[id]
	if m == nil {
		return
	}
	delete(f.siblings, id)
	f.rows -= len(m.own)
	for _, counter := range m.class.GroupCounters() {
		list := slices.DeleteFunc(f.readers[counter], func(o *sibling) bool { return o == m })
		if len(list) == 0 {
			delete(f.readers, counter)
		} else {
			f.readers[counter] = list
		}
	}
	*m = sibling{gone: true} // the base may name it as an owner for long yet
}

// recount forgets the siblings that read counters which were set anew.
func (f *families) recount(columns []uint32) {
	for _, counter := range columns {
		for _, m := range slices.Clone(f.readers[counter]) {
			f.drop(m.class.ID())
		}
	}
}

// hold forgets the siblings whose base has no answer any more, and all where they are too many: changes
// are told of only while there is an answer.
func (f *families) hold(held map[uint64]*pick) {
	many := len(f.siblings) > maxSiblings || f.rows > maxOwnRows
	for id, m := range f.siblings {
		if many || m.of.class == nil || held[m.of.class.ID()] != m.of {
			f.drop(id)
		}
	}
}

// counted notes that counters of a row have changed.
func (f *families) counted(row cache.Row, changes []*pb.CounterValue) {
	for _, c := range changes {
		for _, m := range f.readers[c.GetCounter()] {
			m.touch(row)
		}
	}
}

// sibling is one class of a family: the rows of its own, and what becomes of the base's groups without them.
type sibling struct {
	class    *scorer.Class
	result   scorer.Result // without candidates
	standing scorer.Standing
	settled  bool
	// of is the base, answer the one of its answers that the sibling goes by, and moves how many of its
	// moves it has seen. groups are the groups of the base in result.
	of     *pick
	answer uint64
	moves  int
	groups []int32
	opened int // groups of result when it was begun
	// own are the rows of which it counts something, or did; index finds them.
	own   []ownRow
	index rowIndex
	// ranked are those of each group, by what they score, and heaped is how many they are in all, outdated
	// ones included. stirred are the rows that may score otherwise by now.
	ranked  []rowHeap
	heaped  int
	stirred []int32
	found   []scorer.Candidate // scratch memory
	// passed are rows of its own that were walked past to find others, less what that may cost.
	passed int
	// begun is how often it has begun anew; gone: it is not kept any more.
	begun int
	gone  bool
	// dirty are rows whose counters have changed; lost: there were too many.
	dirty []cache.Row
	lost  bool
}

// ownRow is a row of which a class counts something.
type ownRow struct {
	at      int32 // in the base's repaired rows
	group   int32 // in the sibling's result, -1: it is refused
	version uint32
	verdict scorer.Verdict
}

// owner is a sibling that has a row of its base for its own, with the place among those since it was begun
// for the nth time.
type owner struct {
	of    *sibling
	at    int32
	begun int
}

// outdated tells whether it is of a sibling that has begun anew since, or is gone.
func (o *owner) outdated() bool { return o.of.gone || o.of.begun != o.begun }

// stir notes that a row of its own may score otherwise; false: it has to begin anew.
func (m *sibling) stir(at int32) bool {
	if m.lost {
		return false
	}
	if len(m.stirred) >= maxDirty+len(m.own) {
		m.lost = true
		return false
	}
	m.stirred = append(m.stirred, at)
	return true
}

// touch notes that counters of a row have changed.
func (m *sibling) touch(row cache.Row) {
	if n := len(m.dirty); n > 0 && m.dirty[n-1] == row || m.lost {
		return
	}
	if len(m.dirty) == maxDirty {
		m.lost, m.dirty = true, m.dirty[:0]
		return
	}
	m.dirty = append(m.dirty, row)
}

// sibling brings a class's sibling up to date with its base, which is repaired; nil where its own rows, too
// many or too often before all others, cost more than an answer of its own.
func (f *families) sibling(class *scorer.Class, base *pick, t tables, e *scorer.Evaluator) *sibling {
	most, pass := ownRows, ownRows
	if x := f.of[base.class.ID()]; x != nil {
		most, pass = x.most(t.Nodes()), ownRows*len(x.seen)
	}
	m := f.siblings[class.ID()]
	if m == nil {
		m = &sibling{class: class}
		f.siblings[class.ID()] = m
		for _, counter := range class.GroupCounters() {
			f.readers[counter] = append(f.readers[counter], m)
		}
	}
	// Its own rows may stand before all others, decision by decision.
	if m.passed = max(0, m.passed-pass); m.passed > maxPassed {
		return nil
	}
	before := len(m.own)
	anew := m.of != base || m.answer != base.answers || m.lost || len(m.result.Groups) > 4*m.opened+256
	if !anew {
		m.follow(t, e)
		if anew = len(m.own) > most; anew { // of many of them it may count nothing any more
			most /= 2
		}
	}
	costly := anew && m.atLeast(t) > most
	if anew && !costly {
		m.begin(base, most, t, e)
	}
	f.rows += len(m.own) - before
	if costly || len(m.own) > most {
		return nil
	}
	return m
}

// atLeast is how many rows it would have to begin with, or fewer.
func (m *sibling) atLeast(t tables) (rows int) {
	for _, counter := range m.class.GroupCounters() {
		n := 0
		for shard := range t.NumShards() {
			n += t.Table(shard).CountRows(counter)
		}
		rows = max(rows, n)
	}
	return rows
}

// begin starts from the base as it is now, and takes the rows of its own out: not many more than most.
func (m *sibling) begin(base *pick, most int, t tables, e *scorer.Evaluator) {
	m.of, m.answer, m.moves = base, base.answers, len(base.moves)
	m.class = m.class.PinAs(base.class)
	m.settled, m.lost = false, false
	m.begun++
	m.dirty, m.groups, m.own, m.stirred = m.dirty[:0], m.groups[:0], m.own[:0], m.stirred[:0]
	m.index.reset()
	for i := range m.ranked {
		m.ranked[i] = m.ranked[i][:0]
	}
	m.heaped = 0
	m.result.CopyCounts(m.class.ID(), base.result)
	for i := range base.result.Groups {
		m.groups = append(m.groups, int32(i))
	}
	for _, counter := range m.class.GroupCounters() {
		for shard := range t.NumShards() {
			for index := range t.Table(shard).CounterRows(counter) {
				if m.renew(cache.Row{Shard: uint32(shard), Index: index}, t, e); len(m.own) > most {
					return
				}
			}
		}
	}
	m.opened = len(m.result.Groups)
}

// follow takes in what has changed: rows that have gone from group to group, and counters.
func (m *sibling) follow(t tables, e *scorer.Evaluator) {
	for ; m.moves < len(m.of.moves); m.moves++ {
		x := m.of.moves[m.moves]
		row := m.of.repaired[x.at].row
		if _, own := m.index.find(row); own {
			m.renew(row, t, e)
			continue
		}
		m.shift(x.from, -1)
		m.shift(x.to, +1)
	}
	for _, row := range m.dirty {
		m.renew(row, t, e)
	}
	m.dirty = m.dirty[:0]
	for _, at := range m.stirred {
		m.rank(int(at), t)
	}
	m.stirred = m.stirred[:0]
}

// rank makes a row of its own one of its group's, by what it scores now.
func (m *sibling) rank(at int, t tables) {
	own := &m.own[at]
	own.version++
	if own.group < 0 {
		return
	}
	for len(m.ranked) <= int(own.group) {
		m.ranked = append(m.ranked, nil)
	}
	if m.heaped > 2*len(m.own)+sweptRows {
		m.heaped = 0
		for i := range m.ranked {
			m.ranked[i].sweep(m.outdated)
			m.heaped += len(m.ranked[i])
		}
	}
	r := &m.of.repaired[own.at]
	x := newRankedRow(r, t)
	x.at, x.version = int32(at), own.version
	m.ranked[own.group].push(x)
	m.heaped++
}

// outdated tells whether a row of its own scores otherwise by now.
func (m *sibling) outdated(x *rankedRow) bool { return m.own[x.at].version != x.version }

// shift moves a row that is not its own in or out of a group of the base's.
func (m *sibling) shift(group int32, by int) {
	if group >= 0 {
		m.result.MoveRows(m.group(int(group)), by)
		m.settled = false
	}
}

// group is the place of a group of the base's.
func (m *sibling) group(i int) int {
	for k := len(m.groups); k <= i; k++ {
		m.groups = append(m.groups, int32(m.result.GroupFor(&m.of.result.Groups[k].Key)))
		m.settled = false
	}
	return int(m.groups[i])
}

// renew looks at a row of its own as it is now.
func (m *sibling) renew(row cache.Row, t tables, e *scorer.Evaluator) {
	m.settled = false
	at, known := m.index.find(row)
	if known {
		m.result.Move(m.class, &m.own[at].verdict, -1)
	} else {
		base := m.of.row(row, t, e)
		m.result.Move(m.class, &base.verdict, -1)
		at = len(m.own)
		m.index.put(row, at)
		m.own = slices.Grow(m.own, 1)[:at+1]
		m.own[at].at = int32(base.at)
		m.of.owned(base.at, owner{m, int32(at), m.begun})
	}
	own := &m.own[at]
	m.class.Recount(t.Table(int(row.Shard)), row.Index, &m.of.repaired[own.at].verdict, &own.verdict)
	own.group = int32(m.result.Move(m.class, &own.verdict, +1))
	m.rank(at, t)
}

// settle brings the standing up to date.
func (m *sibling) settle() {
	if n := len(m.of.result.Groups); n > 0 {
		m.group(n - 1)
	}
	if !m.settled {
		m.class.Settle(&m.result, &m.standing)
		m.settled = true
	}
}

// best finds the row to give the next pod to.
func (m *sibling) best(t tables) (choice, verdict) {
	m.settle()
	if m.standing.Feasible == 0 {
		return choice{}, nowhere
	}
	var best leader
	for i, at := range m.groups {
		g := &m.standing.Groups[at]
		if !g.Feasible {
			continue
		}
		if c, ok := m.of.untouched(i); ok {
			best.offerTold(c, i, g.Score)
		}
		if c, ok := m.other(i, t); ok {
			c.Score += g.Score
			best.offer(c)
		}
	}
	for i := range m.ranked {
		if i >= len(m.standing.Groups) || !m.standing.Groups[i].Feasible {
			continue
		}
		if c, ok := m.ownHead(i, t); ok {
			c.Score += m.standing.Groups[i].Score
			best.offer(c)
		}
	}
	for i, at := range m.groups {
		g := &m.standing.Groups[at]
		if c, ok := m.of.behind(i); ok && g.Feasible {
			c.Score += g.Score
			if best.behind(c) {
				return choice{}, askAgain
			}
		}
	}
	if !best.found {
		return choice{}, askAgain
	}
	c := best.choice()
	c.feasible = m.standing.Feasible
	return c, chosen
}

// ownHead is the best row of its own of a group, with its local score.
func (m *sibling) ownHead(i int, t tables) (scorer.Candidate, bool) {
	for h := &m.ranked[i]; len(*h) > 0; h.pop() {
		if x := &(*h)[0]; !m.outdated(x) {
			return t.Candidate(m.of.repaired[m.own[x.at].at].row, x.score), true
		}
		m.heaped--
	}
	return scorer.Candidate{}, false
}

// other is the best of the base's repaired rows of a group that is not its own, with its local score.
func (m *sibling) other(i int, t tables) (scorer.Candidate, bool) {
	h := &m.of.ranked[i]
	for len(*h) > 0 && m.of.outdated(&(*h)[0]) {
		m.of.heaped--
		h.pop()
	}
	if len(*h) > 0 {
		r := &m.of.repaired[(*h)[0].at]
		if _, own := m.index.find(r.row); !own {
			return t.Candidate(r.row, (*h)[0].score), true
		}
	}
	m.found = m.others(i, 1, t, m.found[:0])
	if len(m.found) == 0 {
		return scorer.Candidate{}, false
	}
	return m.found[0], true
}

// others appends the best n of the base's repaired rows of a group that are not its own, best first, with their
// local scores.
func (m *sibling) others(i, n int, t tables, out []scorer.Candidate) []scorer.Candidate {
	h := &m.of.ranked[i]
	h.walk(func(x *rankedRow) (more bool) {
		if m.of.outdated(x) {
			m.of.passed++
			return true
		}
		if _, own := m.index.find(m.of.repaired[x.at].row); own {
			m.passed++
		} else {
			out = append(out, t.Candidate(m.of.repaired[x.at].row, x.score))
		}
		return len(out) < n
	})
	// To pass outdated rows is to cost no more than to sweep them out.
	if m.of.passed > sweptRows+len(*h) {
		m.of.passed = 0
		m.of.heaped -= len(*h)
		h.sweep(m.of.outdated)
		m.of.heaped += len(*h)
	}
	return out
}

// top are the best n rows, best first, as pick.top.
func (m *sibling) top(n int, t tables) []groupedAt {
	m.settle()
	var list []groupedAt
	for i, at := range m.groups {
		g := &m.standing.Groups[at]
		if !g.Feasible {
			continue
		}
		for _, c := range append(m.of.untouchedBest(i, n), m.others(i, n, t, nil)...) {
			c.Score += g.Score
			list = insertGrouped(list, groupedAt{c, int(at)}, n)
		}
	}
	for i := range m.own {
		own := &m.own[i]
		if own.group < 0 || !m.standing.Groups[own.group].Feasible {
			continue
		}
		r := &m.of.repaired[own.at]
		if score := r.local + m.standing.Groups[own.group].Score; len(list) < n || score >= list[n-1].candidate.Score {
			list = insertGrouped(list, groupedAt{t.Candidate(r.row, score), int(own.group)}, n)
		}
	}
	for i, at := range m.groups {
		if c, ok := m.of.unnamed(i); ok && m.standing.Groups[at].Feasible {
			c.Score += m.standing.Groups[at].Score
			list = cutGrouped(list, c)
		}
	}
	return list
}

// mayShare tells whether a pod may be decided by an answer of its class's family: where nobody but the
// class's own plugins has a say.
func (s *Scheduler) mayShare(a *attempt) bool {
	return a.class.ScoreError == nil && a.pod.Nomination() == "" && s.guests.of(a.pod.Obj) == nil &&
		!s.asksOutside(a) && len(s.nominees(a.pod.Obj, a.class)) == 0
}

// chooseShared takes the best row by the answer of a class's family; nil where the class has to be asked by
// itself, also for the reasons where there is no row.
func (s *Scheduler) chooseShared(ctx context.Context, a *attempt) (c choice, m *sibling, err error) {
	base := s.families.baseOf(a.class)
	if base == nil || !s.mayShare(a) {
		return choice{}, nil, nil
	}
	p := s.picks.of[base.ID()]
	if p == nil {
		return choice{}, nil, nil
	}
	a.trace.Begin(tracing.Merge)
	defer a.trace.End(tracing.Merge)
	t := tables{s.cache.Cache}
	for asked := false; ; {
		judged := p.judged
		p.repair(&s.touches, t, s.eval)
		if p.stale && !asked { // what is pinned has moved
			asked = true
			if err := s.askBase(ctx, a, p, base); err != nil {
				return choice{}, nil, err
			}
			continue
		}
		if m = s.families.sibling(a.class.Scorer, p, t, s.eval); m == nil {
			s.families.part(a.class)
			return choice{}, nil, nil
		}
		if p.judged != judged {
			s.metrics.repaired.Add(float64(p.judged - judged))
		}
		c, v := m.best(t)
		switch v {
		case chosen:
			why := p.vouch(&c, t, s.eval)
			if why == nil {
				return c, m, nil
			}
			if err := s.distrust(ctx, p, c.row, why, s.baseRequest(p, base)); err != nil {
				return choice{}, nil, err
			}
			continue
		case nowhere:
			return choice{}, nil, nil
		}
		if asked {
			break
		}
		asked = true
		if err := s.askBase(ctx, a, p, base); err != nil {
			return choice{}, nil, err
		}
	}
	// As many of its own rows stand before all others as an answer names.
	s.families.part(a.class)
	return choice{}, nil, nil
}

// askBase asks for another answer of a family.
func (s *Scheduler) askBase(ctx context.Context, a *attempt, p *pick, base *compile.Class) error {
	s.asks(a, 0)
	s.tally.requeries++
	s.metrics.requeries.Inc()
	p.class = s.pinned(p.class)
	result, err := s.evaluateOne(a.trace.Again(ctx, base.ID()), s.baseRequest(p, base))
	if err == nil {
		s.fanout.Recycle(p.result)
		p.start(result, s.touches.end(), false)
	}
	return err
}

// baseRequest asks for another answer of a family.
func (s *Scheduler) baseRequest(p *pick, base *compile.Class) fanout.Request {
	return fanout.Request{Class: p.class, Candidates: candidates(base.Query, spareCandidates, len(s.picks.of), heldRowsMax)}
}
