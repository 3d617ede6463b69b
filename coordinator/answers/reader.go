package answers

import (
	"iter"

	"github.com/shardsched/shardsched/coordinator/cache"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// Reader looks at the rows of the own tables as they are now, for explanations. It changes neither rows nor held answers.
type Reader struct{ e *Engine }

// Reader is for those who only read. It is used on the engine's goroutine.
func (e *Engine) Reader() Reader { return Reader{e} }

// Nodes is how many nodes there are.
func (r Reader) Nodes() int { return r.e.tables.Nodes() }

// Rows are all rows.
func (r Reader) Rows() iter.Seq[cache.Row] {
	return func(yield func(cache.Row) bool) {
		for i := range r.e.tables.NumShards() {
			for row := range r.e.tables.Table(i).All() {
				if !yield(cache.Row{Shard: uint32(i), Index: row}) {
					return
				}
			}
		}
	}
}

// RowOf is a node's row.
func (r Reader) RowOf(node string) (cache.Row, bool) { return r.e.tables.RowOf(node) }

// Name is the name of a row's node.
func (r Reader) Name(row cache.Row) string { return r.table(row).Name(row.Index) }

// Pinned is a class with its pinned sums as they are now.
func (r Reader) Pinned(class *scorer.Class) *scorer.Class { return r.e.Pinned(class) }

// Count judges a row and counts it into its group of a result. The group is below 0 where the row is refused.
func (r Reader) Count(row cache.Row, class *scorer.Class, into *scorer.Result) Ranked {
	var v scorer.Verdict
	r.e.eval.Row(r.table(row), row.Index, nil, class, true, &v)
	return Ranked{Candidate: r.table(row).Candidate(row.Index, v.Local), Group: into.Move(class, &v, +1)}
}

// Reasons tell why a row is refused by itself.
func (r Reader) Reasons(row cache.Row, class *scorer.Class) []scorer.Reason {
	_, reasons := r.e.eval.Reasons(r.table(row), row.Index, nil, class)
	return reasons
}

// Shortfalls tell what a row lacks.
func (r Reader) Shortfalls(row cache.Row, class *scorer.Class) []scorer.Shortfall {
	return r.e.eval.Shortfalls(r.table(row), row.Index, nil, class)
}

// Room is how many more pods that request so much a row takes, by what they request.
func (r Reader) Room(row cache.Row, requests *pb.Resources, ignored func(resource string) bool) int64 {
	return r.table(row).Room(row.Index, requests, ignored)
}

// Shortage tells why a row has no devices; nil: it has.
func (r Reader) Shortage(row cache.Row, class *scorer.Class, known *scorer.Shortages) *scorer.DeviceShortage {
	return known.Find(r.e.eval, r.table(row), row.Index, class)
}

// UnavailableClaims are the allocated claims that are not for a row, by their numbers in the query.
func (r Reader) UnavailableClaims(row cache.Row, class *scorer.Class) []int {
	return r.e.eval.UnavailableClaims(r.table(row), row.Index, class)
}

// Expressions are the outcomes of the class's expressions on a row.
func (r Reader) Expressions(row cache.Row, class *scorer.Class) []scorer.ExpressionOutcome {
	return r.e.eval.Expressions(r.table(row), row.Index, nil, class)
}

// FullDrivers are the drivers of volumes because of which a row is refused.
func (r Reader) FullDrivers(row cache.Row, class *scorer.Class) []scorer.DriverRoom {
	return r.e.eval.FullDrivers(r.table(row), row.Index, nil, class)
}

// Scores are those of a row by itself, plugin by plugin.
func (r Reader) Scores(row cache.Row, class *scorer.Class) []scorer.PluginScore {
	return r.e.eval.Scores(r.table(row), row.Index, nil, class)
}

// Answer begins a diagnosed answer of a result, for the caller alone, and vetoes the rows that refuse the class with a nominee.
func (r Reader) Answer(class *scorer.Class, result *scorer.Result, nominees []*Nominee) *Answer {
	a := &Answer{engine: r.e, class: class}
	a.start(result, 0, true)
	a.veto(nominees)
	a.settle()
	return a
}

// OwnNode is Engine.OwnNode for an answer of Answer.
func (r Reader) OwnNode(a *Answer, name string) (Choice, bool) { return r.e.OwnNode(a, name) }

func (r Reader) table(row cache.Row) *scorer.Table { return r.e.tables.Table(int(row.Shard)) }
