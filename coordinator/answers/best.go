package answers

import (
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/scorer"
)

// Choice is the best row for a pod, with its whole score.
type Choice struct {
	Row   cache.Row
	Score int64
	// Feasible is how many rows there were to choose from.
	Feasible int
	// named tells that a worker has named the row as a candidate of group, with this local score. It was not judged here.
	named bool
	group int
	local int64
	from  chooser
	// Fatal is why Row fails the pod, whatever other rows say; nil: no row does. No row is chosen then.
	Fatal *scorer.FatalText
}

// outcome is the outcome of a choice.
type outcome int

const (
	chosen  outcome = iota
	nowhere         // no row is feasible
	used            // rows that the workers did not name may be better
	failing         // a row fails the pod
)

// chooser chooses rows: an answer, or a view of an answer.
type chooser interface {
	top(n int) []Ranked
	whole() (*scorer.Result, *scorer.Standing)
}

// best finds the row for the next pod.
func (a *Answer) best() (Choice, outcome) {
	if a.stale {
		return Choice{}, used
	}
	if a.feasible(); a.standing.Failing > 0 {
		c, v := a.bestOf(func(g *scorer.GroupStanding) bool { return g.Failing })
		if v == chosen {
			v = failing
		}
		return c, v
	}
	if a.standing.Feasible == 0 {
		return Choice{}, nowhere
	}
	return a.bestOf(func(g *scorer.GroupStanding) bool { return g.Feasible })
}

// bestOf finds the best row of some groups.
func (a *Answer) bestOf(counts func(*scorer.GroupStanding) bool) (Choice, outcome) {
	var best leader
	for i := range a.standing.Groups {
		if !counts(&a.standing.Groups[i]) {
			continue
		}
		if c, ok := a.untouched(i); ok {
			best.offerNamed(c, i, a.standing.Groups[i].Score)
		}
		if c, ok := a.rankedHead(i); ok {
			c.Score += a.standing.Groups[i].Score
			best.offer(c)
		}
	}
	for i := range a.standing.Groups {
		if !counts(&a.standing.Groups[i]) {
			continue
		}
		if bound, ok := a.bound(i); ok && best.isBehind(bound) {
			return Choice{}, used
		}
	}
	if !best.found {
		return Choice{}, used
	}
	return best.choice(a, a.standing.Feasible), chosen
}

// leader is the best of the rows that it was offered.
type leader struct {
	top   scorer.Candidate
	found bool
	// named tells that the row is a candidate of a group of an answer, and score is that group's.
	named bool
	group int
	score int64
}

func (l *leader) offer(c scorer.Candidate) {
	if !l.found || scorer.Before(c, l.top) {
		l.top, l.found, l.named = c, true, false
	}
}

// offerNamed is offer for a candidate of a group; the group's score is added to its own.
func (l *leader) offerNamed(c scorer.Candidate, group int, score int64) {
	c.Score += score
	if !l.found || scorer.Before(c, l.top) {
		*l = leader{c, true, true, group, score}
	}
}

// choice is the best row.
func (l *leader) choice(from chooser, feasible int) Choice {
	return Choice{
		Row: cache.Row{Shard: l.top.Shard, Index: l.top.Row}, Score: l.top.Score, Feasible: feasible,
		named: l.named, group: l.group, local: l.top.Score - l.score, from: from,
	}
}

// isBehind tells whether c would be chosen before the best row, or there is none.
func (l *leader) isBehind(c scorer.Candidate) bool { return !l.found || scorer.Before(c, l.top) }

// rankedHead is the best row of a group that was judged here since the answer, with its local score.
func (a *Answer) rankedHead(i int) (best scorer.Candidate, found bool) {
	h := &a.ranked[i]
	a.aside = a.aside[:0]
	for len(*h) > 0 && !found {
		x := &(*h)[0]
		r := &a.repaired[x.at]
		switch {
		case a.outdated(x):
			a.heaped--
			h.pop()
		case r.vetoed: // for this pod
			a.aside = append(a.aside, *x)
			h.pop()
		default:
			best, found = a.engine.tables.Candidate(r.row, x.score), true
		}
	}
	for _, x := range a.aside {
		h.push(x)
	}
	return best, found
}

// untouched is the best candidate of a group that was not judged here since the answer, with its local score.
func (a *Answer) untouched(i int) (scorer.Candidate, bool) {
	candidates, l := a.result.Groups[i].Candidates, &a.lists[i]
	for l.used < len(candidates) {
		c := candidates[l.used]
		if _, ok := a.index.find(cache.Row{Shard: c.Shard, Index: c.Row}); !ok {
			return c, true
		}
		l.used++
	}
	return scorer.Candidate{}, false
}

// bound stands before all unnamed rows of a group, with its whole score: they come after the last candidate.
func (a *Answer) bound(i int) (scorer.Candidate, bool) {
	c, ok := a.last(i)
	c.Score += a.standing.Groups[i].Score
	return c, ok
}

// last is the last candidate of a group, if all its candidates are used up and it has unnamed rows.
func (a *Answer) last(i int) (scorer.Candidate, bool) {
	l, g := &a.lists[i], &a.result.Groups[i]
	if l.unnamed <= 0 || l.used < len(g.Candidates) || g.Rows == 0 || len(g.Candidates) == 0 {
		return scorer.Candidate{}, false
	}
	return g.Candidates[len(g.Candidates)-1], true
}
