package scorer

import (
	"testing"

	"pgregory.net/rapid"
)

// The answer to a class's base, with the rows moved of which the class counts something, is the answer to
// the class.
func TestBaseWithOwnRowsEqualsEvaluate(t *testing.T) {
	e := NewEvaluator(nil)
	own, others := 0, 0
	property := func(t *rapid.T) {
		x := newGroupTrial(t, e, size(t))
		x.o.Diagnose = false
		spec, q := x.r.groupSpec()
		x.ask(spec, q, x.r.chance(70))
		want := x.evaluate()
		class := x.class
		b := BaseQuery(q)
		b.ClassId = q.ClassId + 1
		x.class = newClass(t, b)
		base, got := x.evaluate(), &Result{}
		got.CopyCounts(class.ID(), base)
		counted := map[Candidate]bool{}
		for _, counter := range class.GroupCounters() {
			for _, table := range x.tables {
				for row := range table.CounterRows(counter) {
					counted[Candidate{Shard: table.Shard(), Row: row}] = true
				}
			}
		}
		var v Verdict
		for _, n := range x.nodes {
			at := x.at[n]
			before := x.row(n)
			class.Recount(x.tables[at.Shard], at.Row, before, &v)
			var row Verdict
			e.Row(x.tables[at.Shard], at.Row, nil, class, false, &row)
			if v.Local != row.Local || !sharesAs(&v, &row) {
				t.Fatalf("row of %v: got %v, want %v", at, v, row)
			}
			if !counted[Candidate{Shard: at.Shard, Row: at.Row}] {
				if !sharesAs(&v, before) {
					t.Fatalf("row of %v, of which nothing is counted: got %v, with the base %v", at, v, before)
				}
				others++
				continue
			}
			own++
			got.Move(class, before, -1)
			got.Move(class, &v, +1)
		}
		if d := diff(tell(got), tell(want)); d != "" {
			t.Fatalf("query %v\n%s", q, d)
		}
	}
	for range 10 { // with -short a check has 20 cases
		if rapid.Check(t, property); own >= 500 && others >= 500 {
			return
		}
	}
	t.Errorf("%d rows of their own, %d others", own, others)
}
