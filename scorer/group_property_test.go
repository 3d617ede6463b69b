package scorer

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// tell writes out what a result says of groups and measures, without what is empty.
func tell(r *Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d rows in groups\n", r.Feasible)
	groups := slices.Clone(r.Groups)
	sortGroups(groups)
	for i := range groups {
		if g := &groups[i]; g.Rows != 0 {
			fmt.Fprintf(&b, "group %v: %d rows\n", g.Key, g.Rows)
		}
	}
	for i := range r.Measures {
		m := &r.Measures[i]
		for k := range m.Cells {
			if c := m.Cells[k]; c.Rows != 0 || c.Sum != 0 {
				fmt.Fprintf(&b, "measure %d: %v\n", i, c)
			}
		}
		if m.Missing.Rows != 0 || m.Missing.Sum != 0 {
			fmt.Fprintf(&b, "measure %d: without label %v\n", i, m.Missing)
		}
	}
	return b.String()
}

// groupTrial is one random cluster with one random pod.
type groupTrial struct {
	t      *rapid.T
	r      random
	nodes  []*groupNode
	spec   *groupSpec
	class  *Class
	tables []*Table
	at     map[*groupNode]Candidate
	e      *Evaluator
	o      Options
}

func newGroupTrial(t *rapid.T, e *Evaluator, rows int) *groupTrial {
	// One number would mostly be a small one, and the same small ones again.
	seed := rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "seed")
	x := &groupTrial{t: t, r: newRandom(binary.LittleEndian.Uint64(seed)), e: e}
	x.nodes = x.r.groupNodes(rows)
	x.o = Options{
		Candidates: rapid.SampledFrom([]int{0, 1, 3, 1000}).Draw(t, "candidates"),
		Diagnose:   rapid.Bool().Draw(t, "diagnose"),
	}
	x.tables, x.at = groupTables(t, x.r, x.nodes, rapid.IntRange(1, 5).Draw(t, "shards"))
	return x
}

// ask makes a class. Where it may, it tells hostnames by row and not by domain.
func (x *groupTrial) ask(spec *groupSpec, q *pb.Query, byRow bool) {
	x.askPinned(spec, q, byRow, x.r.chance(40))
}

// askPinned is ask that says whether to pin what may be.
func (x *groupTrial) askPinned(spec *groupSpec, q *pb.Query, byRow, pin bool) {
	unique := uniqueAmong(x.nodes)
	compileGroups(spec, q, func(key string) bool { return byRow && unique(key) }, pin)
	x.spec, x.class = spec, newClass(x.t, q)
}

// evaluate merges the tables' answers in a random order, some as messages. What is pinned is so anew.
func (x *groupTrial) evaluate() *Result {
	x.class = x.class.Pin(slices.Values(x.tables))
	if x.r.chance(50) { // as it comes with a request
		class, err := newClass(x.t, x.class.Query()).PinTo(x.class.PinnedSums())
		if err != nil {
			x.t.Fatalf("PinTo: %v", err)
		}
		x.class = class
	}
	var parts []*Result
	for _, t := range x.tables {
		parts = append(parts, evaluate(x.e, t, x.class, x.o))
	}
	for len(parts) > 1 {
		i := x.r.IntN(len(parts))
		from := parts[i]
		parts = slices.Delete(parts, i, i+1)
		mergeInto(parts[x.r.IntN(len(parts))], from, x.tables, x.r.chance(50))
	}
	return parts[0]
}

// row judges a node's row.
func (x *groupTrial) row(n *groupNode) *Verdict {
	v := &Verdict{}
	x.e.Row(x.tables[x.at[n].Shard], x.at[n].Row, nil, x.class, x.o.Diagnose, v)
	return v
}

func groupIndex(r *Result, k *Key) int {
	return slices.IndexFunc(r.Groups, func(g Group) bool { return g.Key.Equal(k) })
}

// What the groups of any shards come to is what upstream's plugins say, node by node.
func TestGroupsEqualReference(t *testing.T) {
	e := NewEvaluator(nil)
	var s Standing // used again, so that leftovers would show
	rapid.Check(t, func(t *rapid.T) {
		x := newGroupTrial(t, e, size(t))
		for range 3 {
			spec, q := x.r.groupSpec()
			x.ask(spec, q, x.r.chance(70))
			r := x.evaluate()
			x.class.Settle(r, &s)
			x.check(r, &s)
		}
	})
}

func (x *groupTrial) check(r *Result, s *Standing) {
	want := judgeGroups(x.spec, x.class.Query(), x.nodes)
	if s.Feasible != len(want.feasible) {
		x.t.Fatalf("got %d feasible, want %d\nquery %v\n%s", s.Feasible, len(want.feasible), x.class.Query(), tell(r))
	}
	for _, n := range x.nodes {
		x.checkNode(r, s, want, n)
	}
	if x.o.Diagnose {
		x.checkReasons(r, s, want)
	}
	x.checkCandidates(r)
}

func (x *groupTrial) checkNode(r *Result, s *Standing, want *groupJudge, n *groupNode) {
	v, group := x.row(n), -1
	if v.Passed {
		if group = groupIndex(r, &v.Key); group < 0 {
			x.t.Fatalf("%s: no group %v\n%s", n.Node.Name, v.Key, tell(r))
		}
	}
	reasons := want.reasons[n]
	if feasible := group >= 0 && s.Groups[group].Feasible; feasible != (len(reasons) == 0) {
		x.t.Fatalf("%s: got feasible %t, want reasons %v\nkey %v\nquery %v\n%s", n.Node.Name, feasible, reasons, v.Key, x.class.Query(), tell(r))
	}
	if len(reasons) > 0 {
		if x.o.Diagnose {
			x.checkRefusal(r, s, v, group, n, reasons)
		}
		return
	}
	if got := v.Local + s.Groups[group].Score; got != want.total[n] {
		x.t.Fatalf("%s: got %d, want %d\nscores %v\nquery %v\n%s", n.Node.Name, got, want.total[n], x.class.GroupScores(r, s, group), x.class.Query(), tell(r))
	}
	for _, g := range x.class.GroupScores(r, s, group) {
		if raw, normalised := want.raw[g.Plugin][n], want.normalised[g.Plugin][n]; g.Raw != raw || g.Normalised != normalised {
			x.t.Fatalf("%s: %s: got %d→%d, want %d→%d", n.Node.Name, PluginName(g.Plugin), g.Raw, g.Normalised, raw, normalised)
		}
	}
}

func (x *groupTrial) checkRefusal(r *Result, s *Standing, v *Verdict, group int, n *groupNode, want []Reason) {
	var got []Reason
	if v.Passed {
		_, got = x.class.GroupReasons(r, s, group)
	} else {
		_, got = x.e.Reasons(x.tables[x.at[n].Shard], x.at[n].Row, nil, x.class)
	}
	if !slices.Equal(got, want) {
		x.t.Fatalf("%s: got reasons %v, want %v\nquery %v", n.Node.Name, got, want, x.class.Query())
	}
}

// checkReasons adds up the reasons of rows and groups.
func (x *groupTrial) checkReasons(r *Result, s *Standing, want *groupJudge) {
	got, wanted := map[Reason]int{}, map[Reason]int{}
	for _, c := range r.Reasons {
		got[Reason{c.Plugin, c.Text, c.Unresolvable}] += c.Nodes
	}
	for i := range r.Groups {
		_, reasons := x.class.GroupReasons(r, s, i)
		for _, why := range reasons {
			got[why] += r.Groups[i].Rows
		}
	}
	for _, reasons := range want.reasons {
		for _, why := range reasons {
			wanted[why]++
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(wanted) {
		x.t.Fatalf("got reasons %v, want %v", got, wanted)
	}
	hopeless := 0
	for _, n := range x.nodes {
		if !x.row(n).Passed && unresolvable(want.reasons[n]) {
			hopeless++
		}
	}
	if r.Hopeless != hopeless {
		x.t.Fatalf("got %d rows that nothing helps, want %d\nquery %v", r.Hopeless, hopeless, x.class.Query())
	}
}

// checkCandidates: each group offers its best rows, and none where it can not be feasible.
func (x *groupTrial) checkCandidates(r *Result) {
	want := make([][]Candidate, len(r.Groups))
	for _, n := range x.nodes {
		v := x.row(n)
		if !v.Passed || v.Key.LateFilter != 0 || x.forbidden(&v.Key) {
			continue
		}
		at := x.at[n]
		i := groupIndex(r, &v.Key)
		want[i] = append(want[i], x.tables[at.Shard].Candidate(at.Row, v.Local))
	}
	for i := range r.Groups {
		slices.SortFunc(want[i], func(a, b Candidate) int { return compareCandidates(&a, &b) })
		want[i] = want[i][:min(len(want[i]), x.o.Candidates)]
		if !slices.Equal(r.Groups[i].Candidates, want[i]) {
			x.t.Fatalf("group %v: got candidates %v, want %v", r.Groups[i].Key, r.Groups[i].Candidates, want[i])
		}
	}
}

func (x *groupTrial) forbidden(k *Key) bool {
	for i, v := range x.class.Query().RowValues {
		if v.Forbids && k.Values[i] > 0 {
			return true
		}
	}
	return false
}

// Rows moved in one by one make the result that Evaluate finds, and once all are moved
// out nothing is left.
func TestMoveEqualsEvaluate(t *testing.T) {
	e := NewEvaluator(nil)
	rapid.Check(t, func(t *rapid.T) {
		x := newGroupTrial(t, e, size(t))
		spec, q := x.r.groupSpec()
		x.ask(spec, q, x.r.chance(70))
		whole, moved := x.evaluate(), &Result{}
		moved.Reset(x.class.ID(), 0)
		for _, n := range x.nodes {
			v := x.row(n)
			group := moved.Move(x.class, v, 1)
			if v.Passed != (group >= 0) || v.Passed && !moved.Groups[group].Key.Equal(&v.Key) {
				t.Fatalf("got group %d for %v", group, v)
			}
		}
		if d := diff(tell(moved), tell(whole)); d != "" {
			t.Fatalf("query %v\n%s", q, d)
		}
		for _, n := range x.nodes {
			whole.Move(x.class, x.row(n), -1)
		}
		if got, want := tell(whole), tell(&Result{}); got != want {
			t.Fatalf("got %s\nwant %s", got, want)
		}
	})
}

// A batch of placements: the answer of before, repaired row by row, settles as a fresh one
// does.
func TestRepairEqualsFresh(t *testing.T) {
	e := NewEvaluator(nil)
	rapid.Check(t, func(t *rapid.T) {
		x := newGroupTrial(t, e, size(t))
		spec, q := x.r.groupSpec()
		x.ask(spec, q, x.r.chance(70))
		r := x.evaluate()
		var repaired Standing
		var totals RowTotals
		var v Verdict
		for range rapid.IntRange(1, 10).Draw(t, "placements") {
			n := x.nodes[x.r.IntN(len(x.nodes))]
			table, row := x.tables[x.at[n].Shard], x.at[n].Row
			pod := x.r.pod()
			for _, c := range []uint32{1, 2, 3, 90} {
				if x.r.chance(50) {
					pod.Counters = append(pod.Counters, &pb.CounterValue{Counter: c, Value: 1})
				}
			}
			table.Totals(row, &totals)
			must(table.Apply(&pb.Delta{Row: row, Change: &pb.Delta_AddPod{AddPod: pod}, Decision: 9}))
			totals.AddCounters(pod.Counters, -1) // the totals' counters are what the table's were
			e.Row(table, row, &totals, x.class, x.o.Diagnose, &v)
			r.Move(x.class, &v, -1)
			e.Row(table, row, nil, x.class, x.o.Diagnose, &v)
			r.Move(x.class, &v, 1)
			class := x.class
			if totals.MovesPins(class) {
				r = x.evaluate() // it is given up
			} else if class.Pin(slices.Values(x.tables)) != class {
				t.Fatalf("pinned sums have moved, which no one tells\nquery %v", q)
			}
			x.class.Settle(r, &repaired)
			fresh, again := x.evaluate(), Standing{}
			x.class.Settle(fresh, &again)
			if d := diff(tell(r), tell(fresh)); d != "" {
				t.Fatal(d)
			}
			x.sameStanding(r, &repaired, fresh, &again)
		}
	})
}

func (x *groupTrial) sameStanding(r *Result, s *Standing, fresh *Result, want *Standing) {
	if s.Feasible != want.Feasible {
		x.t.Fatalf("got %d feasible, want %d", s.Feasible, want.Feasible)
	}
	for i := range fresh.Groups {
		k := groupIndex(r, &fresh.Groups[i].Key)
		if s.Groups[k] != want.Groups[i] {
			x.t.Fatalf("group %v: got %v, want %v", fresh.Groups[i].Key, s.Groups[k], want.Groups[i])
		}
	}
}

// A standing that is used for one result after the other keeps nothing of those before, also
// where they were in the same memory.
func TestStandingForgets(t *testing.T) {
	e := NewEvaluator(nil)
	rapid.Check(t, func(t *rapid.T) {
		var r Result
		var s Standing
		for range 4 {
			x := newGroupTrial(t, e, rapid.IntRange(1, 30).Draw(t, "size"))
			spec, q := x.r.groupSpec()
			x.ask(spec, q, false)
			for range 2 {
				x.class = x.class.Pin(slices.Values(x.tables))
				r.Reset(x.class.ID(), x.o.Candidates)
				for _, table := range x.tables {
					e.Evaluate(table, x.class, x.o, &r)
				}
				x.class.Settle(&r, &s)
				x.check(&r, &s)
				x.relabel()
			}
		}
	})
}

// relabel exchanges the zones of the nodes.
func (x *groupTrial) relabel() {
	zones := values[x.r.IntN(len(values)):]
	for _, n := range x.nodes {
		for _, l := range n.Node.Labels {
			if l.Key == "zone" {
				l.Value = pick(x.r, zones...)
			}
		}
	}
	x.tables, x.at = groupTables(x.t, x.r, x.nodes, len(x.tables))
}

// A label that no two nodes share may be told by row or by domain, and terms may be pinned: the pods go
// to the same nodes for the same reasons with the same scores.
func TestRowValuesEqualDomains(t *testing.T) {
	e := NewEvaluator(nil)
	rapid.Check(t, func(t *rapid.T) {
		x := newGroupTrial(t, e, rapid.IntRange(1, 80).Draw(t, "size"))
		seed := x.r.Uint64()
		var got [3]string
		for i := range got {
			spec, q := newRandom(seed).groupSpec()
			x.askPinned(spec, q, i == 1, i == 2)
			r, s := x.evaluate(), Standing{}
			x.class.Settle(r, &s)
			for _, n := range x.nodes {
				v := x.row(n)
				text := "refused"
				if v.Passed {
					g := groupIndex(r, &v.Key)
					_, why := x.class.GroupReasons(r, &s, g)
					text = fmt.Sprint(s.Groups[g], why)
					if !s.Groups[g].Feasible && !x.o.Diagnose {
						text = "refused"
					}
				}
				got[i] += n.Node.Name + ": " + text + "\n"
			}
		}
		for _, other := range got[1:] {
			if d := diff(other, got[0]); d != "" {
				t.Fatalf("query %v\n%s", x.class.Query(), d)
			}
		}
	})
}
