package coordinator

import (
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/scorer"
)

// verdict says what a pick came to.
type verdict int

const (
	chosen   verdict = iota
	nowhere          // no row is feasible
	askAgain         // rows that the workers did not name may be better
)

// choice is the best row of a class, with its whole score.
type choice struct {
	row   cache.Row
	score int64
	// feasible is how many rows there were to choose from.
	feasible int
	// told says that a worker has named the row, as one of a group with that local score: it was not
	// judged here.
	told  bool
	group int
	local int64
}

// pick chooses rows for the pods of one class, one after the other. It starts from
// the workers' answer, of one moment, and repairs it with the rows whose pods have
// changed since.
type pick struct {
	class *scorer.Class
	// result is the answer, repaired but for the candidates.
	result   *scorer.Result
	standing scorer.Standing
	settled  bool // standing is that of result
	// idle is how many sweeps ago it was of use to a batch.
	idle int
	// lists say how far each group's candidates are used up.
	lists []list
	// synced is the number of the first change that the repair has not seen.
	synced uint64
	// unmoved is up to which change none has moved a pinned sum; it may be behind synced.
	unmoved uint64
	// repaired are the rows looked at since the answer; index finds them. ranked are those of each
	// group, by what they score, and heaped is how many they are in all, outdated ones included.
	repaired []repairedRow
	index    rowIndex
	ranked   []rowHeap
	heaped   int
	passed   int // outdated rows that were walked past since heaps were swept
	// groups is how many the answer had.
	groups int
	// diagnosed says that result.Reasons was asked for; reasons are those counts, repaired.
	// hopeless is how many rows have a reason among them that no pod's leaving changes.
	diagnosed bool
	reasons   map[reason]int
	hopeless  int
	// stale says that a maximum may have left a whole answer, or that a pinned sum is another: it must be
	// asked again.
	stale bool
	// was is what a row was judged before.
	was scorer.Verdict
	// vetoes are the repaired rows that are vetoed; some may be lifted by now. aside is scratch memory.
	vetoes []int
	aside  []rankedRow
	round  int
	// shape counts the changes of what the class counts over all rows.
	shape uint64
	probe probe
	// left is the standing of the rows that are left where guests have refused others.
	left scorer.Standing
	// judged counts the rows that were judged here.
	judged int
	// brief: the answer has all rows that a PreFilter leaves, and is of no use to another batch.
	brief bool
	// shared: the classes of a family decide by it. moves are then the rows that have gone from group to
	// group since the answer, and answers counts those.
	shared  bool
	moves   []groupMove
	answers uint64
	// owners are the classes that have a repaired row of their own.
	owners [][]owner
}

// groupMove is a repaired row that has gone from one group to another; -1: none.
type groupMove struct{ at, from, to int32 }

// reason is why a node was refused.
type reason struct {
	plugin, text string
	unresolvable bool
}

// list is the candidates of a group of the answer.
type list struct {
	used int // that are passed over: repaired or given away
	// unnamed is how many rows the group had that are no candidates and were not looked at since.
	unnamed int
}

// repairedRow is a row that was looked at since the answer.
type repairedRow struct {
	row     cache.Row
	verdict scorer.Verdict
	group   int // -1: no group, the row is refused
	// local is the whole score where the answer is normalised.
	local   int64
	extreme bool // carries a maximum of a normalised answer
	reasons []scorer.Reason
	// vetoed: pods that are nominated to the row's node keep it from the pod at hand.
	vetoed      bool
	vetoReasons []scorer.Reason
	// checked is the nominee that it was looked at with, since it has changed itself; nil: none.
	// round is the last call of veto that it was named in, and listed says that it is in vetoes.
	checked *nominee
	round   int
	listed  bool
	// shape is the pick's when it was looked at.
	shape uint64
	// seen is the number of the first change that the verdict does not know of.
	seen uint64
	// at is its place in repaired, and version counts its verdicts.
	at      int
	version uint32
}

func newPick(class *scorer.Class) *pick {
	return &pick{class: class}
}

// repinned tells whether a pinned sum is another since the last repair.
func (p *pick) repinned(t *touches) bool {
	if !p.class.Pins() {
		return false
	}
	for n := max(p.synced, p.unmoved); n < t.end(); n++ {
		if t.at(n).before.MovesPins(p.class) {
			return true
		}
	}
	p.unmoved = t.end()
	return false
}

// reads tells whether the class reads a counter.
func (p *pick) reads(counter uint32) bool {
	_, found := slices.BinarySearch(p.class.Counters(), counter)
	return found
}

// servesTo is what an answer has to serve, and how far it may be repaired.
type servesTo struct {
	// behind is how many changes may be repaired at once, and rows how many rows in all.
	behind, rows int
	// pods is how many are to be decided.
	pods int
}

// serves tells whether it pays to repair the answer once more, rather than to ask for another.
// Looking at a row by itself costs some ten times what it costs in a pass over all of them.
func (p *pick) serves(end uint64, limits servesTo) bool {
	behind := int(end - p.synced)
	rows := limits.rows
	if p.shared {
		rows = maxSharedRows
	}
	if p.stale || behind > limits.behind || len(p.repaired)+behind > rows || len(p.lists) > 4*p.groups+256 {
		return false
	}
	if !p.settled {
		return true // it is not known which groups count
	}
	for i := range p.standing.Groups {
		l, n := &p.lists[i], len(p.result.Groups[i].Candidates)
		if l.unnamed > 0 && p.standing.Groups[i].Feasible && n-l.used < min(limits.pods, n/4) {
			return false
		}
	}
	return true
}

// start takes a fresh answer, of the state before change n.
func (p *pick) start(result *scorer.Result, n uint64, diagnosed bool) {
	p.result, p.synced, p.diagnosed = result, n, diagnosed
	p.stale, p.settled, p.brief = false, false, false
	p.shape++
	p.answers++
	p.moves = p.moves[:0]
	for i := range p.owners {
		p.owners[i] = p.owners[i][:0]
	}
	p.lists = p.lists[:0]
	for i := range result.Groups {
		g := &result.Groups[i]
		p.lists = append(p.lists, list{unnamed: g.Rows - len(g.Candidates)})
	}
	p.opened()
	p.groups = len(p.lists)
	p.repaired = p.repaired[:0]
	p.vetoes = p.vetoes[:0]
	for i := range p.ranked {
		p.ranked[i] = p.ranked[i][:0]
	}
	p.heaped = 0
	p.index.reset()
	if !diagnosed {
		return
	}
	p.reasons, p.hopeless = map[reason]int{}, result.Hopeless
	for _, r := range result.Reasons {
		p.reasons[reason{r.Plugin, r.Text, r.Unresolvable}] += r.Nodes
	}
}

// startHere takes the place of an answer: every row is looked at here and now, before change n. It
// serves where a maximum of a normalised answer is vetoed, which the workers can not know of, and where
// guests have to see every row.
func (p *pick) startHere(n uint64, tables tables, e *scorer.Evaluator) {
	p.class = p.class.Pin(tables.all)
	p.startEmpty(n, p.diagnosed)
	for shard := range tables.NumShards() {
		for index := range tables.Table(shard).All() {
			p.take(cache.Row{Shard: uint32(shard), Index: index}, n, tables, e)
		}
	}
}

// startEmpty starts with an answer of no rows.
func (p *pick) startEmpty(n uint64, diagnosed bool) {
	r := &scorer.Result{}
	r.Reset(p.class.ID(), 0)
	p.start(r, n, diagnosed)
}

// take adds a row to an answer that does not have it.
func (p *pick) take(row cache.Row, n uint64, tables tables, e *scorer.Evaluator) {
	r := p.look(row, nil, n, tables, e)
	p.move(&r.verdict, +1)
	p.countReasons(r.reasons, +1)
}

// repair takes in what has changed since the last call.
func (p *pick) repair(t *touches, tables tables, e *scorer.Evaluator) {
	end := t.end()
	for ; p.synced < end; p.synced++ {
		entry := t.at(p.synced)
		p.stale = p.stale || entry.before.MovesPins(p.class)
		at, known := p.index.find(entry.row)
		switch {
		case known && p.repaired[at].seen > p.synced: // it was judged after that
		case p.brief && !known: // a PreFilter refuses it, as before
		case known:
			p.exchange(&p.repaired[at], end, tables, e)
		case !p.stays(t, entry, tables, e):
			r := p.look(entry.row, &entry.before, p.synced, tables, e)
			p.name(r, &entry.before, tables)
			p.exchange(r, end, tables, e)
		}
	}
}

// stays looks at a row as it is now, and tells whether it has the same share in the answer
// as before it was touched. A pod more only ever makes a row refuse others, but for what
// counters tell: one that passes without them having moved, and that no pod has left, has passed
// before.
func (p *pick) stays(t *touches, entry *touch, tables tables, e *scorer.Evaluator) bool {
	if p.diagnosed || p.class.SharesByPods() || entry.before.Moves(p.class) || t.leftSince(entry.row, p.synced) {
		return false
	}
	if r := p.look(entry.row, nil, t.end(), tables, e); r.verdict.Passed {
		return true
	}
	p.repaired = p.repaired[:len(p.repaired)-1]
	p.index.undo(entry.row)
	return false
}

// look takes a row out of the candidates, judged by the totals that the answer saw, which were
// those before change n; nil: those that it has.
func (p *pick) look(row cache.Row, totals *scorer.RowTotals, n uint64, tables tables, e *scorer.Evaluator) *repairedRow {
	p.index.put(row, len(p.repaired))
	if len(p.repaired) < cap(p.repaired) {
		p.repaired = p.repaired[:len(p.repaired)+1]
	} else {
		p.repaired = append(p.repaired, repairedRow{})
	}
	r := &p.repaired[len(p.repaired)-1]
	r.row, r.vetoed, r.checked, r.listed = row, false, nil, false
	r.at, r.seen = len(p.repaired)-1, n
	p.judge(r, totals, tables, e)
	r.group = p.result.GroupOf(&r.verdict)
	p.opened()
	if totals == nil {
		p.rank(r, tables)
	}
	return r
}

// rank makes a row one of its group's, by what it scores now.
func (p *pick) rank(r *repairedRow, tables tables) {
	if r.group < 0 {
		return
	}
	if p.heaped > 2*len(p.repaired)+sweptRows {
		p.heaped = 0
		for i := range p.ranked {
			p.ranked[i].sweep(p.outdated)
			p.heaped += len(p.ranked[i])
		}
	}
	p.ranked[r.group].push(newRankedRow(r, tables))
	p.heaped++
}

// sweptRows is how many outdated rows the heaps may hold at the least. Tests make it smaller.
var sweptRows = 64

// outdated tells whether a row has another verdict by now.
func (p *pick) outdated(x *rankedRow) bool { return p.repaired[x.at].version != x.version }

// row is a row taken out of the candidates.
func (p *pick) row(row cache.Row, tables tables, e *scorer.Evaluator) *repairedRow {
	if i, ok := p.index.find(row); ok {
		return &p.repaired[i]
	}
	r := p.look(row, nil, p.synced, tables, e)
	p.name(r, nil, tables)
	return r
}

// name takes note of a row, as the answer saw it, that the workers did not name; nil totals are those
// that it has.
func (p *pick) name(r *repairedRow, totals *scorer.RowTotals, tables tables) {
	if r.group < 0 || p.lists[r.group].unnamed <= 0 {
		return
	}
	candidates := p.result.Groups[r.group].Candidates
	c := tables.Candidate(r.row, r.local)
	if totals != nil {
		c.LastDecision = totals.LastDecision()
	}
	if len(candidates) > 0 && scorer.Before(candidates[len(candidates)-1], c) {
		p.lists[r.group].unnamed--
	}
}

// judge evaluates a row as the workers do. nil totals are the current ones.
func (p *pick) judge(r *repairedRow, totals *scorer.RowTotals, tables tables, e *scorer.Evaluator) {
	table := tables.Table(int(r.row.Shard))
	p.judged++
	r.version++
	e.Row(table, r.row.Index, totals, p.class, p.diagnosed, &r.verdict)
	r.reasons, r.extreme = r.reasons[:0], false
	if !r.verdict.Passed {
		if p.diagnosed {
			_, reasons := e.Reasons(table, r.row.Index, totals, p.class)
			r.reasons = append(r.reasons, reasons...)
		}
		return
	}
	r.local = r.verdict.Local
	if p.result.Normalised {
		key := r.verdict.Key.Raw[:p.class.KeyLen()]
		r.local += p.class.GroupScore(key, p.result.Extrema)
		r.extreme = p.extreme(key)
	}
}

// extreme tells whether a row carries one of the maxima that a normalised answer
// rests on. When such a row drops out, the maximum may have gone with it.
func (p *pick) extreme(key []int64) bool {
	for i, k := range key {
		if k > 0 && k >= p.result.Extrema[i] {
			return true
		}
	}
	return false
}

// exchange puts a row's verdict as it is now, before change n, in the place of its old one. Most pods
// are of other classes and change nothing but the row's own score.
func (p *pick) exchange(r *repairedRow, n uint64, tables tables, e *scorer.Evaluator) {
	p.lift(r)
	extreme := r.extreme
	r.seen = n
	r.verdict, p.was = p.was, r.verdict
	p.countReasons(r.reasons, -1)
	p.judge(r, nil, tables, e)
	p.countReasons(r.reasons, +1)
	if !r.verdict.SharesAs(&p.was) {
		from := p.move(&p.was, -1)
		r.group = p.move(&r.verdict, +1)
		p.tellMove(r, from)
	}
	p.rank(r, tables)
	p.stir(r)
	p.stale = p.stale || extreme && (!r.verdict.Passed || p.was.Key.Raw != r.verdict.Key.Raw) || p.result.Normalised && r.verdict.Passed && p.beyond(&r.verdict.Key)
}

// tellMove tells the classes of a family of a row that has left a group.
func (p *pick) tellMove(r *repairedRow, from int) {
	if !p.shared {
		return
	}
	if len(p.moves) >= maxMoves || !slices.Equal(r.verdict.Measured, p.was.Measured) {
		p.answers++ // they begin anew
		p.moves = p.moves[:0]
		return
	}
	p.moves = append(p.moves, groupMove{int32(r.at), int32(from), int32(r.group)})
}

// owned makes a repaired row one of a class's own.
func (p *pick) owned(at int, o owner) {
	for len(p.owners) <= at {
		p.owners = append(p.owners, nil)
	}
	if list := p.owners[at]; len(list) == cap(list) {
		p.owners[at] = slices.DeleteFunc(list, func(o owner) bool { return o.outdated() })
	}
	p.owners[at] = append(p.owners[at], o)
}

// stir tells the classes that have a row of their own that it may score otherwise.
func (p *pick) stir(r *repairedRow) {
	if r.at >= len(p.owners) {
		return
	}
	list := p.owners[r.at]
	for i := 0; i < len(list); {
		if o := list[i]; o.outdated() || !o.of.stir(o.at) {
			list[i] = list[len(list)-1]
			list = list[:len(list)-1]
			continue
		}
		i++
	}
	p.owners[r.at] = list
}

// beyond tells whether a key has more than the maxima that a normalised answer rests on: it is of a
// row that was refused when that was given.
func (p *pick) beyond(key *scorer.Key) bool {
	for i, k := range key.Raw[:p.class.KeyLen()] {
		if k > p.result.Extrema[i] {
			return true
		}
	}
	return false
}

// move adds a row's share to the answer, or takes it.
func (p *pick) move(v *scorer.Verdict, by int) (group int) {
	p.settled = false
	p.shape++
	group = p.result.Move(p.class, v, by)
	p.opened()
	return group
}

// opened takes in groups that the answer did not have.
func (p *pick) opened() {
	for len(p.lists) < len(p.result.Groups) {
		p.lists = append(p.lists, list{})
		p.settled = false
	}
	for len(p.ranked) < len(p.lists) {
		p.ranked = append(p.ranked, nil)
	}
}

// countReasons counts those of one row, or takes them.
func (p *pick) countReasons(list []scorer.Reason, by int) {
	hopeless := false
	for _, x := range list {
		why := reason{x.Plugin, x.Text, x.Unresolvable}
		if p.reasons[why] += by; p.reasons[why] == 0 {
			delete(p.reasons, why)
		}
		hopeless = hopeless || x.Unresolvable
	}
	if hopeless {
		p.hopeless += by
	}
}

// resolvable is how many of so many nodes refuse the class for nothing but what pods that leave may
// change, in a diagnosis.
func (p *pick) resolvable(nodes int) int {
	p.settle()
	n := nodes - p.hopeless
	for i := range p.standing.Groups {
		if rows := p.result.Groups[i].Rows; rows > 0 {
			_, why := p.class.GroupReasons(p.result, &p.standing, i)
			if p.standing.Groups[i].Feasible || slices.ContainsFunc(why, func(r scorer.Reason) bool { return r.Unresolvable }) {
				n -= rows
			}
		}
	}
	return n
}

// settle brings the standing up to date.
func (p *pick) settle() {
	if !p.settled {
		p.class.Settle(p.result, &p.standing)
		p.settled = true
	}
}

// feasible is how many rows are, by the newest standing.
func (p *pick) feasible() int {
	p.settle()
	return p.standing.Feasible
}

// best finds the row to give the next pod to.
func (p *pick) best(tables tables) (choice, verdict) {
	if p.stale {
		return choice{}, askAgain
	}
	if p.feasible() == 0 {
		return choice{}, nowhere
	}
	var best leader
	for i := range p.standing.Groups {
		if !p.standing.Groups[i].Feasible {
			continue
		}
		if c, ok := p.untouched(i); ok {
			best.offerTold(c, i, p.standing.Groups[i].Score)
		}
		if c, ok := p.rankedHead(i, tables); ok {
			c.Score += p.standing.Groups[i].Score
			best.offer(c)
		}
	}
	for i := range p.standing.Groups {
		if bound, ok := p.bound(i); ok && best.behind(bound) {
			return choice{}, askAgain
		}
	}
	if !best.found {
		return choice{}, askAgain
	}
	return best.choice(), chosen
}

// leader is the best of the rows that it was offered.
type leader struct {
	top   scorer.Candidate
	found bool
	// told says that it is a candidate of a group of an answer, with that score of the group.
	told  bool
	group int
	by    int64
}

func (l *leader) offer(c scorer.Candidate) {
	if !l.found || scorer.Before(c, l.top) {
		l.top, l.found, l.told = c, true, false
	}
}

// offerTold is offer for a candidate of a group, whose score it is to have, too.
func (l *leader) offerTold(c scorer.Candidate, group int, score int64) {
	c.Score += score
	if !l.found || scorer.Before(c, l.top) {
		*l = leader{c, true, true, group, score}
	}
}

// choice is the best row.
func (l *leader) choice() choice {
	return choice{
		row: cache.Row{Shard: l.top.Shard, Index: l.top.Row}, score: l.top.Score,
		told: l.told, group: l.group, local: l.top.Score - l.by,
	}
}

// behind tells whether another would be chosen before it.
func (l *leader) behind(c scorer.Candidate) bool { return !l.found || scorer.Before(c, l.top) }

// rankedHead is the best row of a group that was looked at since the answer, with its local score.
func (p *pick) rankedHead(i int, tables tables) (best scorer.Candidate, found bool) {
	h := &p.ranked[i]
	p.aside = p.aside[:0]
	for len(*h) > 0 && !found {
		x := &(*h)[0]
		r := &p.repaired[x.at]
		switch {
		case p.outdated(x):
			p.heaped--
			h.pop()
		case r.vetoed: // for this pod
			p.aside = append(p.aside, *x)
			h.pop()
		default:
			best, found = tables.Candidate(r.row, x.score), true
		}
	}
	for _, x := range p.aside {
		h.push(x)
	}
	return best, found
}

// untouched is the best candidate of a group that was not touched since the answer, with its local score.
func (p *pick) untouched(i int) (scorer.Candidate, bool) {
	candidates, l := p.result.Groups[i].Candidates, &p.lists[i]
	for l.used < len(candidates) {
		c := candidates[l.used]
		if _, ok := p.index.find(cache.Row{Shard: c.Shard, Index: c.Row}); !ok {
			return c, true
		}
		l.used++
	}
	return scorer.Candidate{}, false
}

// bound is what the rows of a feasible group that the workers did not name can reach at
// the most: they stand behind the last that they named.
func (p *pick) bound(i int) (scorer.Candidate, bool) {
	if !p.standing.Groups[i].Feasible {
		return scorer.Candidate{}, false
	}
	c, ok := p.behind(i)
	c.Score += p.standing.Groups[i].Score
	return c, ok
}

// behind is the last candidate of a group of which the workers did not name all, where they are used up.
func (p *pick) behind(i int) (scorer.Candidate, bool) {
	l, g := &p.lists[i], &p.result.Groups[i]
	if l.unnamed <= 0 || l.used < len(g.Candidates) || g.Rows == 0 || len(g.Candidates) == 0 {
		return scorer.Candidate{}, false
	}
	return g.Candidates[len(g.Candidates)-1], true
}

// message words the refusal as upstream's FitError does, and names the plugins that
// refused.
func (p *pick) message(nodes int) (string, []string) {
	p.settle()
	counts := map[string]int{}
	plugins := map[string]struct{}{}
	tell := func(plugin, text string, n int) {
		if n <= 0 {
			return
		}
		if plugin != unsaid.Plugin {
			counts[text] += n
		}
		// PreFilters that narrowed the nodes together share a reason.
		for _, name := range strings.Fields(plugin) {
			plugins[name] = struct{}{}
		}
	}
	for r, n := range p.reasons {
		tell(r.plugin, r.text, n)
	}
	for i := range p.standing.Groups {
		if p.standing.Groups[i].Feasible || p.result.Groups[i].Rows <= 0 {
			continue
		}
		_, reasons := p.class.GroupReasons(p.result, &p.standing, i)
		for _, r := range reasons {
			tell(r.Plugin, r.Text, p.result.Groups[i].Rows)
		}
	}
	parts := make([]string, 0, len(counts))
	for text, n := range counts {
		parts = append(parts, strconv.Itoa(n)+" "+text)
	}
	names := make([]string, 0, len(plugins))
	for name := range plugins {
		names = append(names, name)
	}
	sort.Strings(names)
	return fitError(nodes, parts), names
}

// fitError joins reasons, sorted as strings (so that "10 x" stands before "2 y").
func fitError(nodes int, parts []string) string {
	var b strings.Builder
	b.WriteString("0/" + strconv.Itoa(nodes) + " nodes are available:")
	if len(parts) > 0 {
		sort.Strings(parts)
		b.WriteString(" " + strings.Join(parts, ", ") + ".")
	}
	return b.String()
}
