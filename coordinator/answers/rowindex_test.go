package answers

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/scorer"
)

func TestRowIndexIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x rowIndex
		model := map[cache.Row]int{}
		row := rapid.Custom(func(t *rapid.T) cache.Row {
			return cache.Row{Shard: rapid.Uint32Range(0, 3).Draw(t, "shard"), Index: rapid.Uint32Range(0, 200).Draw(t, "row")}
		})
		for i := range rapid.IntRange(0, 300).Draw(t, "steps") {
			r := row.Draw(t, "at")
			at, ok := x.find(r)
			want, known := model[r]
			if ok != known || ok && at != want {
				t.Fatalf("row %v: got %d, %t, want %d, %t", r, at, ok, want, known)
			}
			switch what := rapid.IntRange(0, 20).Draw(t, "what"); {
			case what == 0:
				x.reset()
				clear(model)
			case !known:
				if x.put(r, i); what < 5 {
					x.undo(r)
				} else {
					model[r] = i
				}
			}
		}
	})
}

// A heap gives rows in the order in which they are chosen, without those that were swept out.
func TestRowHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h rowHeap
		var model []scorer.Candidate
		compare := func(a, b scorer.Candidate) int {
			switch {
			case scorer.Before(a, b):
				return -1
			case scorer.Before(b, a):
				return 1
			}
			return 0
		}
		for i := range rapid.IntRange(0, 100).Draw(t, "rows") {
			c := scorer.Candidate{
				Score: rapid.Int64Range(0, 5).Draw(t, "score"), LastDecision: rapid.Uint64Range(0, 2).Draw(t, "decision"),
				NameHash: rapid.Uint64Range(0, 2).Draw(t, "hash"), Name: rapid.StringN(1, 3, 3).Draw(t, "name"),
			}
			model = append(model, c)
			h.push(rankedRow{c.Score, c.LastDecision, c.NameHash, c.Name, int32(i), 0})
		}
		if least := rapid.Int64Range(0, 3).Draw(t, "least that stays"); least > 0 {
			h.sweep(func(x *rankedRow) bool { return x.score < least })
			model = slices.DeleteFunc(model, func(c scorer.Candidate) bool { return c.Score < least })
		}
		slices.SortFunc(model, compare)
		for _, want := range model {
			if len(h) == 0 {
				t.Fatalf("the heap is empty, want %v", want)
			}
			if got := (scorer.Candidate{Score: h[0].score, LastDecision: h[0].decision, NameHash: h[0].hash, Name: h[0].name}); got != want {
				t.Fatalf("got %v, want %v", got, want)
			}
			h.pop()
		}
		if len(h) != 0 {
			t.Fatalf("got %d rows more than were put", len(h))
		}
	})
}

// The log forgets its older half, keeps numbers and what is known of rows, and shares no memory
// between entries.
func TestTrimmedChangeLog(t *testing.T) {
	b := newRig(t)
	for i := range maxChanges + 10 {
		row := cache.Row{Index: uint32(i % 7)}
		b.cache.Table(0).Totals(0, b.log.add(row, i%5 == 0))
	}
	first, end := b.log.first, b.log.end()
	b.log.trim()
	if b.log.end() != end || b.log.first <= first || len(b.log.list) != maxChanges/2 {
		t.Fatalf("got changes %d to %d, %d in the log; want up to %d, %d", b.log.first, b.log.end(), len(b.log.list), end, maxChanges/2)
	}
	entries := 0
	for row, numbers := range b.log.rows {
		for _, n := range numbers {
			if b.log.at(n).row != row {
				t.Fatalf("change %d is of row %v, want %v", n, b.log.at(n).row, row)
			}
		}
		entries += len(numbers)
	}
	if entries != len(b.log.list) {
		t.Errorf("rows know of %d changes, want %d", entries, len(b.log.list))
	}
	if b.log.leftSince(cache.Row{Index: 3}, end, false) || !b.log.leftSince(cache.Row{Index: 3}, b.log.first, false) {
		t.Error("that pods have left a row is known of the wrong changes")
	}
	last := b.log.at(end - 1)
	before := last.before.LastDecision()
	for range 10 {
		b.place("a", "0.1")
	}
	if got := b.log.at(end - 1).before.LastDecision(); got != before {
		t.Errorf("an entry's totals have changed with later ones: decision %d, want %d", got, before)
	}
}
