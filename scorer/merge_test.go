package scorer

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// However many candidates each part of a cluster names, a merged list is the beginning of the list of the whole cluster: as
// much as was wanted, or up to the first row that has nobody behind it in its part's list but rows without a name.
func TestMergedListsAreExactAsFarAsTheyGo(t *testing.T) {
	e := NewEvaluator(nil)
	short, whole := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		r := newRandom(rapid.Uint64().Draw(t, "seed"))
		rows := r.rows(size(t))
		tables := split(t, r, rows, rapid.IntRange(1, 7).Draw(t, "parts"))
		c := newClass(t, r.query())
		o := Options{Candidates: len(rows), Diagnose: true}
		want := &Result{}
		want.Reset(c.ID(), len(rows))
		for _, table := range tables {
			e.Evaluate(table, c, o, want)
		}
		o.Candidates = rapid.SampledFrom([]int{1, 2, 5, 20, 200}).Draw(t, "wanted")
		var parts []*Result
		for _, table := range tables {
			share := o
			share.Candidates = rapid.IntRange(1, o.Candidates).Draw(t, "share")
			parts = append(parts, evaluate(e, table, c, share))
		}
		ends := endsOf(parts, want, o.Candidates)
		for name, got := range merges(c, parts, tables, o.Candidates, r) {
			for i := range want.Groups {
				list := want.Groups[i].Candidates[:ends[i]]
				if !slices.Equal(got.Groups[i].Candidates, list) {
					t.Fatalf("%s, group %d: got candidates %v, want %v", name, i, got.Groups[i].Candidates, list)
				}
			}
			bare := *want
			if bare.Feasible == 0 {
				bare.Extrema = got.Extrema // zeros, or none
			}
			bare.Groups = slices.Clone(want.Groups)
			for i := range bare.Groups {
				bare.Groups[i].Candidates = bare.Groups[i].Candidates[:ends[i]]
			}
			if d := diff(describe(got), describe(&bare)); d != "" {
				t.Fatalf("%s: %s", name, d)
			}
		}
		for i := range ends {
			if ends[i] < min(o.Candidates, want.Groups[i].Rows) {
				short++
			} else {
				whole++
			}
		}
	})
	if short == 0 || whole == 0 {
		t.Errorf("got %d lists that end sooner and %d that do not, want some of both", short, whole)
	}
}

// endsOf is how many candidates of each group of the whole cluster come out of some parts.
func endsOf(parts []*Result, whole *Result, wanted int) []int {
	ends := make([]int, len(whole.Groups))
	for i := range whole.Groups {
		g := &whole.Groups[i]
		ends[i] = min(len(g.Candidates), wanted)
		for _, p := range parts {
			for k := range p.Groups {
				if x := &p.Groups[k]; x.Key.Equal(&g.Key) && x.Rows > len(x.Candidates) {
					ends[i] = min(ends[i], 1+slices.Index(g.Candidates, x.Candidates[len(x.Candidates)-1]))
				}
			}
		}
	}
	return ends
}

// merges adds parts up in several ways.
func merges(c *Class, parts []*Result, tables []*Table, wanted int, r random) map[string]*Result {
	empty := func() *Result {
		out := &Result{}
		out.Reset(c.ID(), wanted)
		return out
	}
	all, some, travelled := empty(), empty(), empty()
	all.MergeAll(parts)
	list := slices.Clone(parts)
	r.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
	first := empty()
	for i, p := range list {
		if i%2 == 0 {
			first.Merge(p)
		} else {
			some.Merge(p)
		}
	}
	some.Merge(first)
	for i, p := range parts {
		travelled.addAll(response([]uint32{uint32(i)}, p), func(_ int, row uint32) Candidate { return tables[i].Candidate(row, 0) })
	}
	return map[string]*Result{"at once": all, "in twos": some, "over the wire": travelled}
}
