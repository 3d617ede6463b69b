package coordinator

import (
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/scorer"
)

// touch is one placement of the running batch: the row that got the pod, and what
// its pods added up to just before.
type touch struct {
	row    cache.Row
	before scorer.RowTotals
}

// touches is the log of a batch's placements, oldest first. Its memory is used
// again by the next batch.
type touches struct {
	list []touch
}

func (t *touches) reset() { t.list = t.list[:0] }

// add opens an entry for a row and returns where to put its totals.
func (t *touches) add(row cache.Row) *scorer.RowTotals {
	if len(t.list) < cap(t.list) {
		t.list = t.list[:len(t.list)+1]
	} else {
		t.list = append(t.list, touch{})
	}
	e := &t.list[len(t.list)-1]
	e.row = row
	return &e.before
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
}

// pick chooses rows for the pods of one class, one after the other. It starts from
// the workers' answer, of one moment, and repairs it with the rows that
// were given a pod since.
type pick struct {
	class  *scorer.Class
	result *scorer.Result
	// feasible and groups[i].rows are the answer's counts, repaired.
	feasible int
	groups   []group
	// synced is how many touches the repair has seen.
	synced int
	// repaired are the rows touched since the answer; index finds them.
	repaired []repairedRow
	index    map[cache.Row]int
	// diagnosed says that result.Reasons was asked for; reasons are those counts, repaired.
	diagnosed bool
	reasons   map[reason]int
	// stale says that a maximum may have left a whole answer: it must be asked again.
	stale   bool
	extrema []int64
	verdict scorer.Verdict
}

// reason is why a node was refused.
type reason struct {
	plugin, text string
	unresolvable bool
}

type group struct {
	rows   int // now
	listed int // candidates that are passed over: repaired or given away
	hidden bool
}

// repairedRow is a row that was touched since the answer.
type repairedRow struct {
	row      cache.Row
	feasible bool
	group    int
	local    int64 // the whole score where the answer is normalised
	extreme  bool  // carries a maximum of a normalised answer
	reasons  []scorer.Reason
}

func newPick(class *scorer.Class) *pick {
	return &pick{
		class:   class,
		index:   map[cache.Row]int{},
		extrema: make([]int64, class.KeyLen()),
	}
}

// start takes a fresh answer, of the state after the first n touches.
func (p *pick) start(result *scorer.Result, n int, diagnosed bool) {
	p.result, p.synced, p.diagnosed, p.stale = result, n, diagnosed, false
	p.feasible = result.Feasible
	p.groups = p.groups[:0]
	for i := range result.Groups {
		g := &result.Groups[i]
		p.groups = append(p.groups, group{rows: g.Rows, hidden: g.Rows > len(g.Candidates)})
	}
	p.repaired = p.repaired[:0]
	clear(p.index)
	if !diagnosed {
		return
	}
	p.reasons = map[reason]int{}
	for _, r := range result.Reasons {
		p.reasons[reason{r.Plugin, r.Text, r.Unresolvable}] += r.Nodes
	}
}

// repair takes in what was placed since the last call.
func (p *pick) repair(t *touches, tables tables, e *scorer.Evaluator) {
	from := p.synced
	for i := from; i < len(t.list); i++ {
		entry := &t.list[i]
		if _, ok := p.index[entry.row]; ok {
			continue
		}
		p.index[entry.row] = len(p.repaired)
		p.repaired = append(p.repaired, p.judge(entry.row, &entry.before, tables, e))
	}
	for i := from; i < len(t.list); i++ {
		at := p.index[t.list[i].row]
		now := p.judge(t.list[i].row, nil, tables, e)
		p.exchange(&p.repaired[at], now)
	}
	p.synced = len(t.list)
}

// judge evaluates one row as the workers do. nil totals are the current ones.
func (p *pick) judge(row cache.Row, totals *scorer.RowTotals, tables tables, e *scorer.Evaluator) repairedRow {
	table := tables.Table(int(row.Shard))
	v := &p.verdict
	e.Row(table, row.Index, totals, p.class, p.diagnosed, v)
	out := repairedRow{row: row, feasible: v.Passed, group: -1}
	if !v.Passed {
		if p.diagnosed {
			_, out.reasons = e.Reasons(table, row.Index, totals, p.class)
			out.reasons = slices.Clone(out.reasons)
		}
		return out
	}
	key := v.Key.Raw[:p.class.KeyLen()]
	if !p.result.Normalised {
		out.group, out.local = p.groupOf(&v.Key), v.Local
		return out
	}
	out.group = p.groupOf(&scorer.Key{})
	out.local = v.Local + p.class.GroupScore(key, p.result.Extrema)
	out.extreme = p.extreme(key)
	return out
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

// groupOf finds the group of a key, or opens one.
func (p *pick) groupOf(key *scorer.Key) int {
	for i := range p.result.Groups {
		if p.result.Groups[i].Key.Equal(key) {
			return i
		}
	}
	p.result.Groups = append(p.result.Groups, scorer.Group{Key: *key})
	p.groups = append(p.groups, group{})
	return len(p.groups) - 1
}

// exchange puts a row's new verdict in the place of its old one.
func (p *pick) exchange(old *repairedRow, now repairedRow) {
	p.stale = p.stale || old.extreme && !now.feasible
	p.count(old, -1)
	p.count(&now, +1)
	*old = now
}

func (p *pick) count(r *repairedRow, by int) {
	if r.feasible {
		p.feasible += by
		p.groups[r.group].rows += by
		return
	}
	for _, x := range r.reasons {
		p.reasons[reason{x.Plugin, x.Text, x.Unresolvable}] += by
	}
}

// best finds the row to give the next pod to.
func (p *pick) best(tables tables) (choice, verdict) {
	if p.stale {
		return choice{}, askAgain
	}
	if p.feasible == 0 {
		return choice{}, nowhere
	}
	p.findExtrema()
	var top scorer.Candidate
	found := false
	better := func(c scorer.Candidate) {
		if !found || scorer.Before(c, top) {
			top, found = c, true
		}
	}
	for i := range p.groups {
		if c, ok := p.head(i); ok {
			better(c)
		}
	}
	for i := range p.repaired {
		r := &p.repaired[i]
		if !r.feasible {
			continue
		}
		better(tables.Candidate(r.row, r.local+p.groupScore(r.group)))
	}
	for i := range p.groups {
		if bound, ok := p.bound(i); ok && (!found || scorer.Before(bound, top)) {
			return choice{}, askAgain
		}
	}
	if !found {
		return choice{}, askAgain
	}
	return choice{row: cache.Row{Shard: top.Shard, Index: top.Row}, score: top.Score}, chosen
}

// head is the best candidate of a group that was not touched since the answer.
func (p *pick) head(i int) (scorer.Candidate, bool) {
	list := p.result.Groups[i].Candidates
	g := &p.groups[i]
	for g.listed < len(list) {
		c := list[g.listed]
		if _, ok := p.index[cache.Row{Shard: c.Shard, Index: c.Row}]; !ok {
			c.Score += p.groupScore(i)
			return c, true
		}
		g.listed++
	}
	return scorer.Candidate{}, false
}

// bound is what the rows of a group that the workers did not name can reach at the
// most: they stand behind the last that they named.
func (p *pick) bound(i int) (scorer.Candidate, bool) {
	g := &p.groups[i]
	list := p.result.Groups[i].Candidates
	if !g.hidden || g.listed < len(list) || g.rows == 0 || len(list) == 0 {
		return scorer.Candidate{}, false
	}
	c := list[len(list)-1]
	c.Score += p.groupScore(i)
	return c, true
}

func (p *pick) groupScore(i int) int64 {
	if p.result.Normalised {
		return 0
	}
	return p.class.GroupScore(p.result.Groups[i].Key.Raw[:len(p.extrema)], p.extrema)
}

// findExtrema takes the maximum of each raw score over the groups that still have a
// row.
func (p *pick) findExtrema() {
	clear(p.extrema)
	for i := range p.groups {
		if p.groups[i].rows == 0 {
			continue
		}
		for j, k := range p.result.Groups[i].Key.Raw[:len(p.extrema)] {
			p.extrema[j] = max(p.extrema[j], k)
		}
	}
}

// message words the refusal as upstream's FitError does, and names the plugins that
// refused.
func (p *pick) message(nodes int) (string, []string) {
	var parts []string
	plugins := map[string]struct{}{}
	counts := map[string]int{}
	for r, n := range p.reasons {
		if n <= 0 {
			continue
		}
		counts[r.text] += n
		// PreFilters that narrowed the nodes together share a reason.
		for _, name := range strings.Fields(r.plugin) {
			plugins[name] = struct{}{}
		}
	}
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
