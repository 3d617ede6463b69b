package answers

import (
	"slices"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/scorer"
)

// Answer is what the workers have said of a class at one moment, repaired by the rows whose pods have changed
// since. It gives rows to the pods of its class, one after the other.
type Answer struct {
	engine *Engine
	class  *scorer.Class
	// result is the result of the workers. All of it is repaired, except its candidates.
	result   *scorer.Result
	standing scorer.Standing
	settled  bool // standing agrees with result
	// idle is how many sweeps ago a batch last used the answer.
	idle int
	// lists tell how far the candidates of each group are used up.
	lists []list
	// synced is the number of the first change that is not repaired yet.
	synced uint64
	// unmoved is the number of the first change that may have moved a pinned sum. It may be less than synced.
	unmoved uint64
	// repaired are the rows that were judged here since the answer; index finds them. measured has their shares of the
	// measures, one after the other. ranked has the repaired rows of each group by their local scores. heaped is how many
	// entries all heaps of ranked have, with the outdated entries.
	repaired []repairedRow
	measured []scorer.Measured
	index    rowIndex
	ranked   []rowHeap
	heaped   int
	passed   int // how many outdated entries were walked past since ranked was swept
	// groups is how many groups the workers' answer had.
	groups int
	// diagnosed tells that the answer has reasons. reasons are their repaired counts. unresolvable is how many rows
	// are refused for a reason that stays whichever pods leave.
	diagnosed    bool
	reasons      Reasons
	unresolvable int
	// sharedDevices is how often shared devices had changed when the answer was given.
	sharedDevices uint64
	// stale tells that the workers have to be asked again: the row with a maximum of a normalised answer may have left, or
	// a pinned sum has moved.
	stale bool
	// verdict is the verdict of the row that was judged last.
	verdict scorer.Verdict
	// vetoes are the places in repaired of vetoed rows. Some of these vetoes may be lifted by now. aside is scratch memory.
	// round is the number of the last call of veto.
	vetoes []int
	aside  []rankedRow
	round  int
	// shape is a version: it moves with each change of the answer's groups or measures.
	shape   uint64
	scratch scratchRow
	// among is the standing if only some of the rows were left (ScoresAmong).
	among scorer.Standing
	// oneBatch tells that the answer has only the rows that a PreFilter leaves, and is dropped with its batch.
	oneBatch bool
	// until is the number of the change from which on the answer is given up, because it names no more rows than may have been
	// taken; 0: there is none.
	until uint64
	// copies are those of the class, and counted is the number of the first change that they do not include; nil: nobody has asked.
	copies  *scorer.Copies
	counted uint64
	// shared tells that other classes have views of the answer. moves are then the rows that have gone from one group to
	// another, and begun counts how often moves was emptied.
	shared bool
	moves  []groupMove
	begun  uint64
	// owners are the views that have a repaired row as their own, by the row's place in repaired. firstOwners is memory for them.
	owners      [][]owner
	firstOwners []owner
}

// groupMove is a repaired row that has gone from one group to another; -1: none.
type groupMove struct{ at, from, to int32 }

// list is the candidates of a group.
type list struct {
	used int // how many candidates are used up: their rows are repaired
	// unnamed is how many rows of the group the workers did not name and were not judged here since.
	unnamed int
}

// repairedRow is a row that was judged here since the answer.
type repairedRow struct {
	row   cache.Row
	group int // -1: no group, the row is refused
	// local is the local score; in a normalised answer it is the whole score, and the row's raw scores are raw.
	local   int64
	raw     [scorer.MaxKey]int64
	reasons []scorer.Reason
	// extreme: the row has a maximum of a normalised answer. vetoed: pods that are nominated to the row's node keep the pod at
	// hand from it. listed: the row is in vetoes.
	extreme, vetoed, listed bool
	// version counts the row's verdicts.
	version     uint32
	vetoReasons []scorer.Reason
	vetoClaims  uint64 // allocated claims that are not for the row then, as bits by their indexes
	// checked is the nominee that the row was last judged with; nil: none, or the row has changed since.
	// round is the last call of veto that named the row.
	checked *Nominee
	round   int
	// shape is the answer's shape when the row was judged with its nominee.
	shape uint64
	// seen is the number of the first change that the verdict does not include.
	seen uint64
	// at is the row's place in repaired.
	at int
}

// Class is the answer's class, with its pinned sums.
func (a *Answer) Class() *scorer.Class { return a.class }

// Diagnosed tells whether the answer has reasons.
func (a *Answer) Diagnosed() bool { return a.diagnosed }

// Result is the repaired answer. It is valid until the next call of a method that repairs.
func (a *Answer) Result() *scorer.Result { return a.result }

// Standing is what becomes of the answer's groups.
func (a *Answer) Standing() *scorer.Standing {
	a.settle()
	return &a.standing
}

// repinned tells whether a pinned sum has moved since the last repair.
func (a *Answer) repinned() bool {
	if !a.class.Pins() {
		return false
	}
	log := &a.engine.log
	for n := max(a.synced, a.unmoved); n < log.end(); n++ {
		if log.at(n).before.MovesPins(a.class) {
			return true
		}
	}
	a.unmoved = log.end()
	return false
}

// outlived tells whether shared devices have changed since the answer, which any row may reach.
func (a *Answer) outlived() bool { return a.class.Claims() && a.sharedDevices != a.engine.log.shared }

// reads tells whether the class reads a counter.
func (a *Answer) reads(counter uint32) bool { return reads(a.class, counter) }

func reads(class *scorer.Class, counter uint32) bool {
	_, found := slices.BinarySearch(class.Counters(), counter)
	return found
}

// serves tells whether the answer's memory is within bounds, and whether a further repair for a batch of so many pods costs less
// than another answer. To judge one row here costs some ten times as much as in the workers' pass over all rows.
func (a *Answer) serves(pods, changes, rows int) bool {
	behind := int(a.engine.log.end() - a.synced)
	if a.shared {
		rows = a.engine.limits.sharedRows(a.engine.tables.Nodes())
	}
	if a.stale || behind > changes || len(a.repaired)+behind > rows || len(a.lists) > 4*a.groups+256 ||
		a.until > 0 && a.engine.log.end() >= a.until {
		return false
	}
	if !a.settled {
		return true // the standing does not say yet which groups are feasible
	}
	for i := range a.standing.Groups {
		l, n := &a.lists[i], len(a.result.Groups[i].Candidates)
		if l.unnamed > 0 && a.standing.Groups[i].Feasible && n-l.used < min(pods, n/4) {
			return false
		}
	}
	return true
}

// start begins the answer with a fresh result, of the state before change n.
func (a *Answer) start(result *scorer.Result, n uint64, diagnosed bool) {
	a.result, a.synced, a.diagnosed, a.sharedDevices = result, n, diagnosed, a.engine.log.shared
	a.copies, a.counted = result.Copies, n
	a.stale, a.settled, a.oneBatch, a.unmoved = false, false, false, n
	a.shape++
	a.begun++
	a.moves = a.moves[:0]
	for i := range a.owners {
		a.owners[i] = a.owners[i][:0]
	}
	a.lists = a.lists[:0]
	for i := range result.Groups {
		g := &result.Groups[i]
		a.lists = append(a.lists, list{unnamed: g.Rows - len(g.Candidates)})
	}
	a.extend()
	a.groups = len(a.lists)
	a.repaired, a.measured = a.repaired[:0], a.measured[:0]
	a.vetoes = a.vetoes[:0]
	for i := range a.ranked {
		a.ranked[i] = a.ranked[i][:0]
	}
	a.heaped = 0
	a.index.reset()
	if !diagnosed {
		return
	}
	a.reasons, a.unresolvable = Reasons{}, result.Hopeless
	for _, r := range result.Reasons {
		a.reasons[Reason{r.Plugin, r.Text, r.Unresolvable}] += r.Nodes
	}
}

// JudgeAll judges every row here and now, instead of an answer by the workers. It is needed where a row with a maximum of a
// normalised answer is vetoed, for the workers do not know of vetoes, and where a reviewer has to see every row. It takes long.
func (a *Answer) JudgeAll(diagnose bool) {
	e := a.engine
	a.class = e.Pinned(a.class)
	a.startEmpty(a.diagnosed || diagnose)
	for shard := range e.tables.NumShards() {
		for index := range e.tables.Table(shard).All() {
			a.add(cache.Row{Shard: uint32(shard), Index: index})
		}
	}
}

// startEmpty starts with an answer of no rows.
func (a *Answer) startEmpty(diagnosed bool) {
	r := &scorer.Result{}
	r.Reset(a.class.ID(), 0)
	a.start(r, a.engine.log.end(), diagnosed)
}

// add adds a row to an answer that does not have it.
func (a *Answer) add(row cache.Row) {
	r := a.look(row, nil, a.engine.log.end())
	a.move(r.group, a.measuredOf(r), +1)
	a.countReasons(r.reasons, +1)
}

// measuredOf is a repaired row's share of the measures.
func (a *Answer) measuredOf(r *repairedRow) []scorer.Measured {
	n := a.class.Measures()
	return a.measured[r.at*n:][:n]
}

// verdictOf is a repaired row's verdict. The answer is not normalised.
func (a *Answer) verdictOf(r *repairedRow) (v scorer.Verdict) {
	if v.Passed = r.group >= 0; v.Passed {
		v.Key, v.Local = a.result.Groups[r.group].Key, r.local
	}
	v.Measured = a.measuredOf(r)
	return v
}

// repair takes in the changes since the last call.
func (a *Answer) repair() {
	log := &a.engine.log
	judged := a.engine.work.Judged
	a.stale = a.stale || a.outlived()
	claims := a.class.Claims()
	for end := log.end(); a.synced < end; a.synced++ {
		entry := log.at(a.synced)
		a.stale = a.stale || entry.before.MovesPins(a.class)
		at, known := a.index.find(entry.row)
		switch {
		case known && a.repaired[at].seen > a.synced: // its verdict includes this change
		case entry.devices && !claims: // the class does not look at devices
		case a.oneBatch && !known: // a PreFilter refuses the row, as before
		case known:
			a.exchange(&a.repaired[at], end)
		case entry.bare: // the row was not judged, and its totals before the change are not known
			a.stale = true
		case !a.stays(entry):
			r := a.look(entry.row, &entry.before, a.synced)
			a.noteUnnamed(r, &entry.before)
			a.exchange(r, end)
		}
	}
	a.engine.work.Repaired += a.engine.work.Judged - judged
}

// stays judges a row as it is now, and tells whether it has the same share in the answer as before it changed. It goes by
// this: another pod never makes a row feasible, except by a counter. So a row that passes now has passed before, if its
// counters have not moved and no pod has left it.
func (a *Answer) stays(entry *change) bool {
	log := &a.engine.log
	if a.diagnosed || a.class.SharesByPods() || entry.before.Moves(a.class) ||
		log.leftSince(entry.row, a.synced, a.class.Claims()) {
		return false
	}
	if r := a.look(entry.row, nil, log.end()); r.group >= 0 {
		return true
	}
	a.repaired = a.repaired[:len(a.repaired)-1]
	a.measured = a.measured[:len(a.repaired)*a.class.Measures()]
	a.index.undo(entry.row)
	return false
}

// look takes a row out of the candidates, and judges it by the totals that it had before change n, which the answer saw;
// nil: by its totals of now.
func (a *Answer) look(row cache.Row, totals *scorer.RowTotals, n uint64) *repairedRow {
	at := len(a.repaired)
	a.index.put(row, at)
	a.repaired = double(a.repaired)[:at+1]
	r := &a.repaired[at]
	r.row, r.vetoed, r.checked, r.listed = row, false, nil, false
	r.at, r.seen = at, n
	a.judge(r, totals)
	a.measured = append(double(a.measured), a.verdict.Measured...)
	r.group = a.groupOf(&a.verdict)
	if totals == nil {
		a.rank(r)
	}
	return r
}

// rank puts a row into the heap of its group, by its score of now.
func (a *Answer) rank(r *repairedRow) {
	if r.group < 0 {
		return
	}
	if a.heaped > 2*len(a.repaired)+a.engine.limits.SweptRows {
		a.heaped = 0
		for i := range a.ranked {
			a.ranked[i].sweep(a.outdated)
			a.heaped += len(a.ranked[i])
		}
	}
	a.ranked[r.group].push(newRankedRow(r, a.engine.tables))
	a.heaped++
}

// outdated tells whether a row was judged again since the entry was made.
func (a *Answer) outdated(x *rankedRow) bool { return a.repaired[x.at].version != x.version }

// at is the place of a row in repaired. If the row is not there yet, it is judged, and taken out of the candidates.
func (a *Answer) at(row cache.Row) int {
	if i, ok := a.index.find(row); ok {
		return i
	}
	r := a.look(row, nil, a.synced)
	a.noteUnnamed(r, nil)
	return r.at
}

// noteUnnamed counts a row off unnamed, if the workers did not name it. totals are the row's totals that the answer
// saw; nil: its totals of now.
func (a *Answer) noteUnnamed(r *repairedRow, totals *scorer.RowTotals) {
	if r.group < 0 || a.lists[r.group].unnamed <= 0 {
		return
	}
	candidates := a.result.Groups[r.group].Candidates
	c := a.engine.tables.Candidate(r.row, r.local)
	if totals != nil {
		c.LastDecision = totals.LastDecision()
	}
	if len(candidates) > 0 && scorer.Before(candidates[len(candidates)-1], c) {
		a.lists[r.group].unnamed--
	}
}

// judge evaluates a row as the workers do, with the given totals; nil: its totals of now.
func (a *Answer) judge(r *repairedRow, totals *scorer.RowTotals) {
	e := a.engine
	table := e.tables.Table(int(r.row.Shard))
	e.work.Judged++
	r.version++
	e.eval.Row(table, r.row.Index, totals, a.class, a.diagnosed, &a.verdict)
	r.reasons, r.extreme = r.reasons[:0], false
	if !a.verdict.Passed {
		if a.diagnosed {
			_, reasons := e.eval.Reasons(table, r.row.Index, totals, a.class)
			r.reasons = append(r.reasons, reasons...)
		}
		return
	}
	r.local, r.raw = a.verdict.Local, a.verdict.Key.Raw
	if a.result.Normalised {
		key := r.raw[:a.class.KeyLen()]
		r.local += a.class.GroupScore(key, a.result.Extrema)
		r.extreme = a.extreme(key)
	}
}

// extreme tells whether a row has one of the maxima that the scores of a normalised answer are divided by. When such a row
// leaves, the maximum may change.
func (a *Answer) extreme(key []int64) bool {
	for i, k := range key {
		if k > 0 && k >= a.result.Extrema[i] {
			return true
		}
	}
	return false
}

// exchange replaces a row's verdict by its verdict of now, which includes all changes before n. Most changes come from pods of
// other classes, and alter only the row's own score.
func (a *Answer) exchange(r *repairedRow, n uint64) {
	a.lift(r)
	from, raw, extreme := r.group, r.raw, r.extreme
	r.seen = n
	a.countReasons(r.reasons, -1)
	a.judge(r, nil)
	a.countReasons(r.reasons, +1)
	v, measured := &a.verdict, a.measuredOf(r)
	if same := slices.Equal(v.Measured, measured); !same || !a.result.Holds(from, v) {
		a.move(from, measured, -1)
		r.group = a.groupOf(v)
		a.move(r.group, v.Measured, +1)
		copy(measured, v.Measured)
		a.logMove(r, from, same)
	}
	a.rank(r)
	a.stir(r)
	left := extreme && (!v.Passed || raw != r.raw)
	a.stale = a.stale || left || a.result.Normalised && v.Passed && a.beyond(r.raw[:a.class.KeyLen()])
}

// beyond tells whether a key exceeds a maximum of a normalised answer. Its row was refused when the answer was given, so the
// maximum does not include the row.
func (a *Answer) beyond(key []int64) bool {
	for i, k := range key {
		if k > a.result.Extrema[i] {
			return true
		}
	}
	return false
}

// move adds a row's share to the answer's groups and measures, or subtracts it.
func (a *Answer) move(group int, measured []scorer.Measured, by int) {
	a.settled = false
	a.shape++
	a.result.MoveTo(a.class, group, measured, by)
}

// groupOf is the group of a row with that verdict.
func (a *Answer) groupOf(v *scorer.Verdict) int {
	group := a.result.GroupOf(v)
	a.extend()
	return group
}

// extend makes room for groups that the workers' answer did not have.
func (a *Answer) extend() {
	for len(a.lists) < len(a.result.Groups) {
		a.lists = append(a.lists, list{})
		a.settled = false
	}
	for len(a.ranked) < len(a.lists) {
		a.ranked = append(a.ranked, nil)
	}
}

// settle brings the standing up to date.
func (a *Answer) settle() {
	if !a.settled {
		a.class.Settle(a.result, &a.standing)
		a.settled = true
	}
}

// feasible is how many rows are feasible.
func (a *Answer) feasible() int {
	a.settle()
	return a.standing.Feasible
}

// passes tells whether a row that was judged here is feasible.
func (a *Answer) passes(r *repairedRow) bool {
	return !r.vetoed && r.group >= 0 && a.standing.Groups[r.group].Feasible
}
