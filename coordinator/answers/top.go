package answers

import (
	"slices"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/scorer"
)

// Ranked is a feasible row of one of an answer's groups, with its whole score.
type Ranked struct {
	scorer.Candidate
	Group int
}

// SortRanked puts the best rows first.
func SortRanked(list []Ranked) {
	slices.SortFunc(list, func(a, b Ranked) int {
		switch {
		case scorer.Before(a.Candidate, b.Candidate):
			return -1
		case scorer.Before(b.Candidate, a.Candidate):
			return 1
		}
		return 0
	})
}

// Normalised tells whether the choice is of a normalised answer, whose scores can not be taken apart.
func (c *Choice) Normalised() bool {
	result, _ := c.from.whole()
	return result.Normalised
}

// Top are the best n rows by the answer or view that has chosen, best first, with its result and standing. There are
// fewer rows where unnamed rows may be among the best n.
func (c *Choice) Top(n int) ([]Ranked, *scorer.Result, *scorer.Standing) {
	result, standing := c.from.whole()
	return c.from.top(n), result, standing
}

func (a *Answer) whole() (*scorer.Result, *scorer.Standing) { return a.result, &a.standing }

// top are the best n rows, best first.
func (a *Answer) top(n int) []Ranked {
	a.settle()
	var list []Ranked
	for i := range a.standing.Groups {
		g := &a.standing.Groups[i]
		if !g.Feasible {
			continue
		}
		for _, c := range a.untouchedBest(i, n) {
			c.Score += g.Score
			list = insertRanked(list, Ranked{c, i}, n)
		}
	}
	for i := range a.repaired {
		r := &a.repaired[i]
		if !a.passes(r) {
			continue
		}
		if score := r.local + a.standing.Groups[r.group].Score; len(list) < n || score >= list[n-1].Score {
			list = insertRanked(list, Ranked{a.engine.tables.Candidate(r.row, score), r.group}, n)
		}
	}
	for i := range a.standing.Groups {
		if c, ok := a.unnamed(i); ok && a.standing.Groups[i].Feasible {
			c.Score += a.standing.Groups[i].Score
			list = cutRanked(list, c)
		}
	}
	return list
}

// untouchedBest are the best n candidates of a group that were not judged here since the answer, with their local scores.
func (a *Answer) untouchedBest(i, n int) (out []scorer.Candidate) {
	for _, c := range a.result.Groups[i].Candidates[a.lists[i].used:] {
		if _, known := a.index.find(cache.Row{Shard: c.Shard, Index: c.Row}); known {
			continue
		}
		if out = append(out, c); len(out) == n {
			break
		}
	}
	return out
}

// unnamed is the last candidate of a group, which comes before all unnamed rows; false: the group has no unnamed row.
func (a *Answer) unnamed(i int) (scorer.Candidate, bool) {
	candidates := a.result.Groups[i].Candidates
	if a.lists[i].unnamed <= 0 || len(candidates) == 0 {
		return scorer.Candidate{}, false
	}
	return candidates[len(candidates)-1], true
}

// cutRanked drops the rows that come after x.
func cutRanked(list []Ranked, x scorer.Candidate) []Ranked {
	for len(list) > 0 && scorer.Before(x, list[len(list)-1].Candidate) {
		list = list[:len(list)-1]
	}
	return list
}

// insertRanked adds a row to the best n, best first.
func insertRanked(list []Ranked, x Ranked, n int) []Ranked {
	i := len(list)
	for i > 0 && scorer.Before(x.Candidate, list[i-1].Candidate) {
		i--
	}
	if i == n {
		return list
	}
	list = slices.Insert(list, i, x)
	return list[:min(n, len(list))]
}

// Row is a feasible row that reviewers look at.
type Row struct {
	cache.Row
	group int
	local int64
}

// Rows are all feasible rows, for reviewers to look at. Where the workers did not name all rows, every row is judged here.
func (a *Answer) Rows(nominees []*Nominee) []Row {
	a.settle()
	if slices.ContainsFunc(a.lists, func(l list) bool { return l.unnamed > 0 }) {
		a.JudgeAll(false)
		a.veto(nominees)
		a.settle()
	}
	var rows []Row
	for i := range a.standing.Groups {
		if !a.standing.Groups[i].Feasible {
			continue
		}
		for _, c := range a.result.Groups[i].Candidates {
			row := cache.Row{Shard: c.Shard, Index: c.Row}
			if _, known := a.index.find(row); !known {
				rows = append(rows, Row{row, i, c.Score})
			}
		}
	}
	for i := range a.repaired {
		if r := &a.repaired[i]; a.passes(r) {
			rows = append(rows, Row{r.row, r.group, r.local})
		}
	}
	return rows
}

// Rank gives a feasible row its whole score.
func (a *Answer) Rank(r Row) Ranked {
	return Ranked{a.engine.tables.Candidate(r.Row, r.local+a.standing.Groups[r.group].Score), r.group}
}

// RowsAmong are the feasible rows among some.
func (a *Answer) RowsAmong(some []cache.Row) (rows []Row) {
	for _, row := range some {
		at := a.at(row)
		a.settle()
		if r := &a.repaired[at]; a.passes(r) {
			rows = append(rows, Row{row, r.group, r.local})
		}
	}
	return rows
}

// ScoresAmong are the whole scores that some feasible rows would have if no other row were feasible.
func (a *Answer) ScoresAmong(rows []Row) []int64 {
	kept := make([]int, len(a.result.Groups))
	for i := range a.result.Groups {
		kept[i], a.result.Groups[i].Rows = a.result.Groups[i].Rows, 0
	}
	for i := range rows {
		a.result.Groups[rows[i].group].Rows++
	}
	a.class.Settle(a.result, &a.among)
	totals := make([]int64, len(rows))
	for i := range rows {
		totals[i] = rows[i].local + a.among.Groups[rows[i].group].Score
	}
	for i := range kept {
		a.result.Groups[i].Rows = kept[i]
	}
	return totals
}

// Choose is the choice of the best of some rows. totals are their whole scores.
func (a *Answer) Choose(rows []Row, totals []int64) Choice {
	var top scorer.Candidate
	best := 0
	for i := range rows {
		if x := a.engine.tables.Candidate(rows[i].Row, totals[i]); i == 0 || scorer.Before(x, top) {
			top, best = x, i
		}
	}
	r := &rows[best]
	_, judged := a.index.find(r.Row)
	return Choice{Row: r.Row, Score: top.Score, Feasible: len(rows), named: !judged, group: r.group, local: r.local, from: a}
}
