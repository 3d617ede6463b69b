package scorer

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

type passes []string

func (p *passes) Pass(plugin pb.Plugin, x pb.ExtensionPoint, in, out int) {
	*p = append(*p, fmt.Sprintf("%s %s %d→%d", ExtensionPointName(x), PluginName(plugin), in, out))
}

// The observer hears of each pass in order, and of none once no row is left.
func TestObserver(t *testing.T) {
	table := loadTable(t, 0, benchRows(100))
	var got passes
	e := NewEvaluator(&got)
	evaluate(e, table, newClass(t, benchQuery()), Options{Candidates: 1})
	want := passes{
		"Filter NodeUnschedulable 100→100", "Filter NodeName 100→100", "Filter TaintToleration 100→87", "Filter NodeAffinity 87→87",
		"Filter NodePorts 87→87", "Filter NodeResourcesFit 87→87", "Score TaintToleration 87→87", "Score NodeAffinity 87→87",
		"Score NodeResourcesFit 87→87", "Score NodeResourcesBalancedAllocation 87→87", "Score ImageLocality 87→87",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	got = nil
	q := benchQuery()
	q.NodeName = "nowhere"
	evaluate(e, table, newClass(t, q), Options{Candidates: 1})
	if want := (passes{"Filter NodeUnschedulable 100→100", "Filter NodeName 100→0"}); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Empty tables and rows without a node have answers too.
func TestNothingThere(t *testing.T) {
	e, table, c := NewEvaluator(nil), NewTable(4), newClass(t, benchQuery())
	r := evaluate(e, table, c, Options{Candidates: 1, Diagnose: true})
	if r.Rows != 0 || r.Feasible != 0 || len(r.Groups) != 0 || len(r.Reasons) != 0 || !slices.Equal(r.Extrema, []int64{0, 0}) {
		t.Errorf("got %s, want nothing", describe(r))
	}
	var totals RowTotals
	table.Totals(3, &totals)
	if v := judge(e, table, 3, &totals, c); v.Passed {
		t.Errorf("got %v for a row without a node", v)
	}
	if _, why := e.Reasons(table, 3, nil, c); why != nil {
		t.Errorf("got reasons %v for a row without a node", why)
	}
	if s := e.Scores(table, 3, nil, c); len(s) != 0 {
		t.Errorf("got scores %v for a row without a node", s)
	}
	if table.Name(3) != "" || table.HasNode(1<<31) || table.Rows() != 0 {
		t.Errorf("got a node in an empty table")
	}
}

// The hot paths allocate nothing once their memory has grown.
func TestHotPathsDoNotAllocate(t *testing.T) {
	table := loadTable(t, 0, benchRows(1000))
	c, e, into, o := newClass(t, benchQuery()), NewEvaluator(nil), &Result{}, Options{Candidates: 20, Diagnose: true}
	usage := &pb.PodUsage{
		Requests:  &pb.Resources{MilliCpu: 1, Scalars: []*pb.ScalarResource{{Name: "nvidia.com/gpu", Quantity: 1}}},
		HostPorts: []*pb.HostPort{{Ip: "0.0.0.0", Protocol: pb.Protocol_PROTOCOL_TCP, Port: 80}},
	}
	add := &pb.Delta{Row: 8, Change: &pb.Delta_AddPod{AddPod: usage}}
	remove := &pb.Delta{Row: 8, Change: &pb.Delta_RemovePod{RemovePod: usage}}
	var totals RowTotals
	var verdict Verdict
	for _, path := range []struct {
		name string
		run  func()
	}{
		{"Evaluate", func() {
			into.Reset(1, o.Candidates)
			e.Evaluate(table, c, o, into)
		}},
		{"Row", func() {
			table.Totals(8, &totals)
			e.Row(table, 8, &totals, c, false, &verdict)
			e.Reasons(table, 8, &totals, c)
			e.Scores(table, 8, &totals, c)
		}},
		{"Apply", func() {
			must(table.Apply(add))
			must(table.Apply(remove))
		}},
	} {
		if n := testing.AllocsPerRun(100, path.run); n != 0 {
			t.Errorf("%s: got %v allocations, want none", path.name, n)
		}
	}
}

// Any number of goroutines may read a table, and share classes, while nobody writes.
func TestReadersShareATable(t *testing.T) {
	table, r := loadTable(t, 0, newRandom(1).rows(200)), newRandom(2)
	for range 10 {
		c := newClass(t, r.query())
		o := Options{Candidates: 5, Diagnose: true}
		want := describe(evaluate(NewEvaluator(nil), table, c, o))
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				e := NewEvaluator(nil)
				if d := diff(describe(evaluate(e, table, c, o)), want); d != "" {
					t.Error(d)
				}
				var totals RowTotals
				for row := range table.All() {
					table.Totals(row, &totals)
					judge(e, table, row, &totals, c)
				}
			})
		}
		wg.Wait()
	}
}

// A table of usual nodes stays well below a KiB a node.
func TestMemoryBytes(t *testing.T) {
	const rows = 5000
	got := loadTable(t, 0, benchRows(rows)).MemoryBytes() / rows
	if got < 200 || got > 700 {
		t.Errorf("got %d bytes a node, want some hundred", got)
	}
}

func TestNewClassRefuses(t *testing.T) {
	if _, err := NewClass(&pb.Query{ClassId: 5, Filters: []pb.Plugin{pb.Plugin_PLUGIN_IMAGE_LOCALITY}}); err == nil || !strings.Contains(err.Error(), "query 5: filters[0]") {
		t.Errorf("got %v, want an error for filters[0] of query 5", err)
	}
}

// The order of candidates is total: each part of the tie rule decides where the ones before
// are equal.
func TestBefore(t *testing.T) {
	order := []Candidate{
		{Score: 9, LastDecision: 5, NameHash: 5, Name: "b"},
		{Score: 8, LastDecision: 4, NameHash: 5, Name: "b"},
		{Score: 8, LastDecision: 5, NameHash: 4, Name: "b"},
		{Score: 8, LastDecision: 5, NameHash: 5, Name: "a"},
		{Score: 8, LastDecision: 5, NameHash: 5, Name: "b", Row: 1},
		{Score: 8, LastDecision: 5, NameHash: 5, Name: "b", Row: 2},
		{Score: 8, LastDecision: 5, NameHash: 5, Name: "b", Shard: 1},
		{Score: -1},
	}
	for i, a := range order {
		for j, b := range order {
			if got := Before(a, b); got != (i < j) {
				t.Errorf("%v before %v: got %t, want %t", a, b, got, i < j)
			}
		}
	}
}

// GroupScore is upstream's DefaultNormalizeScore, reversed for TaintToleration.
func TestGroupScore(t *testing.T) {
	c := newClass(t, benchQuery()) // weights 3 and 2
	for _, x := range []struct {
		name         string
		key, extrema []int64
		want         int64
	}{
		{"nobody has any", []int64{0, 0}, []int64{0, 0}, 3 * 100},
		{"the best", []int64{0, 7}, []int64{3, 7}, 3*100 + 2*100},
		{"the worst", []int64{3, 0}, []int64{3, 7}, 0},
		{"between, each cut", []int64{1, 2}, []int64{3, 7}, 3*(100-33) + 2*28},
		{"no extrema", []int64{0, 0}, nil, 3 * 100},
	} {
		if got := c.GroupScore(x.key, x.extrema); got != x.want {
			t.Errorf("%s: got %d, want %d", x.name, got, x.want)
		}
	}
}
