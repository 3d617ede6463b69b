package scorer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// describe writes a result out, but for where its candidates are.
func describe(r *Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "class %d: %d of %d feasible, overflow %t, normalised %t, extrema %v\n",
		r.ClassID, r.Feasible, r.Rows, r.Overflow, r.Normalised, r.Extrema)
	for _, g := range r.Groups {
		fmt.Fprintf(&b, "group %v: %d rows\n", g.Key, g.Rows)
		for _, c := range g.Candidates {
			fmt.Fprintf(&b, "  %s %d (decision %d)\n", c.Name, c.Score, c.LastDecision)
		}
	}
	for _, c := range r.Reasons {
		fmt.Fprintf(&b, "%d × %s: %s (unresolvable %t)\n", c.Nodes, c.Plugin, c.Text, c.Unresolvable)
	}
	return b.String()
}

// diff tells where two texts part.
func diff(got, want string) string {
	if got == want {
		return ""
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d: got %q, want %q\ngot:\n%s\nwant:\n%s", i+1, g[i], w[i], got, want)
		}
	}
	return fmt.Sprintf("got:\n%s\nwant:\n%s", got, want)
}

func evaluate(e *Evaluator, t *Table, c *Class, o Options) *Result {
	out := &Result{}
	out.Reset(c.ID(), o.Candidates)
	e.Evaluate(t, c, o, out)
	return out
}

// judge is Row with memory of its own.
func judge(e *Evaluator, t *Table, row uint32, totals *RowTotals, c *Class) Verdict {
	var v Verdict
	e.Row(t, row, totals, c, false, &v)
	return v
}

// A result that was not Reset takes over how many candidates the first one merged has.
func TestMergeIntoNothing(t *testing.T) {
	c := newClass(t, benchQuery())
	want := evaluate(NewEvaluator(nil), loadTable(t, 0, benchRows(100)), c, Options{Candidates: 5})
	got := &Result{ClassID: c.ID()}
	got.Merge(want)
	if d := diff(describe(got), describe(want)); d != "" {
		t.Fatal(d)
	}
}

// size draws a number of rows from around the words' edges, and between.
func size(t *rapid.T) int {
	return rapid.OneOf(rapid.SampledFrom([]int{1, 63, 64, 65, 127, 128, 129}), rapid.IntRange(1, 200)).Draw(t, "size")
}

func options(t *rapid.T, c *Class) Options {
	o := Options{
		Candidates: rapid.SampledFrom([]int{0, 1, 2, 5, 64, 1000}).Draw(t, "candidates"),
		Diagnose:   rapid.Bool().Draw(t, "diagnose"),
		Normalise:  rapid.IntRange(0, 3).Draw(t, "normalise") == 0,
	}
	if o.Normalise {
		o.Extrema = make([]int64, c.KeyLen())
		for i := range o.Extrema {
			o.Extrema[i] = rapid.Int64Range(0, 300).Draw(t, "extremum")
		}
	}
	return o
}

func newClass(t interface{ Fatalf(string, ...any) }, q *pb.Query) *Class {
	c, err := NewClassWith(q, nil, testSelectors)
	if err != nil {
		t.Fatalf("NewClass: %v", err)
	}
	return c
}

func loadTable(t interface{ Fatalf(string, ...any) }, shard uint32, rows []*pb.SnapshotRow) *Table {
	table, err := LoadTable(shard, 7, rows, nil)
	if err != nil {
		t.Fatalf("LoadTable: %v", err)
	}
	return table
}

// Columns say what the plain reference says, of every row and of all together.
func TestColumnsEqualReference(t *testing.T) {
	e := NewEvaluator(nil) // used again, so that leftovers would show
	rapid.Check(t, func(t *rapid.T) {
		r := newRandom(rapid.Uint64().Draw(t, "seed"))
		rows := r.rows(size(t))
		table := loadTable(t, 3, rows)
		for range 4 {
			q := r.query()
			c := newClass(t, q)
			if r.chance(40) {
				q = r.variant(q)
				c = c.Vary(q)
			}
			o := options(t, c)
			got, want := evaluate(e, table, c, o), refResult(rows, q, o)
			if d := diff(describe(got), describe(want)); d != "" {
				t.Fatalf("query %v\n%s", q, d)
			}
			for _, x := range rows {
				checkRow(t, e, table, x, c)
			}
		}
	})
}

// checkRow compares everything that is asked of a single row with the reference.
func checkRow(t *rapid.T, e *Evaluator, table *Table, x *pb.SnapshotRow, c *Class) {
	want := refJudge(x, c.Query())
	v := judge(e, table, x.Row, nil, c)
	if v.Passed != (len(want.reasons) == 0) {
		t.Fatalf("row %d: got feasible %t, want reasons %v\nquery %v\nrow %v", x.Row, v.Passed, want.reasons, c.Query(), x)
	}
	if v.Passed && (v.Local != want.local || !slices.Equal(v.Key.Raw[:c.KeyLen()], want.key)) {
		t.Fatalf("row %d: got key %v local %d, want %v %d\nquery %v\nrow %v", x.Row, v.Key, v.Local, want.key, want.local, c.Query(), x)
	}
	if _, reasons := e.Reasons(table, x.Row, nil, c); !slices.Equal(reasons, want.reasons) {
		t.Fatalf("row %d: got reasons %v, want %v", x.Row, reasons, want.reasons)
	}
	for i, s := range e.Scores(table, x.Row, nil, c) {
		if s.Raw != want.raw[i] {
			t.Fatalf("row %d: got %s %d, want %d", x.Row, s.Name(), s.Raw, want.raw[i])
		}
	}
	short := e.Shortfalls(table, x.Row, nil, c)
	fit := len(want.reasons) > 0 && want.reasons[0].Plugin == "NodeResourcesFit"
	if fit != (len(short) > 0) || fit && len(short) != len(want.reasons) {
		t.Fatalf("row %d: got shortfalls %v, want one for each of %v", x.Row, short, want.reasons)
	}
}

// A cluster's answer does not depend on how its rows are split into tables, nor on the order and grouping in which the
// parts are evaluated one after the other, or merged, nor on whether they travelled.
func TestSplitAndMergeOrderDoNotMatter(t *testing.T) {
	e := NewEvaluator(nil)
	rapid.Check(t, func(t *rapid.T) { checkSplit(t, e, size(t), 3) })
}

func TestSplitOfLargeTables(t *testing.T) {
	for _, n := range []int{4095, 4096, 4097} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			e := NewEvaluator(nil)
			rounds := 0
			rapid.Check(t, func(t *rapid.T) {
				if rounds++; rounds <= 2 { // each takes as long as a hundred small ones
					checkSplit(t, e, n, 10)
				}
			})
		})
	}
}

func checkSplit(t *rapid.T, e *Evaluator, n, queries int) {
	r := newRandom(rapid.Uint64().Draw(t, "seed"))
	rows := r.rows(n)
	whole := loadTable(t, 0, rows)
	parts := split(t, r, rows, rapid.IntRange(1, 9).Draw(t, "shards"))
	for range queries {
		c := newClass(t, r.query())
		o := options(t, c)
		want := evaluate(e, whole, c, o)
		var results []*Result
		for _, p := range parts {
			if len(results) > 0 && r.chance(60) { // added to what others came to, which spares it most candidates
				e.Evaluate(p, c, o, results[r.IntN(len(results))])
			} else {
				results = append(results, evaluate(e, p, c, o))
			}
		}
		for len(results) > 1 {
			i := r.IntN(len(results))
			from := results[i]
			results = slices.Delete(results, i, i+1)
			mergeInto(results[r.IntN(len(results))], from, parts, r.chance(50))
		}
		if d := diff(describe(results[0]), describe(want)); d != "" {
			t.Fatalf("query %v\n%s", c.Query(), d)
		}
	}
}

// split deals rows out to tables, at new places.
func split(t *rapid.T, r random, rows []*pb.SnapshotRow, shards int) []*Table {
	dealt := make([][]*pb.SnapshotRow, shards)
	for _, x := range rows {
		s := r.IntN(shards)
		x = proto.CloneOf(x)
		x.Row = uint32(len(dealt[s]))
		dealt[s] = append(dealt[s], x)
	}
	var parts []*Table
	for s, list := range dealt {
		r.Shuffle(len(list), func(i, j int) { list[i].Row, list[j].Row = list[j].Row, list[i].Row })
		parts = append(parts, loadTable(t, uint32(s), list))
	}
	return parts
}

func mergeInto(into, from *Result, parts []*Table, travels bool) {
	if !travels {
		into.Merge(from)
		return
	}
	shards := make([]uint32, len(parts))
	for i := range parts {
		shards[i] = uint32(i)
	}
	into.addAll(response(shards, from), func(shard int, row uint32) Candidate { return parts[shard].Candidate(row, 0) })
}

// With the cluster's extrema, the second round orders rows exactly as the merged
// groups of the first do.
func TestTwoRoundsEqualOne(t *testing.T) {
	e := NewEvaluator(nil)
	rapid.Check(t, func(t *rapid.T) {
		r := newRandom(rapid.Uint64().Draw(t, "seed"))
		rows := r.rows(size(t))
		table := loadTable(t, 0, rows)
		c := newClass(t, r.query())
		o := Options{Candidates: len(rows)}
		first := evaluate(e, table, c, o)
		second := evaluate(e, table, c, Options{Candidates: len(rows), Normalise: true, Extrema: first.Extrema})
		if first.Overflow {
			return
		}
		var want []Candidate
		for _, g := range first.Groups {
			for _, x := range g.Candidates {
				x.Score += c.GroupScore(g.Key.Raw[:c.KeyLen()], first.Extrema)
				want = append(want, x)
			}
		}
		slices.SortFunc(want, func(a, b Candidate) int { return compareCandidates(&a, &b) })
		var got []Candidate
		for _, g := range second.Groups {
			got = append(got, g.Candidates...)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("query %v\ngot %v\nwant %v", c.Query(), got, want)
		}
	})
}

// More keys than a result holds overflow, wherever the keys meet, and the second round
// then answers.
func TestOverflow(t *testing.T) {
	q := &pb.Query{
		ClassId:      1,
		NodeAffinity: &pb.NodeAffinityQuery{},
		Scores:       []*pb.ScoreWeight{{Plugin: pb.Plugin_PLUGIN_NODE_AFFINITY, Weight: 1}},
	}
	for i := range 8 {
		q.NodeAffinity.Preferred = append(q.NodeAffinity.Preferred, &pb.PreferredTerm{
			Weight: 1 << min(i, 6),
			Term:   &pb.SelectorTerm{Labels: []*pb.LabelRequirement{{Key: fmt.Sprintf("k%d", i), Operator: pb.SelectorOperator_SELECTOR_OPERATOR_EXISTS}}},
		})
	}
	var rows []*pb.SnapshotRow
	for i := range MaxGroups + 1 {
		n := &pb.Node{Name: fmt.Sprintf("n%d", i)}
		for bit := range 6 {
			if i>>bit&1 != 0 {
				n.Labels = append(n.Labels, &pb.Label{Key: fmt.Sprintf("k%d", bit), Value: "x"})
			}
		}
		rows = append(rows, &pb.SnapshotRow{Row: uint32(i % 17), Node: n})
	}
	c, e := newClass(t, q), NewEvaluator(nil)
	half := func(o Options, rows []*pb.SnapshotRow) *Result { return evaluate(e, loadTable(t, 0, rows), c, o) }
	o := Options{Candidates: 2}
	merged := half(o, rows[:17])
	merged.Merge(half(o, rows[17:]))
	if !merged.Overflow || len(merged.Groups) != 0 || !slices.Equal(merged.Extrema, []int64{32}) {
		t.Fatalf("got overflow %t, %d groups, extrema %v; want true, 0, [32]", merged.Overflow, len(merged.Groups), merged.Extrema)
	}
	for i := range rows {
		rows[i].Row = uint32(i)
	}
	if alone := half(o, rows); describe(alone) != describe(merged) {
		t.Fatalf("got %s\nwant %s", describe(alone), describe(merged))
	}
	o.Normalise, o.Extrema = true, merged.Extrema
	second := half(o, rows)
	if second.Overflow || len(second.Groups) != 1 || second.Groups[0].Candidates[0].Name != "n32" || second.Groups[0].Candidates[0].Score != 100 {
		t.Fatalf("second round: got %s\nwant n32 with 100 first", describe(second))
	}
}
