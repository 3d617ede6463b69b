package answers

import (
	"slices"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// maxCounted is how many changes copies may be behind: with more, they are counted anew.
const maxCounted = 1 << 12

// Copies are how many more pods of a question's class nodes take, one after the other, while nothing else changes.
type Copies struct {
	// Tied is why the class has no copies: where a pod of it goes changes which nodes without it take the next, or others than the
	// rules have a say. Empty: it has.
	Tied string
	// Copies are the sums over all nodes, and by the domains of each key that was asked for; nil where Tied is set. They are
	// valid until the engine's next use.
	*scorer.Copies
}

// Copies are the copies of a question's class, over the question's domain, and by the domains of label keys, at most
// pb.MaxCopyKeys; or what is needed to know them. They are kept with the answer of the class, and repaired by the change log.
func (e *Engine) Copies(q *Question, keys ...string) (Copies, *Need) {
	if why := tied(q); why != "" {
		return Copies{Tied: why}, nil
	}
	if keys = once(keys); len(keys) > pb.MaxCopyKeys {
		return Copies{Tied: "too many topology keys"}, nil
	}
	a, need := e.Own(q)
	if need == nil {
		if a.repair(); !a.knows(keys) {
			need = e.another(a, q, false)
		}
	}
	if need != nil {
		need.Copies, need.CopyKeys = true, keys
		return Copies{}, need
	}
	out := a.copies
	if len(q.Nominees) > 0 {
		out = out.Clone()
		a.nominate(out, q.Nominees)
	}
	return Copies{Copies: out}, nil
}

// tied tells why a question's class has no copies.
func tied(q *Question) string {
	switch {
	case q.Class.Rejected != nil:
		return "a plugin rejects the pods on all nodes"
	case q.Alone:
		return "plugins or extenders that look at nodes"
	case q.Class.Claims:
		return "claims of devices"
	case q.Class.Volatile:
		return "volumes that are not settled"
	}
	return q.Class.Scorer.Tied()
}

// once is a list with each of its elements once.
func once(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}

// knows brings the copies up to now, and tells whether they are known by all of the keys.
func (a *Answer) knows(keys []string) bool {
	if a.oneBatch {
		a.countHere(keys)
		return true
	}
	if a.copies == nil || a.stale || slices.ContainsFunc(keys, func(key string) bool { return a.copies.Of(key) == nil }) {
		return false
	}
	log, from := &a.engine.log, a.counted
	for ; a.counted < log.end(); a.counted++ {
		entry := log.at(a.counted)
		if log.changedBetween(entry.row, from, a.counted) {
			continue // the first of these changes has counted the row as it is now
		}
		if entry.bare {
			a.copies = nil
			return false
		}
		e, table := a.engine, a.engine.tables.Table(int(entry.row.Shard))
		e.work.Judged++
		was, is := e.eval.CopiesOn(table, entry.row.Index, &entry.before, a.class), e.eval.CopiesOn(table, entry.row.Index, nil, a.class)
		a.copies.Move(table, entry.row.Index, is-was)
	}
	return true
}

// countHere counts the copies of an answer of few rows, all of which were judged here.
func (a *Answer) countHere(keys []string) {
	a.copies = scorer.NewCopies(keys)
	for i := range a.repaired {
		row := a.repaired[i].row
		table := a.engine.tables.Table(int(row.Shard))
		a.copies.Move(table, row.Index, a.engine.eval.CopiesOn(table, row.Index, nil, a.class))
	}
}

// nominate takes from copies what pods leave no room for that are nominated to rows.
func (a *Answer) nominate(c *scorer.Copies, nominees []*Nominee) {
	e, totals := a.engine, &a.scratch.totals
	for _, n := range nominees {
		table := e.tables.Table(int(n.Row.Shard))
		table.Totals(n.Row.Index, totals)
		n.Join(totals, n.Volumes)
		without, with := e.eval.CopiesOn(table, n.Row.Index, nil, a.class), e.eval.CopiesOn(table, n.Row.Index, totals, a.class)
		c.Move(table, n.Row.Index, min(with, without)-without)
	}
}

// copiesFrom is the first change that is needed to repair the copies; the end of the log: none is. Copies that are far behind are
// dropped.
func (a *Answer) copiesFrom(log *ChangeLog) uint64 {
	if a.copies != nil && (a.counted < log.first || log.end()-a.counted > maxCounted) {
		a.copies = nil
	}
	if a.copies == nil {
		return log.end()
	}
	return a.counted
}
