package answers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// rig is four empty nodes of 4 cores, and a class of pods of 1 core. What the workers
// answered is the test's own.
type rig struct {
	t     *testing.T
	cache *cache.Cache
	class *compile.Class
	*Engine
	seq uint64
}

func newRig(t *testing.T) *rig {
	b := &rig{t: t, cache: cache.New(1)}
	b.Engine = New(Config{Tables: b.cache, BatchSize: 1, Recycle: func(*scorer.Result) {}})
	b.log.reads, b.log.deciding = true, true
	b.cache.Watch(b.Log())
	for _, name := range []string{"a", "b", "c", "d"} {
		if _, err := b.cache.SetNode(build.Node(name).CPU("4").Memory("8Gi").Obj()); err != nil {
			t.Fatal(err)
		}
	}
	class, err := compile.New().Class(build.Pod("p").CPU("1").Memory("1Gi").Obj(), rules.DefaultProfile(v1.DefaultSchedulerName), compile.EmptyCluster(b.cache))
	if err != nil {
		t.Fatal(err)
	}
	b.class = class
	return b
}

// candidate is a node with the local score that it has now.
func (b *rig) candidate(name string) scorer.Candidate {
	row, _ := b.cache.RowOf(name)
	t := b.cache.Table(0)
	var v scorer.Verdict
	b.eval.Row(t, row.Index, nil, b.class.Scorer, false, &v)
	return t.Candidate(row.Index, v.Local)
}

// place gives a node a pod that takes so much of it.
func (b *rig) place(name, cpu string) {
	b.seq++
	p := build.Pod(name + cpu).UID(name + string(rune('0'+b.seq))).CPU(cpu).Obj()
	if err := b.cache.Assume(p, name, compile.Usage(p), b.seq); err != nil {
		b.t.Fatal(err)
	}
}

// answer is one group of so many rows, of which the workers named some.
func (b *rig) answer(rows int, named ...string) *Answer {
	r := &scorer.Result{Rows: 4, Feasible: rows, Extrema: make([]int64, b.class.Scorer.KeyLen())}
	g := scorer.Group{Rows: rows}
	for _, name := range named {
		g.Candidates = append(g.Candidates, b.candidate(name))
	}
	slices.SortFunc(g.Candidates, func(x, y scorer.Candidate) int {
		if scorer.Before(x, y) {
			return -1
		}
		return 1
	})
	r.Groups = []scorer.Group{g}
	p := b.held.open(b.class.Scorer)
	p.start(r, b.log.end(), false)
	return p
}

func TestBestOfAnAnswer(t *testing.T) {
	for name, x := range map[string]struct {
		rows         int
		named        []string
		place        [][2]string
		want         outcome
		wantNode     string
		wantFeasible int
	}{
		"the named one, others hidden":                {4, []string{"a"}, nil, chosen, "a", 4},
		"the named one is used up, hidden are better": {4, []string{"a"}, [][2]string{{"a", "1"}}, used, "", 4},
		"the named one is full, hidden are left":      {4, []string{"a"}, [][2]string{{"a", "4"}}, used, "", 3},
		"the next named one is better than hidden":    {4, []string{"a", "b"}, [][2]string{{"a", "1"}}, chosen, "b", 4},
		"all are named and one is left":               {2, []string{"a", "b"}, [][2]string{{"a", "2"}, {"b", "4"}}, chosen, "a", 1},
		"all are named and touched, the emptier wins": {2, []string{"a", "b"}, [][2]string{{"a", "2"}, {"b", "1"}}, chosen, "b", 2},
		"touched alike, the one that waited longer":   {2, []string{"a", "b"}, [][2]string{{"b", "1"}, {"a", "1"}}, chosen, "b", 2},
		"all are full": {2, []string{"a", "b"}, [][2]string{{"a", "4"}, {"b", "4"}}, nowhere, "", 0},
		"a node that was touched twice counts once": {2, []string{"a", "b"}, [][2]string{{"a", "1"}, {"a", "3"}}, chosen, "b", 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newRig(t)
			p := b.answer(x.rows, x.named...)
			for _, to := range x.place {
				b.place(to[0], to[1])
			}
			p.repair()
			got, v := p.best()
			node := ""
			if v == chosen {
				node = b.cache.Table(0).Name(got.Row.Index)
			}
			if v != x.want || node != x.wantNode || p.feasible() != x.wantFeasible {
				t.Errorf("got outcome %d, node %q, %d feasible; want %d, %q, %d", v, node, p.feasible(), x.want, x.wantNode, x.wantFeasible)
			}
		})
	}
}

// A normalised answer rests on the maxima of its moment.
func TestAMaximumThatMayHaveLeft(t *testing.T) {
	for name, x := range map[string]struct {
		cpu       string
		taints    int64 // what the answer says is the most
		wantStale bool
	}{
		"the row that has it is full":       {"4", 1, true},
		"it still has room":                 {"1", 1, false},
		"another has more":                  {"4", 2, false},
		"no row has any, so nothing leaves": {"4", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newRig(t)
			tainted := build.Node("a").CPU("4").Memory("8Gi")
			if x.taints > 0 {
				tainted.Taint("slow:PreferNoSchedule")
			}
			if _, err := b.cache.SetNode(tainted.Obj()); err != nil {
				t.Fatal(err)
			}
			r := &scorer.Result{Rows: 4, Feasible: 4, Normalised: true, Extrema: []int64{x.taints},
				Groups: []scorer.Group{{Rows: 4, Candidates: []scorer.Candidate{b.candidate("b")}}}}
			p := b.held.open(b.class.Scorer)
			p.start(r, b.log.end(), false)
			b.place("a", x.cpu)
			p.repair()
			_, v := p.best()
			if want := map[bool]outcome{true: used, false: chosen}[x.wantStale]; v != want || p.stale != x.wantStale {
				t.Errorf("got outcome %d, stale %t; want %d, %t", v, p.stale, want, x.wantStale)
			}
		})
	}
}

func TestMessageOfARefusal(t *testing.T) {
	p := &Answer{settled: true, reasons: Reasons{
		{"NodeResourcesFit", "Insufficient cpu", false}:                            10,
		{"NodeResourcesFit", "Insufficient memory", false}:                         2,
		{"NodeUnschedulable", "node(s) were unschedulable", true}:                  1,
		{"TaintToleration", "node(s) had untolerated taint(s)", true}:              0,
		{"A B", "node(s) didn't satisfy plugin(s) [A B]", true}:                    1,
		{"NodePorts", "node(s) didn't have free ports for the requested p", false}: -1,
	}}
	got, plugins := p.Message(12, nil)
	want := "0/12 nodes are available: 1 node(s) didn't satisfy plugin(s) [A B], 1 node(s) were unschedulable, 10 Insufficient cpu, 2 Insufficient memory."
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if wantPlugins := []string{"A", "B", "NodeResourcesFit", "NodeUnschedulable"}; !slices.Equal(plugins, wantPlugins) {
		t.Errorf("plugins: got %v, want %v", plugins, wantPlugins)
	}
	if got, want := FitError(5, nil), "0/5 nodes are available:"; got != want {
		t.Errorf("no reasons: got %q, want %q", got, want)
	}
}

// An extender may word a reason of its own for each node, at any length.
func TestAFitErrorIsBounded(t *testing.T) {
	counts := map[string]int{}
	for i := range 200 {
		counts[fmt.Sprint(i, strings.Repeat("é", maxReasonBytes))] = 1
	}
	got := FitError(200, counts)
	told := strings.Count(got, "é…")
	if len(got) > maxFitErrorBytes+100 || !utf8.ValidString(got) || told == 0 || !strings.HasSuffix(got, fmt.Sprintf(", … and %d reasons more.", 200-told)) {
		t.Errorf("got %d bytes, which tell %d reasons and end %q", len(got), told, got[max(0, len(got)-60):])
	}
}

// BenchmarkRepair is a pod of a class in the middle of a full batch: 256 touched rows.
func BenchmarkRepair(b *testing.B) {
	c := cache.New(1)
	for i := range 1024 {
		if _, err := c.SetNode(build.Node("node-" + string(rune(i))).CPU("64").Memory("256Gi").Obj()); err != nil {
			b.Fatal(err)
		}
	}
	class, err := compile.New().Class(build.Pod("p").CPU("1").Obj(), rules.DefaultProfile(v1.DefaultSchedulerName), compile.EmptyCluster(c))
	if err != nil {
		b.Fatal(err)
	}
	eval, result := scorer.NewEvaluator(nil), scorer.Result{}
	result.Reset(class.ID(), 600)
	eval.Evaluate(c.Table(0), class.Scorer, scorer.Options{Candidates: 600}, &result)
	e := New(Config{Tables: c})
	p := e.held.open(class.Scorer)
	p.start(&result, 0, false)
	for i := range uint32(256) {
		row := cache.Row{Index: i}
		c.Table(0).Totals(i, e.log.add(row, false))
	}
	b.ReportAllocs()
	for b.Loop() {
		p.synced = 0
		p.repair()
		if _, v := p.best(); v != chosen {
			b.Fatalf("got outcome %d, want a row", v)
		}
	}
}

// A group that names one row more than there are pods has one left that no other pod of
// the batch was given; where its class recurs it names more, for the batches to come.
func TestCandidatesOfABatch(t *testing.T) {
	for _, x := range []struct {
		all, classes, repaired int
		domains                []string
		want                   int
	}{
		{1, 1, 0, nil, 130}, {512, 1, 0, nil, 2561}, {512, 1, 0, []string{"zone"}, 1025}, {512, 512, 0, nil, 1025}, {512, 1, 600, []string{"zone"}, 2913}, {512, 1, 5000, []string{"zone"}, 4609},
		{1, 1, 5000, nil, 514}, {8, 1, 5000, nil, 2057}, {1, 1, heldRowsMax, nil, 16386}, {512, 1, 70, nil, 2561}, {512, 64, 5000, nil, 4609}, {512, 1 << 18, 5000, nil, 514},
		{1 << 16, 1, 5000, nil, 1 << 16},
	} {
		if got := candidates(&pb.Query{DomainKeys: x.domains}, x.all, x.classes, x.repaired); got != x.want {
			t.Errorf("%d pods, %d classes, %d rows repaired, domains %v: got %d, want %d", x.all, x.classes, x.repaired, x.domains, got, x.want)
		}
	}
}

// Answers of large classes are held up to a sum of bytes, those of huge ones not at all, and none for long that
// nobody uses. What is kept for its memory has no class.
func TestNoMoreClassesAreHeldThanAllowed(t *testing.T) {
	for volumes, huge := range map[int]bool{1000: false, 5000: true} {
		class, err := scorer.NewClass(&pb.Query{ClassId: 1, VolumeBinding: &pb.VolumeBindingQuery{Volumes: slices.Repeat([]*pb.CandidateVolume{{}}, volumes)}})
		if err != nil {
			t.Fatal(err)
		}
		e, allowed := newRig(t).Engine, int(maxHeldBytes/class.MemoryBytes())
		e.log.lost = false
		s := &e.held
		for i := range uint64(allowed) + 3 {
			s.of[i] = &Answer{engine: e, class: class, result: &scorer.Result{}}
		}
		if huge {
			allowed = 0
		}
		s.evict(1)
		if len(s.of) != allowed {
			t.Errorf("%d volumes: got %d answers held, want %d", volumes, len(s.of), allowed)
		}
		for range heldSweeps {
			s.age()
		}
		if len(s.of) != allowed {
			t.Errorf("%d volumes: got %d answers held for a while, want %d", volumes, len(s.of), allowed)
		}
		s.age()
		if len(s.of) != 0 || slices.ContainsFunc(s.spare, func(p *Answer) bool { return p.class != nil }) {
			t.Errorf("%d volumes: got %d answers held that nobody uses, want none, and spare ones without a class", volumes, len(s.of))
		}
	}
}

// What is kept of answers for the next batch is bounded by the rows that they have room for.
func TestNoMoreMemoryIsKeptThanAllowed(t *testing.T) {
	b := newRig(t)
	s, recycled := &b.held, 0
	b.recycle = func(*scorer.Result) { recycled++ }
	for i := range uint64(3) {
		s.of[i] = &Answer{engine: b.Engine, class: &scorer.Class{}, result: &scorer.Result{}, repaired: make([]repairedRow, 0, maxSpareRows/2)}
	}
	s.dropAll()
	if recycled != 3 || len(s.of) != 0 || len(s.spare) != 2 || s.rows != maxSpareRows {
		t.Errorf("got %d results handed back, %d answers, %d spare for %d rows; want 3, 0, 2, %d", recycled, len(s.of), len(s.spare), s.rows, maxSpareRows)
	}
	s.open(b.class.Scorer)
	if len(s.spare) != 1 || s.rows != maxSpareRows/2 || cap(s.of[b.class.ID()].repaired) != maxSpareRows/2 {
		t.Errorf("got %d spare for %d rows, want one for half as many", len(s.spare), s.rows)
	}
	s.age()
	if s.age(); len(s.spare) != 0 || s.rows != 0 {
		t.Errorf("got %d spare for %d rows that no batch has needed, want none", len(s.spare), s.rows)
	}
}

// A shared answer that has repaired all rows goes on, also in a cluster that is larger than the least bound.
func TestSharedAnswersGrowWithTheCluster(t *testing.T) {
	var l Limits
	l.setDefaults()
	for _, nodes := range []int{1, 200_000, 1_000_000} {
		if rows := l.sharedRows(nodes); rows < nodes+256+nodes/10 || l.allSharedRows(nodes) < rows || l.allOwnRows(nodes) < nodes {
			t.Errorf("%d nodes: a shared answer may have %d rows, all %d, views %d", nodes, rows, l.allSharedRows(nodes), l.allOwnRows(nodes))
		}
	}
}
