package coordinator

import (
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/fanout"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// touch is one placement of the running batch: the row that got the pod, and what
// its pods added up to just before.
type touch struct {
	row cache.Row
	// before holds counters as differences from the table's own, which move on.
	before scorer.RowTotals
}

// touches is the log of a batch's placements, oldest first. Its memory is used
// again by the next batch.
type touches struct {
	list []touch
	rows map[cache.Row][]int // places in list
}

func (t *touches) reset() {
	t.list = t.list[:0]
	clear(t.rows)
}

// add opens an entry for a row and returns where to put its totals.
func (t *touches) add(row cache.Row) *scorer.RowTotals {
	if len(t.list) < cap(t.list) {
		t.list = t.list[:len(t.list)+1]
	} else {
		t.list = append(t.list, touch{})
	}
	if t.rows == nil {
		t.rows = map[cache.Row][]int{}
	}
	t.rows[row] = append(t.rows[row], len(t.list)-1)
	e := &t.list[len(t.list)-1]
	e.row = row
	return &e.before
}

// counted tells by how much the newest placement moved the counters of its row.
func (t *touches) counted(changes []*pb.CounterValue) {
	if len(changes) == 0 {
		return
	}
	for _, i := range t.rows[t.list[len(t.list)-1].row] {
		t.list[i].before.AddCounters(changes, -1)
	}
}

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
}

// pick chooses rows for the pods of one class, one after the other. It starts from
// the workers' answer, of one moment, and repairs it with the rows that
// were given a pod since.
type pick struct {
	class *scorer.Class
	// result is the answer, repaired but for the candidates.
	result   *scorer.Result
	standing scorer.Standing
	settled  bool // standing is that of result
	// lists say how far each group's candidates are used up.
	lists []list
	// synced is how many touches the repair has seen.
	synced int
	// repaired are the rows looked at since the answer; index finds them.
	repaired []repairedRow
	index    map[cache.Row]int
	// diagnosed says that result.Reasons was asked for; reasons are those counts, repaired.
	diagnosed bool
	reasons   map[reason]int
	// stale says that a maximum may have left a whole answer: it must be asked again.
	stale bool
	// was is what a row was judged before.
	was scorer.Verdict
	// vetoes are the repaired rows that are vetoed; some may be lifted by now.
	vetoes []int
	round  int
	// shape counts the changes of what the class counts over all rows.
	shape uint64
	probe probe
	// left is the standing of the rows that are left where guests have refused others.
	left scorer.Standing
	// judged counts the rows that were judged here.
	judged int
}

// reason is why a node was refused.
type reason struct {
	plugin, text string
	unresolvable bool
}

// list is the candidates of a group of the answer.
type list struct {
	used   int  // that are passed over: repaired or given away
	hidden bool // the group had rows that are not candidates
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
}

func newPick(class *scorer.Class) *pick {
	return &pick{class: class, index: map[cache.Row]int{}}
}

// maxSpareRows bounds the memory that picks keep from batch to batch: as many repaired rows,
// of some 300 bytes.
const maxSpareRows = 1 << 18

// picks are those of a batch, by class. They hold for the next batches too, as long as
// nothing but their own placements changes the tables, and no more pods come than in one
// large batch: where pods come one by one, few of them have all rows looked at.
type picks struct {
	of map[uint64]*pick
	// spare are some of earlier batches, for their memory, which is for that many rows.
	spare []*pick
	rows  int
	// generations are those of the tables after the last batch, and pods how many have
	// come since all were reset.
	generations []uint64
	pods        int
}

// reset begins anew. What the workers have answered is not read any more.
func (s *picks) reset(recycle func(*scorer.Result)) {
	for _, p := range s.of {
		recycle(p.result)
		p.result = nil
		if n := s.rows + cap(p.repaired); n <= maxSpareRows {
			s.spare, s.rows = append(s.spare, p), n
		}
	}
	clear(s.of)
	s.pods = 0
}

// keep notes what the picks know of the tables, at the end of a batch.
func (s *picks) keep(shards fanout.Shards) {
	s.generations = s.generations[:0]
	for i := range shards.NumShards() {
		s.generations = append(s.generations, shards.Table(i).Generation())
	}
}

// forget makes sure that nothing is held for the next batch.
func (s *picks) forget() { s.generations = s.generations[:0] }

// hold tells whether the picks are still those of the tables, and can serve a batch of n
// pods more.
func (s *picks) hold(shards fanout.Shards, n, limit int) bool {
	if s.pods+n > limit || len(s.generations) != shards.NumShards() {
		return false
	}
	for i, g := range s.generations {
		if shards.Table(i).Generation() != g {
			return false
		}
	}
	return true
}

// open starts a class's pick with an answer, of the state after the first n touches.
func (s *picks) open(class *scorer.Class, result *scorer.Result, n int) {
	p := newPick(class)
	if last := len(s.spare) - 1; last >= 0 {
		p, s.spare = s.spare[last], s.spare[:last]
		p.class = class
		s.rows -= cap(p.repaired)
	}
	p.start(result, n, false)
	s.of[class.ID()] = p
}

// start takes a fresh answer, of the state after the first n touches.
func (p *pick) start(result *scorer.Result, n int, diagnosed bool) {
	p.result, p.synced, p.diagnosed = result, n, diagnosed
	p.stale, p.settled = false, false
	p.shape++
	p.lists = p.lists[:0]
	for i := range result.Groups {
		g := &result.Groups[i]
		p.lists = append(p.lists, list{hidden: g.Rows > len(g.Candidates)})
	}
	p.repaired = p.repaired[:0]
	p.vetoes = p.vetoes[:0]
	clear(p.index)
	if !diagnosed {
		return
	}
	p.reasons = map[reason]int{}
	for _, r := range result.Reasons {
		p.reasons[reason{r.Plugin, r.Text, r.Unresolvable}] += r.Nodes
	}
}

// startHere takes the place of an answer: every row is looked at here and now, after the
// first n touches. It serves where a maximum of a normalised answer is vetoed, which the
// workers can not know of.
func (p *pick) startHere(n int, tables tables, e *scorer.Evaluator) {
	r := &scorer.Result{}
	r.Reset(p.class.ID(), 0)
	p.start(r, n, false)
	for shard := range tables.NumShards() {
		for index := range tables.Table(shard).All() {
			at := p.look(cache.Row{Shard: uint32(shard), Index: index}, nil, tables, e)
			p.move(&at.verdict, +1)
		}
	}
}

// repair takes in what was placed since the last call.
func (p *pick) repair(t *touches, tables tables, e *scorer.Evaluator) {
	p.repaired = slices.Grow(p.repaired, len(t.list)-p.synced)
	for i := p.synced; i < len(t.list); i++ {
		entry := &t.list[i]
		if at, known := p.index[entry.row]; known {
			p.exchange(&p.repaired[at], tables, e)
		} else if !p.stays(entry, tables, e) {
			p.exchange(p.look(entry.row, &entry.before, tables, e), tables, e)
		}
	}
	p.synced = len(t.list)
}

// stays looks at a row as it is now, and tells whether it has the same share in the answer
// as before it was touched. A pod more only ever makes a row refuse others, but for what
// counters tell: one that passes without them having moved has passed before.
func (p *pick) stays(entry *touch, tables tables, e *scorer.Evaluator) bool {
	if p.diagnosed || entry.before.Moves(p.class) {
		return false
	}
	if r := p.look(entry.row, nil, tables, e); r.verdict.Passed {
		return true
	}
	p.repaired = p.repaired[:len(p.repaired)-1]
	delete(p.index, entry.row)
	return false
}

// look takes a row out of the candidates, judged by the totals that the answer saw;
// nil: those that it has.
func (p *pick) look(row cache.Row, totals *scorer.RowTotals, tables tables, e *scorer.Evaluator) *repairedRow {
	p.index[row] = len(p.repaired)
	if len(p.repaired) < cap(p.repaired) {
		p.repaired = p.repaired[:len(p.repaired)+1]
	} else {
		p.repaired = append(p.repaired, repairedRow{})
	}
	r := &p.repaired[len(p.repaired)-1]
	r.row, r.vetoed, r.checked, r.listed = row, false, nil, false
	p.judge(r, totals, tables, e)
	r.group = p.result.GroupOf(&r.verdict)
	p.opened()
	return r
}

// row is a row taken out of the candidates.
func (p *pick) row(row cache.Row, tables tables, e *scorer.Evaluator) *repairedRow {
	if i, ok := p.index[row]; ok {
		return &p.repaired[i]
	}
	return p.look(row, nil, tables, e)
}

// judge evaluates a row as the workers do. nil totals are the current ones.
func (p *pick) judge(r *repairedRow, totals *scorer.RowTotals, tables tables, e *scorer.Evaluator) {
	table := tables.Table(int(r.row.Shard))
	p.judged++
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

// exchange puts a row's verdict as it is now in the place of its old one. Most pods are of
// other classes and change nothing but the row's own score.
func (p *pick) exchange(r *repairedRow, tables tables, e *scorer.Evaluator) {
	p.lift(r)
	extreme := r.extreme
	r.verdict, p.was = p.was, r.verdict
	p.countReasons(r.reasons, -1)
	p.judge(r, nil, tables, e)
	p.countReasons(r.reasons, +1)
	if !r.verdict.SharesAs(&p.was) {
		p.move(&p.was, -1)
		r.group = p.move(&r.verdict, +1)
	}
	p.stale = p.stale || extreme && !r.verdict.Passed
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
}

func (p *pick) countReasons(list []scorer.Reason, by int) {
	for _, x := range list {
		p.reasons[reason{x.Plugin, x.Text, x.Unresolvable}] += by
	}
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
	var top scorer.Candidate
	found := false
	better := func(c scorer.Candidate) {
		if !found || scorer.Before(c, top) {
			top, found = c, true
		}
	}
	for i := range p.standing.Groups {
		if c, ok := p.head(i); ok {
			better(c)
		}
	}
	for i := range p.repaired {
		r := &p.repaired[i]
		if r.vetoed || r.group < 0 || !p.standing.Groups[r.group].Feasible {
			continue
		}
		if score := r.local + p.standing.Groups[r.group].Score; !found || score >= top.Score {
			better(tables.Candidate(r.row, score))
		}
	}
	for i := range p.standing.Groups {
		if bound, ok := p.bound(i); ok && (!found || scorer.Before(bound, top)) {
			return choice{}, askAgain
		}
	}
	if !found {
		return choice{}, askAgain
	}
	return choice{row: cache.Row{Shard: top.Shard, Index: top.Row}, score: top.Score}, chosen
}

// head is the best candidate of a feasible group that was not touched since the answer.
func (p *pick) head(i int) (scorer.Candidate, bool) {
	g := &p.standing.Groups[i]
	if !g.Feasible {
		return scorer.Candidate{}, false
	}
	candidates, l := p.result.Groups[i].Candidates, &p.lists[i]
	for l.used < len(candidates) {
		c := candidates[l.used]
		if _, ok := p.index[cache.Row{Shard: c.Shard, Index: c.Row}]; !ok {
			c.Score += g.Score
			return c, true
		}
		l.used++
	}
	return scorer.Candidate{}, false
}

// bound is what the rows of a feasible group that the workers did not name can reach at
// the most: they stand behind the last that they named.
func (p *pick) bound(i int) (scorer.Candidate, bool) {
	l, g := &p.lists[i], &p.result.Groups[i]
	if !p.standing.Groups[i].Feasible || !l.hidden || l.used < len(g.Candidates) || g.Rows == 0 || len(g.Candidates) == 0 {
		return scorer.Candidate{}, false
	}
	c := g.Candidates[len(g.Candidates)-1]
	c.Score += p.standing.Groups[i].Score
	return c, true
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
