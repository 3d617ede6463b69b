package coordinator

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/build"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/store"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// bench is four empty nodes of 4 cores, and a class of pods of 1 core. What the workers
// answered is the test's own.
type bench struct {
	t       *testing.T
	cache   *cache.Cache
	class   *compile.Class
	touches touches
	eval    *scorer.Evaluator
	seq     uint64
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, cache: cache.New(1), eval: scorer.NewEvaluator(nil), touches: touches{reads: true, deciding: true}}
	b.cache.Watch(&b.touches)
	for _, name := range []string{"a", "b", "c", "d"} {
		if _, err := b.cache.SetNode(build.Node(name).CPU("4").Memory("8Gi").Obj()); err != nil {
			t.Fatal(err)
		}
	}
	class, err := compile.New().Class(build.Pod("p").CPU("1").Memory("1Gi").Obj(), compile.DefaultProfile(v1.DefaultSchedulerName), compile.Alone(b.cache))
	if err != nil {
		t.Fatal(err)
	}
	b.class = class
	return b
}

// candidate is a node with the local score that it has now.
func (b *bench) candidate(name string) scorer.Candidate {
	row, _ := b.cache.RowOf(name)
	t := b.cache.Table(0)
	var v scorer.Verdict
	b.eval.Row(t, row.Index, nil, b.class.Scorer, false, &v)
	return t.Candidate(row.Index, v.Local)
}

// place gives a node a pod that takes so much of it.
func (b *bench) place(name, cpu string) {
	b.seq++
	p := build.Pod(name + cpu).UID(name + string(rune('0'+b.seq))).CPU(cpu).Obj()
	if err := b.cache.Assume(p, name, compile.Usage(p), b.seq); err != nil {
		b.t.Fatal(err)
	}
}

// answer is one group of so many rows, of which the workers named some.
func (b *bench) answer(rows int, named ...string) *pick {
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
	p := newPick(b.class.Scorer)
	p.start(r, b.touches.end(), false)
	return p
}

func TestBestOfAnAnswer(t *testing.T) {
	for name, x := range map[string]struct {
		rows         int
		named        []string
		place        [][2]string
		want         verdict
		wantNode     string
		wantFeasible int
	}{
		"the named one, others hidden":                {4, []string{"a"}, nil, chosen, "a", 4},
		"the named one is used up, hidden are better": {4, []string{"a"}, [][2]string{{"a", "1"}}, askAgain, "", 4},
		"the named one is full, hidden are left":      {4, []string{"a"}, [][2]string{{"a", "4"}}, askAgain, "", 3},
		"the next named one is better than hidden":    {4, []string{"a", "b"}, [][2]string{{"a", "1"}}, chosen, "b", 4},
		"all are named and one is left":               {2, []string{"a", "b"}, [][2]string{{"a", "2"}, {"b", "4"}}, chosen, "a", 1},
		"all are named and touched, the emptier wins": {2, []string{"a", "b"}, [][2]string{{"a", "2"}, {"b", "1"}}, chosen, "b", 2},
		"touched alike, the one that waited longer":   {2, []string{"a", "b"}, [][2]string{{"b", "1"}, {"a", "1"}}, chosen, "b", 2},
		"all are full": {2, []string{"a", "b"}, [][2]string{{"a", "4"}, {"b", "4"}}, nowhere, "", 0},
		"a node that was touched twice counts once": {2, []string{"a", "b"}, [][2]string{{"a", "1"}, {"a", "3"}}, chosen, "b", 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			p := b.answer(x.rows, x.named...)
			for _, to := range x.place {
				b.place(to[0], to[1])
			}
			p.repair(&b.touches, tables{b.cache}, b.eval)
			got, v := p.best(tables{b.cache})
			node := ""
			if v == chosen {
				node = b.cache.Table(0).Name(got.row.Index)
			}
			if v != x.want || node != x.wantNode || p.feasible() != x.wantFeasible {
				t.Errorf("got verdict %d, node %q, %d feasible; want %d, %q, %d", v, node, p.feasible(), x.want, x.wantNode, x.wantFeasible)
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
			b := newBench(t)
			tainted := build.Node("a").CPU("4").Memory("8Gi")
			if x.taints > 0 {
				tainted.Taint("slow:PreferNoSchedule")
			}
			if _, err := b.cache.SetNode(tainted.Obj()); err != nil {
				t.Fatal(err)
			}
			r := &scorer.Result{Rows: 4, Feasible: 4, Normalised: true, Extrema: []int64{x.taints},
				Groups: []scorer.Group{{Rows: 4, Candidates: []scorer.Candidate{b.candidate("b")}}}}
			p := newPick(b.class.Scorer)
			p.start(r, b.touches.end(), false)
			b.place("a", x.cpu)
			p.repair(&b.touches, tables{b.cache}, b.eval)
			_, v := p.best(tables{b.cache})
			if want := map[bool]verdict{true: askAgain, false: chosen}[x.wantStale]; v != want || p.stale != x.wantStale {
				t.Errorf("got verdict %d, stale %t; want %d, %t", v, p.stale, want, x.wantStale)
			}
		})
	}
}

func TestMessageOfARefusal(t *testing.T) {
	p := &pick{settled: true, reasons: map[reason]int{
		{"NodeResourcesFit", "Insufficient cpu", false}:                            10,
		{"NodeResourcesFit", "Insufficient memory", false}:                         2,
		{"NodeUnschedulable", "node(s) were unschedulable", true}:                  1,
		{"TaintToleration", "node(s) had untolerated taint(s)", true}:              0,
		{"A B", "node(s) didn't satisfy plugin(s) [A B]", true}:                    1,
		{"NodePorts", "node(s) didn't have free ports for the requested p", false}: -1,
	}}
	got, plugins := p.message(12)
	want := "0/12 nodes are available: 1 node(s) didn't satisfy plugin(s) [A B], 1 node(s) were unschedulable, 10 Insufficient cpu, 2 Insufficient memory."
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if wantPlugins := []string{"A", "B", "NodeResourcesFit", "NodeUnschedulable"}; !slices.Equal(plugins, wantPlugins) {
		t.Errorf("plugins: got %v, want %v", plugins, wantPlugins)
	}
	if got, want := fitError(5, nil), "0/5 nodes are available:"; got != want {
		t.Errorf("no reasons: got %q, want %q", got, want)
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
	class, err := compile.New().Class(build.Pod("p").CPU("1").Obj(), compile.DefaultProfile(v1.DefaultSchedulerName), compile.Alone(c))
	if err != nil {
		b.Fatal(err)
	}
	eval, result := scorer.NewEvaluator(nil), scorer.Result{}
	result.Reset(class.ID(), 600)
	eval.Evaluate(c.Table(0), class.Scorer, scorer.Options{Candidates: 600}, &result)
	p := newPick(class.Scorer)
	p.start(&result, 0, false)
	var log touches
	for i := range uint32(256) {
		row := cache.Row{Index: i}
		c.Table(0).Totals(i, log.add(row, false))
	}
	b.ReportAllocs()
	for b.Loop() {
		p.synced = 0
		p.repair(&log, tables{c}, eval)
		if _, v := p.best(tables{c}); v != chosen {
			b.Fatalf("got verdict %d, want a row", v)
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
		{1, 1, 0, nil, 1026}, {512, 512, 0, nil, 1025}, {512, 1, 600, []string{"zone"}, 2913}, {512, 1, 5000, []string{"zone"}, 4609},
		{1, 1, 5000, nil, 16386}, {512, 1, 70, nil, 2561}, {512, 64, 5000, nil, 4609}, {512, 1 << 18, 5000, nil, 514},
		{1 << 16, 1, 5000, nil, 1 << 16},
	} {
		if got := candidates(&pb.Query{DomainKeys: x.domains}, x.all, x.classes, x.repaired); got != x.want {
			t.Errorf("%d pods, %d classes, %d rows repaired, domains %v: got %d, want %d", x.all, x.classes, x.repaired, x.domains, got, x.want)
		}
	}
}

// Answers hold over batches, whatever pods come and go, until a node changes or too much has.
func TestAnswersHoldUntilANodeChanges(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 3, BatchSize: 5}, 0)
	defer x.fanout.Close()
	x.Load(clusterOf(nodesOf("640", "a", "b", "c")), nil)
	come := func(name string, rounds int) {
		t.Helper()
		x.Deliver([]store.Event{{Type: store.Added, Kind: objects.KindPod, Pod: cores(name, "1")}})
		x.rounds = 0
		x.turn(t)
		if x.rounds != rounds {
			t.Errorf("pod %s: got %d rounds, want %d", name, x.rounds, rounds)
		}
	}
	bound := func(i int) *v1.Pod { return build.Pod(fmt.Sprint("bound-", i)).CPU("1").Node("a").Obj() }
	come("first", 1)
	come("like the first", 0)
	x.Deliver([]store.Event{{Type: store.Added, Kind: objects.KindNode, Node: nodesOf("64", "d")[0]}})
	come("after a node", 1)
	for i := range 20 {
		come(fmt.Sprintf("more than a batch, %d", i), 0)
	}
	x.Deliver([]store.Event{{Type: store.Added, Kind: objects.KindPod, Pod: bound(0)}})
	come("after a pod that another has bound", 0)
	x.Deliver([]store.Event{{Type: store.Deleted, Kind: objects.KindPod, Pod: bound(0)}})
	come("after that has left", 0)
	var many []store.Event
	for i := range 300 {
		many = append(many, store.Event{Type: store.Added, Kind: objects.KindPod, Pod: bound(i)})
	}
	x.Deliver(many)
	come("after more changes than nodes", 1)
}

// Answers of large classes are held up to a sum of bytes, those of huge ones not at all, and none for long that
// nobody uses. What is kept for its memory has no class.
func TestPicksHoldNoMoreClassesThanAllowed(t *testing.T) {
	for volumes, huge := range map[int]bool{1000: false, 5000: true} {
		class, err := scorer.NewClass(&pb.Query{ClassId: 1, VolumeBinding: &pb.VolumeBindingQuery{Volumes: slices.Repeat([]*pb.CandidateVolume{{}}, volumes)}})
		if err != nil {
			t.Fatal(err)
		}
		s, allowed, recycle := picks{of: map[uint64]*pick{}}, int(maxPickBytes/class.MemoryBytes()), func(*scorer.Result) {}
		for i := range uint64(allowed) + 3 {
			s.of[i] = newPick(class)
			s.of[i].result = &scorer.Result{}
		}
		if huge {
			allowed = 0
		}
		s.hold(&touches{reads: true}, servesTo{pods: 1}, recycle)
		if len(s.of) != allowed {
			t.Errorf("%d volumes: got %d answers held, want %d", volumes, len(s.of), allowed)
		}
		for range heldSweeps {
			s.age(recycle)
		}
		if len(s.of) != allowed {
			t.Errorf("%d volumes: got %d answers held for a while, want %d", volumes, len(s.of), allowed)
		}
		s.age(recycle)
		if len(s.of) != 0 || slices.ContainsFunc(s.spare, func(p *pick) bool { return p.class != nil }) {
			t.Errorf("%d volumes: got %d answers held that nobody uses, want none, and spare ones without a class", volumes, len(s.of))
		}
	}
}

// What picks keep for the next batch is bounded by the rows that they have room for.
func TestPicksKeepNoMoreMemoryThanAllowed(t *testing.T) {
	s := picks{of: map[uint64]*pick{}}
	var recycled []*scorer.Result
	for i := range uint64(3) {
		s.of[i] = newPick(&scorer.Class{})
		s.of[i].result = &scorer.Result{}
		s.of[i].repaired = make([]repairedRow, 0, maxSpareRows/2)
	}
	s.reset(func(r *scorer.Result) { recycled = append(recycled, r) })
	if len(recycled) != 3 || len(s.of) != 0 || len(s.spare) != 2 || s.rows != maxSpareRows {
		t.Errorf("got %d results handed back, %d picks, %d spare for %d rows; want 3, 0, 2, %d", len(recycled), len(s.of), len(s.spare), s.rows, maxSpareRows)
	}
	b := newBench(t)
	s.open(b.class.Scorer, &scorer.Result{}, &b.touches)
	if len(s.spare) != 1 || s.rows != maxSpareRows/2 || cap(s.of[b.class.ID()].repaired) != maxSpareRows/2 {
		t.Errorf("got %d spare for %d rows, want one for half as many", len(s.spare), s.rows)
	}
}

// Batches are short where nearly every pod has a class of its own, and grow again.
func TestBatchesByTheirFreshClasses(t *testing.T) {
	f := freshness{pods: 512}
	for _, x := range []struct{ pods, classes, want int }{
		{512, 512, 32}, {32, 32, 64}, {64, 64, 32}, {32, 8, 64}, {64, 0, 128}, {128, 100, 40}, {40, 1, 80}, {80, 1, 160}, {160, 1, 320}, {320, 1, 512}, {512, 33, 496},
	} {
		if f.seen(x.pods, x.classes, 512); f.pods != x.want {
			t.Errorf("after %d pods of %d classes: got %d, want %d", x.pods, x.classes, f.pods, x.want)
		}
	}
}

// Pods that may get one node only, as a DaemonSet's, are decided without asking anybody.
func TestPodsForANodeByName(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 3, BatchSize: 5}, 0)
	defer x.fanout.Close()
	x.Load(clusterOf(nodesOf("2", "a", "b", "c")), nil)
	var events []store.Event
	for i, node := range []string{"a", "b", "c", "a", "b", "a", "gone"} {
		p := build.Pod(fmt.Sprint("p", i)).CPU("1").Obj()
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{node}}}}},
		}}}
		events = append(events, store.Event{Type: store.Added, Kind: objects.KindPod, Pod: p})
	}
	x.Deliver(events[:5])
	x.rounds = 0
	x.turn(t)
	if x.rounds != 0 {
		t.Errorf("five pods with a node each: got %d rounds, want none", x.rounds)
	}
	x.Deliver(events[5:])
	x.turn(t)
	var got []string
	for _, d := range x.decided(t) {
		got = append(got, d.Pod+" "+d.Node+d.Message)
	}
	want := []string{
		"default/p0 a", "default/p1 b", "default/p2 c", "default/p3 a", "default/p4 b",
		"default/p5 0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity].",
		"default/p6 0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity].",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
