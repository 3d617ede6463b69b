package answers

import (
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/scorer"
)

// View is one class's view of a shared answer: its own rows, and the base's groups without these rows.
type View struct {
	engine   *Engine
	class    *scorer.Class
	result   scorer.Result // without candidates
	standing scorer.Standing
	settled  bool
	// of is the base's answer. begunAt is the answer's begun when the view began. moves is how many of the answer's moves the
	// view has taken in. groups are the places in result of the base's groups.
	of      *Answer
	begunAt uint64
	moves   int
	groups  []int32
	opened  int // groups of result when the view was begun
	// own are the rows with pods that the class counts or has counted; index finds them. measured has their shares of the
	// measures, one after the other. verdict is that of the own row that was judged last.
	own      []ownRow
	index    rowIndex
	measured []scorer.Measured
	verdict  scorer.Verdict
	// ranked has the own rows of each group by their local scores. heaped is how many entries all heaps of ranked have, with the
	// outdated entries. stirred are the own rows whose score may have changed.
	ranked  []rowHeap
	heaped  int
	stirred []int32
	found   []scorer.Candidate // scratch memory
	// passed is how many own rows were walked past to find other rows, less an allowance for each decision.
	passed int
	// begun is how often the view has begun anew. gone tells that the view was dropped.
	begun uint32
	gone  bool
	// dirty are the rows whose counters have changed. lost tells that they were too many: the view has to begin anew.
	dirty []cache.Row
	lost  bool
}

// ownRow is a row with pods that the class counts.
type ownRow struct {
	at      int32 // its place in the base's repaired rows
	group   int32 // in the view's result, -1: the row is refused
	version uint32
}

// owner is a view that has a row of its base as its own. at is the row's place in own. It is valid while the view's begun is the
// same.
type owner struct {
	of    *View
	at    int32
	begun uint32
}

// outdated tells whether the view has begun anew since, or was dropped.
func (o *owner) outdated() bool { return o.of.gone || o.of.begun != o.begun }

// stir notes that the score of an own row may have changed; false: the view has to begin anew.
func (v *View) stir(at int32) bool {
	if v.lost {
		return false
	}
	if len(v.stirred) >= v.engine.limits.DirtyRows+len(v.own) {
		v.lost = true
		return false
	}
	v.stirred = append(v.stirred, at)
	return true
}

// markDirty notes that counters of a row have changed.
func (v *View) markDirty(row cache.Row) {
	if n := len(v.dirty); n > 0 && v.dirty[n-1] == row || v.lost {
		return
	}
	if len(v.dirty) == v.engine.limits.DirtyRows {
		v.lost, v.dirty = true, v.dirty[:0]
		return
	}
	v.dirty = append(v.dirty, row)
}

// begin starts from the base's answer as it is now, and takes the own rows out of it. It ends early at more than most.
func (v *View) begin(base *Answer, most int) {
	v.of, v.begunAt, v.moves = base, base.begun, len(base.moves)
	v.class = v.class.PinAs(base.class)
	v.settled, v.lost = false, false
	v.begun++
	v.dirty, v.groups, v.stirred = v.dirty[:0], v.groups[:0], v.stirred[:0]
	v.own, v.measured = v.own[:0], v.measured[:0]
	v.index.reset()
	for i := range v.ranked {
		v.ranked[i] = v.ranked[i][:0]
	}
	v.heaped = 0
	v.result.CopyCounts(v.class.ID(), base.result)
	for i := range base.result.Groups {
		v.groups = append(v.groups, int32(i))
	}
	t := v.engine.tables
	for _, counter := range v.class.GroupCounters() {
		for shard := range t.NumShards() {
			for index := range t.Table(shard).CounterRows(counter) {
				if v.renew(cache.Row{Shard: uint32(shard), Index: index}); len(v.own) > most {
					return
				}
			}
		}
	}
	v.opened = len(v.result.Groups)
}

// follow takes in what has changed: rows that have gone from group to group, counters, and scores.
func (v *View) follow() {
	for ; v.moves < len(v.of.moves); v.moves++ {
		x := v.of.moves[v.moves]
		row := v.of.repaired[x.at].row
		if _, own := v.index.find(row); own {
			v.renew(row)
			continue
		}
		v.shift(x.from, -1)
		v.shift(x.to, +1)
	}
	for _, row := range v.dirty {
		v.renew(row)
	}
	v.dirty = v.dirty[:0]
	for _, at := range v.stirred {
		v.rank(int(at))
	}
	v.stirred = v.stirred[:0]
}

// rank puts an own row into the heap of its group, by its score of now.
func (v *View) rank(at int) {
	own := &v.own[at]
	own.version++
	if own.group < 0 {
		return
	}
	for len(v.ranked) <= int(own.group) {
		v.ranked = append(v.ranked, nil)
	}
	if v.heaped > 2*len(v.own)+v.engine.limits.SweptRows {
		v.heaped = 0
		for i := range v.ranked {
			v.ranked[i].sweep(v.outdated)
			v.heaped += len(v.ranked[i])
		}
	}
	x := newRankedRow(&v.of.repaired[own.at], v.engine.tables)
	x.at, x.version = int32(at), own.version
	v.ranked[own.group].push(x)
	v.heaped++
}

// outdated tells whether the score of an own row has changed by now.
func (v *View) outdated(x *rankedRow) bool { return v.own[x.at].version != x.version }

// shift adds a row that is not the view's own to a group of the base, or removes it.
func (v *View) shift(group int32, by int) {
	if group >= 0 {
		v.result.MoveRows(v.group(int(group)), by)
		v.settled = false
	}
}

// group is the place in result of a group of the base; -1: none.
func (v *View) group(i int) int {
	if i < 0 {
		return -1
	}
	for k := len(v.groups); k <= i; k++ {
		v.groups = append(v.groups, int32(v.result.GroupFor(&v.of.result.Groups[k].Key)))
		v.settled = false
	}
	return int(v.groups[i])
}

// renew judges an own row as it is now.
func (v *View) renew(row cache.Row) {
	v.settled = false
	at, known := v.index.find(row)
	n := v.class.Measures()
	if !known {
		base := &v.of.repaired[v.of.at(row)]
		at = len(v.own)
		v.index.put(row, at)
		v.own = append(double(v.own), ownRow{at: int32(base.at), group: int32(v.group(base.group))})
		v.measured = append(double(v.measured), v.of.measuredOf(base)...)
		v.of.owned(base.at, owner{v, int32(at), v.begun})
	}
	own, measured := &v.own[at], v.measured[at*n:][:n]
	v.result.MoveTo(v.class, int(own.group), measured, -1)
	base := v.of.verdictOf(&v.of.repaired[own.at])
	v.class.Recount(v.engine.tables.Table(int(row.Shard)), row.Index, &base, &v.verdict)
	own.group = int32(v.result.Move(v.class, &v.verdict, +1))
	copy(measured, v.verdict.Measured)
	v.rank(at)
}

// settle brings the standing up to date.
func (v *View) settle() {
	if n := len(v.of.result.Groups); n > 0 {
		v.group(n - 1)
	}
	if !v.settled {
		v.class.Settle(&v.result, &v.standing)
		v.settled = true
	}
}

// best finds the row for the next pod.
func (v *View) best() (Choice, outcome) {
	v.settle()
	if v.standing.Feasible == 0 || v.standing.Failing > 0 {
		return Choice{}, nowhere // the class's own answer says why
	}
	var best leader
	for i, at := range v.groups {
		g := &v.standing.Groups[at]
		if !g.Feasible {
			continue
		}
		if c, ok := v.of.untouched(i); ok {
			best.offerNamed(c, i, g.Score)
		}
		if c, ok := v.other(i); ok {
			c.Score += g.Score
			best.offer(c)
		}
	}
	for i := range v.ranked {
		if i >= len(v.standing.Groups) || !v.standing.Groups[i].Feasible {
			continue
		}
		if c, ok := v.ownHead(i); ok {
			c.Score += v.standing.Groups[i].Score
			best.offer(c)
		}
	}
	for i, at := range v.groups {
		g := &v.standing.Groups[at]
		if c, ok := v.of.last(i); ok && g.Feasible {
			c.Score += g.Score
			if best.isBehind(c) {
				return Choice{}, used
			}
		}
	}
	if !best.found {
		return Choice{}, used
	}
	return best.choice(v, v.standing.Feasible), chosen
}

// ownHead is the best own row of a group, with its local score.
func (v *View) ownHead(i int) (scorer.Candidate, bool) {
	for h := &v.ranked[i]; len(*h) > 0; h.pop() {
		if x := &(*h)[0]; !v.outdated(x) {
			return v.engine.tables.Candidate(v.of.repaired[v.own[x.at].at].row, x.score), true
		}
		v.heaped--
	}
	return scorer.Candidate{}, false
}

// other is the best repaired row of a group of the base that is not the view's own, with its local score.
func (v *View) other(i int) (scorer.Candidate, bool) {
	h := &v.of.ranked[i]
	for len(*h) > 0 && v.of.outdated(&(*h)[0]) {
		v.of.heaped--
		h.pop()
	}
	if len(*h) > 0 {
		r := &v.of.repaired[(*h)[0].at]
		if _, own := v.index.find(r.row); !own {
			return v.engine.tables.Candidate(r.row, (*h)[0].score), true
		}
	}
	v.found = v.others(i, 1, v.found[:0])
	if len(v.found) == 0 {
		return scorer.Candidate{}, false
	}
	return v.found[0], true
}

// others appends the best n repaired rows of a group of the base that are not the view's own, best first, with their local
// scores.
func (v *View) others(i, n int, out []scorer.Candidate) []scorer.Candidate {
	h := &v.of.ranked[i]
	h.walk(func(x *rankedRow) (more bool) {
		if v.of.outdated(x) {
			v.of.passed++
			return true
		}
		row := v.of.repaired[x.at].row
		if _, own := v.index.find(row); own {
			v.passed++
		} else {
			out = append(out, v.engine.tables.Candidate(row, x.score))
		}
		return len(out) < n
	})
	// So all walks past outdated entries cost no more than sweeping these out.
	if v.of.passed > v.engine.limits.SweptRows+len(*h) {
		v.of.passed = 0
		v.of.heaped -= len(*h)
		h.sweep(v.of.outdated)
		v.of.heaped += len(*h)
	}
	return out
}

func (v *View) whole() (*scorer.Result, *scorer.Standing) { return &v.result, &v.standing }

// top are the best n rows, best first.
func (v *View) top(n int) []Ranked {
	v.settle()
	var list []Ranked
	for i, at := range v.groups {
		g := &v.standing.Groups[at]
		if !g.Feasible {
			continue
		}
		for _, c := range append(v.of.untouchedBest(i, n), v.others(i, n, nil)...) {
			c.Score += g.Score
			list = insertRanked(list, Ranked{c, int(at)}, n)
		}
	}
	for i := range v.own {
		own := &v.own[i]
		if own.group < 0 || !v.standing.Groups[own.group].Feasible {
			continue
		}
		r := &v.of.repaired[own.at]
		if score := r.local + v.standing.Groups[own.group].Score; len(list) < n || score >= list[n-1].Score {
			list = insertRanked(list, Ranked{v.engine.tables.Candidate(r.row, score), int(own.group)}, n)
		}
	}
	for i, at := range v.groups {
		if c, ok := v.of.unnamed(i); ok && v.standing.Groups[at].Feasible {
			c.Score += v.standing.Groups[at].Score
			list = cutRanked(list, c)
		}
	}
	return list
}
