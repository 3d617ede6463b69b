package scorer

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// copyTrial is a random class over random tables.
type copyTrial struct {
	r      random
	q      *pb.Query
	c      *Class
	tables []*Table
}

func newCopyTrial(t *rapid.T, shards int) *copyTrial {
	r := newRandom(rapid.Uint64().Draw(t, "seed"))
	x := &copyTrial{r: r, q: r.query()}
	nodes := r.groupNodes(1 + r.IntN(120))
	if r.chance(50) {
		var spec *groupSpec
		spec, x.q = r.groupSpec()
		if r.chance(70) {
			spec.hard, spec.required, spec.claims = nil, nil, nil
			x.q.VolumeRestrictions = nil
		}
		compileGroups(spec, x.q, uniqueAmong(nodes), r.chance(20))
		for i := range x.q.RowValues {
			isAnti := func(p *pb.Place) bool {
				in, ok := p.GetIn().(*pb.Place_RowValue)
				return ok && in.RowValue == uint32(i)
			}
			// A term of the pod's own has counters that the tables have, for a copy counts itself; and it is no other term's counter.
			known := func(c *pb.CounterTerm) bool {
				for j := range x.q.RowValues {
					if j != i && slices.ContainsFunc(x.q.RowValues[j].Counters, func(d *pb.CounterTerm) bool { return d.Counter == c.Counter }) {
						return false
					}
				}
				return slices.ContainsFunc(nodes, func(n *groupNode) bool { return n.counters[c.Counter] != 0 })
			}
			counts := len(x.q.RowValues[i].Counters) > 0 && !slices.ContainsFunc(x.q.RowValues[i].Counters, func(c *pb.CounterTerm) bool { return !known(c) })
			if counts && slices.ContainsFunc(x.q.GetInterPodAffinity().GetAnti(), isAnti) && r.chance(50) {
				x.q.InterPodAffinity.Alone = append(x.q.InterPodAffinity.Alone, uint32(i))
			}
		}
	}
	x.c = newClass(t, x.q)
	x.tables, _ = groupTables(t, r, nodes, shards)
	x.c = x.c.Pin(slices.Values(x.tables))
	return x
}

// copy adds n copies of the class to a row's totals.
func (x *copyTrial) copy(totals *RowTotals, n int64) {
	use := &pb.PodUsage{HostPorts: x.q.GetHostPorts(), Requests: &pb.Resources{}}
	if !x.q.GetFit().GetBestEffort() {
		use.Requests = proto.CloneOf(x.q.GetFit().GetRequests())
		if use.Requests == nil {
			use.Requests = &pb.Resources{}
		}
		use.Requests.MilliCpu *= n
		use.Requests.MemoryBytes *= n
		use.Requests.EphemeralStorageBytes *= n
		for _, s := range use.Requests.Scalars {
			s.Quantity *= n
		}
	}
	totals.AddPod(use)
	totals.pods += n - 1
	for _, i := range x.q.GetInterPodAffinity().GetAlone() {
		var more []*pb.CounterValue
		for _, term := range x.q.RowValues[i].Counters {
			more = append(more, &pb.CounterValue{Counter: term.Counter, Value: 1})
		}
		totals.AddCounters(more, 1)
	}
}

// below tells whether a counter of the class's own terms is below 0 on a row, as only random tables have it: then a copy does not make
// it more than 0.
func (x *copyTrial) below(table *Table, row uint32) bool {
	for _, i := range x.q.GetInterPodAffinity().GetAlone() {
		for _, term := range x.q.RowValues[i].Counters {
			if table.counters.at(term.Counter, row) < 0 {
				return true
			}
		}
	}
	return false
}

// takes tells whether a row takes the class with these totals.
func (x *copyTrial) takes(e *Evaluator, table *Table, row uint32, totals *RowTotals) bool {
	var v Verdict
	e.Row(table, row, totals, x.c, false, &v)
	return v.Passed
}

// A row takes as many copies as can be placed on it one after the other, until the evaluator refuses the next.
func TestCopiesAreAsManyAsARowTakesOneByOne(t *testing.T) {
	e, rows, none, one, more := NewEvaluator(nil), 0, 0, 0, 0
	tied := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		x := newCopyTrial(t, 1)
		if why := x.c.Tied(); why != "" {
			tied[why]++
			return
		}
		table := x.tables[0]
		for row := range table.All() {
			var totals RowTotals
			table.Totals(row, &totals)
			got := e.CopiesOn(table, row, &totals, x.c)
			if own := e.CopiesOn(table, row, nil, x.c); own != got {
				t.Fatalf("row %d: %d copies by the table, %d by its totals", row, own, got)
			}
			if x.below(table, row) {
				continue
			}
			rows++
			switch got {
			case 0:
				none++
			case 1:
				one++
			default:
				more++
			}
			n := int64(0)
			if got > 50 { // the first ones at once
				n = got - 3
				x.copy(&totals, n)
			}
			for ; n <= min(got, pb.MaxCopies-1) && x.takes(e, table, row, &totals); n++ {
				x.copy(&totals, 1)
			}
			if n != min(got, pb.MaxCopies-1) && got < pb.MaxCopies {
				t.Fatalf("row %s of class %v: %d copies told, %d placed", table.Name(row), x.q, got, n)
			}
		}
	})
	t.Logf("%d rows: none %d, one %d, more %d; not interchangeable: %v", rows, none, one, more, tied)
	if min(none, one, more) == 0 || len(tied) < 2 {
		t.Error("something did not come up")
	}
}

// The sums of a table are those of its rows, over any shards, by each key, and after the wire.
func TestSumsOfCopiesAreThoseOfTheRows(t *testing.T) {
	e, counted := NewEvaluator(nil), 0
	rapid.Check(t, func(t *rapid.T) {
		x := newCopyTrial(t, rapid.SampledFrom([]int{1, 3, 16}).Draw(t, "shards"))
		if x.c.Tied() != "" {
			return
		}
		if x.r.chance(30) {
			x.c = x.c.Within(99, &pb.Label{Key: "zone", Value: pick(x.r, "a", "b", "c")})
		}
		keys := []string{"zone", "kubernetes.io/hostname", "none", "disk"}
		want := NewCopies(keys)
		got := &Result{}
		got.Reset(x.c.ID(), 3)
		for _, table := range x.tables {
			for row := range table.All() {
				want.Move(table, row, e.CopiesOn(table, row, nil, x.c))
			}
			o := Options{Candidates: 3, Copies: true, CopyKeys: keys, Measure: x.r.chance(30)}
			part := evaluate(e, table, x.c, o)
			if x.r.chance(50) {
				m := part.Copies.proto()
				if err := (&pb.ClassResult{ClassId: 1, Rows: uint32(table.Nodes()), Copies: m}).Validate(); err != nil {
					t.Fatal(err)
				}
				part.Copies = copiesOf(m)
			}
			got.Merge(part)
		}
		if !got.Copies.equal(want) {
			t.Fatalf("got %v, want %v", got.Copies, want)
		}
		counted += asInt(want.Total > 0 && len(want.In[0].Sums) > 1)
	})
	if counted == 0 {
		t.Error("no class had copies in more than one zone")
	}
}

func TestCopiesOfTooManyDomainsAreNotTold(t *testing.T) {
	d := NewCopies([]string{"name"})
	half := NewCopies([]string{"name"})
	for i := range pb.MaxCopyDomains {
		d.In[0].add(fmt.Sprint(i), 2)
	}
	half.In[0].add("0", 1)
	d.merge(half)
	if d.In[0].Many || d.In[0].Sums["0"] != 3 {
		t.Errorf("%d domains are too many", len(d.In[0].Sums))
	}
	half.In[0].add("one more", 1)
	d.merge(half)
	if !d.In[0].Many || d.In[0].Sums != nil {
		t.Errorf("%d domains are told", len(d.In[0].Sums))
	}
	half.merge(d)
	half.In[0].add("another", 1)
	if !half.In[0].Many || len(half.In[0].Sums) > 0 || !half.equal(half.Clone()) {
		t.Error("too many domains of one part are not too many of the whole")
	}
}

// A product that is corrected by its rest is the quotient, however large or small the numbers are.
func TestTimesIsTheQuotient(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		free := rapid.Int64Range(-1<<55, 1<<55).Draw(t, "free")
		amount := rapid.Int64Range(1, 1<<rapid.IntRange(1, 55).Draw(t, "bits")).Draw(t, "amount")
		if rapid.Bool().Draw(t, "near") {
			free = amount*rapid.Int64Range(0, (1<<55)/amount).Draw(t, "n") + rapid.Int64Range(-1, 1).Draw(t, "off")
		}
		got, want := times(free, amount, 1/float64(amount)), free/amount
		if free >= 0 && min(got, pb.MaxCopies) != min(want, pb.MaxCopies) || free < 0 && got > 0 {
			t.Fatalf("%d in %d: got %d, want %d", amount, free, got, want)
		}
	})
}

// Within a domain a class has the groups, scores and reasons that it would have if there were no other rows; what it counts of
// other pods it counts on all rows.
func TestWithinADomainAreItsRowsAlone(t *testing.T) {
	e, inside := NewEvaluator(nil), 0
	rapid.Check(t, func(t *rapid.T) {
		x := newCopyTrial(t, 2)
		label := &pb.Label{Key: pick(x.r, "zone", "zone", "disk", "none"), Value: pick(x.r, "a", "b", "ssd", "")}
		c := x.c.Within(99, label)
		o := Options{Candidates: 1 + x.r.IntN(40), Diagnose: x.r.chance(50)}
		for _, table := range x.tables {
			got, all := evaluate(e, table, c, o), evaluate(e, table, x.c, o)
			want := &Result{}
			want.Reset(c.ID(), o.Candidates)
			rows := 0
			for row, value := range table.Labelled(label.Key) {
				if value != label.Value {
					continue
				}
				var v Verdict
				e.Row(table, row, nil, x.c, o.Diagnose, &v)
				v.Measured = nil
				want.Move(c, &v, +1)
				rows++
			}
			inside += rows
			if got.Rows != rows || table.CountLabelled(label.Key, label.Value) != rows || got.Feasible != want.Feasible {
				t.Fatalf("%d rows, %d feasible, %d labelled, want %d, %d", got.Rows, got.Feasible,
					table.CountLabelled(label.Key, label.Value), rows, want.Feasible)
			}
			for i := range got.Measures {
				if err := all.DiffersIn(got, i); err != nil {
					t.Fatal(err)
				}
			}
			checkWithin(t, e, table, c, got, want, o)
		}
	})
	if inside == 0 {
		t.Error("no row was inside")
	}
}

// checkWithin compares groups, candidates and rows judged by themselves.
func checkWithin(t *rapid.T, e *Evaluator, table *Table, c *Class, got, want *Result, o Options) {
	if !got.Overflow {
		for i := range got.Groups {
			g := &got.Groups[i]
			if k := groupIndex(want, &g.Key); k < 0 || want.Groups[k].Rows != g.Rows {
				t.Fatalf("group %v has %d rows", g.Key, g.Rows)
			}
			for _, x := range g.Candidates {
				if !c.looksAt(table, x.Row) {
					t.Fatalf("%s is a candidate", x.Name)
				}
			}
		}
	}
	var v Verdict
	for row := range table.All() {
		if e.Row(table, row, nil, c, o.Diagnose, &v); v.Passed && !c.looksAt(table, row) {
			t.Fatalf("%s takes the pod", table.Name(row))
		}
		if _, why := e.Reasons(table, row, nil, c); len(why) > 0 && !c.looksAt(table, row) {
			t.Fatalf("%s refuses the pod by itself: %v", table.Name(row), why)
		}
	}
}
