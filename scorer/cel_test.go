package scorer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/expression"
)

// celQuery asks for expressions alone: filters, and scores of weight 1.
func celQuery(filters, scores []string, how pb.CelNormalisation) *pb.Query {
	q := &pb.Query{ClassId: 7, Cel: &pb.CelQuery{Language: expression.Fingerprint(), Normalisation: how}}
	for i, text := range filters {
		q.Cel.Filters = append(q.Cel.Filters, &pb.CelExpression{Name: fmt.Sprint("f", i), Text: text})
	}
	for i, text := range scores {
		q.Cel.Scores = append(q.Cel.Scores, &pb.CelExpression{Name: fmt.Sprint("s", i), Text: text, Weight: 1})
	}
	if len(filters) > 0 {
		q.Filters = []pb.Plugin{pb.Plugin_PLUGIN_CEL_FILTER}
	}
	if len(scores) > 0 {
		q.Scores = []*pb.ScoreWeight{{Plugin: pb.Plugin_PLUGIN_CEL_SCORE, Weight: 1}}
	}
	return q
}

func mustClass(t interface{ Fatal(...any) }, q *pb.Query) *Class {
	c, err := NewClass(q)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// celTables are n shards of the same nodes.
func celTables(t interface{ Fatal(...any) }, nodes []*pb.Node, n int) []*Table {
	tables := make([]*Table, n)
	for i := range tables {
		tables[i] = NewTable(uint32(i))
	}
	for i, node := range nodes {
		x := tables[i%n]
		if err := x.Apply(&pb.Delta{Row: uint32(i / n), Change: &pb.Delta_SetNode{SetNode: node}}); err != nil {
			t.Fatal(err)
		}
	}
	return tables
}

func drawCelNode(t *rapid.T, name string) *pb.Node {
	n := &pb.Node{Name: name, AllowedPods: 10, Unschedulable: rapid.Bool().Draw(t, "unschedulable")}
	n.Allocatable = &pb.Resources{MilliCpu: rapid.Int64Range(0, 3).Draw(t, "cpu") * 1000, MemoryBytes: 8 << 30}
	if rapid.Bool().Draw(t, "gpus") {
		n.Allocatable.Scalars = []*pb.ScalarResource{{Name: "nvidia.com/gpu", Quantity: 4}}
	}
	for _, key := range []string{"disk", "zone"} {
		if v := rapid.SampledFrom([]string{"", "a", "b", "7"}).Draw(t, key); v != "" {
			n.Labels = append(n.Labels, &pb.Label{Key: key, Value: v})
		}
	}
	if rapid.Bool().Draw(t, "annotated") {
		n.Annotations = []*pb.Label{{Key: "m", Value: "yes"}}
	}
	if rapid.Bool().Draw(t, "tainted") {
		n.Taints = []*pb.Taint{{Key: "t", Value: "v", Effect: pb.TaintEffect_TAINT_EFFECT_NO_SCHEDULE}}
	}
	return n
}

var celFilterTexts = []string{
	"node.labels['zone'] == 'a'", "node.labels[?'disk'].orValue('b') != 'b'", "node.free['cpu'] >= quantity('1')", "node.pods < 2",
	"node.labels.exists(k, k == 'disk')", "node.taints.all(t, t.effect != 'NoSchedule')", "!node.unschedulable", "node.name != 'n3'",
	"int(node.labels['zone']) > 3", "'nvidia.com/gpu' in node.allocatable", "node.annotations[?'m'].orValue('') != 'yes'",
	"node.labels['zone'] == 'a' || node.free['cpu'] == node.allocatable['cpu']", "node.requested['pods'] == quantity('0')", "size(node.images) == 0",
}

var celScoreTexts = []string{
	"node.pods * 10", "100.0 * (node.free['cpu'] / node.allocatable['cpu'])", "node.labels['zone'] == 'a' ? 100 : 20", "size(node.labels) * 30",
	"-5", "1000", "double(node.labels['zone'])", "node.unschedulable ? 0 : 50",
}

// celAnswer is all of a class's answer that sharding must not change, in words.
func celAnswer(e *Evaluator, tables []*Table, c *Class) string {
	var r Result
	r.Reset(c.ID(), 4)
	for _, x := range tables {
		e.Evaluate(x, c, Options{Candidates: 4, Diagnose: true}, &r)
	}
	var s Standing
	c.Settle(&r, &s)
	var b strings.Builder
	fmt.Fprintf(&b, "feasible %d\n", s.Feasible)
	for i := range r.Groups {
		fmt.Fprintf(&b, "group %v of %d scores %d:", r.Groups[i].Key.Raw, r.Groups[i].Rows, s.Groups[i].Score)
		for _, k := range r.Groups[i].Candidates {
			fmt.Fprintf(&b, " %s=%d", k.Name, k.Score)
		}
		b.WriteByte('\n')
	}
	for _, why := range r.Reasons {
		fmt.Fprintf(&b, "%s %s %d %t\n", why.Plugin, why.Text, why.Nodes, why.Unresolvable)
	}
	return b.String()
}

// TestCELIsTheSameForAnySharding holds that shards, what evaluators remember and the evaluation
// of single rows come to the same, while nodes and pods come and go.
func TestCELIsTheSameForAnySharding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		how := rapid.SampledFrom([]pb.CelNormalisation{1, 2, 3}).Draw(t, "normalisation")
		c := mustClass(t, celQuery(rapid.SliceOfN(rapid.SampledFrom(celFilterTexts), 0, 3).Draw(t, "filters"),
			rapid.SliceOfN(rapid.SampledFrom(celScoreTexts), 0, 2).Draw(t, "scores"), how))
		var nodes []*pb.Node
		for i := range rapid.IntRange(1, 12).Draw(t, "nodes") {
			nodes = append(nodes, drawCelNode(t, fmt.Sprint("n", i)))
		}
		whole, shards := celTables(t, nodes, 1), celTables(t, nodes, 3)
		old := NewEvaluator(nil)
		for range 3 {
			want := celAnswer(old, whole, c)
			if got := celAnswer(old, shards, c); got != want {
				t.Fatalf("three shards: got\n%swant\n%s", got, want)
			}
			if got := celAnswer(NewEvaluator(nil), whole, c); got != want {
				t.Fatalf("an evaluator without memory: got\n%swant\n%s", got, want)
			}
			compareRows(t, old, whole[0], c)
			i := rapid.IntRange(0, len(nodes)-1).Draw(t, "changed")
			change := &pb.Delta{Change: &pb.Delta_SetNode{SetNode: drawCelNode(t, nodes[i].Name)}}
			if rapid.Bool().Draw(t, "pod") {
				change.Change = &pb.Delta_AddPod{AddPod: &pb.PodUsage{Requests: &pb.Resources{MilliCpu: 500}, NonZeroMilliCpu: 500}}
			}
			for _, on := range [][]*Table{whole, shards} {
				change.Row = uint32(i / len(on))
				if err := on[i%len(on)].Apply(change); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// compareRows holds that the rows of a pass are those that single evaluations pass, and that
// reasons add up.
func compareRows(t *rapid.T, e *Evaluator, x *Table, c *Class) {
	var r Result
	r.Reset(c.ID(), 100)
	e.Evaluate(x, c, Options{Candidates: 100}, &r)
	got := map[uint32]string{}
	for _, g := range r.Groups {
		for _, k := range g.Candidates {
			got[k.Row] = fmt.Sprint(g.Key.Raw, k.Score)
		}
	}
	for row := range x.All() {
		var v Verdict
		e.Row(x, row, nil, c, false, &v)
		want := ""
		if v.Passed {
			want = fmt.Sprint(v.Key.Raw, v.Local)
		}
		if got[row] != want {
			t.Fatalf("row %d: a pass gives %q, the row alone %q", row, got[row], want)
		}
	}
}

func TestCELReasons(t *testing.T) {
	node := &pb.Node{Name: "n", AllowedPods: 1}
	loop := "['a','b','c','d','e','f','g','h','i','j'].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, node.name + a != string(b + c + d)))))"
	half := "[1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6].all(d, node.name != string(b + c + d))))"
	for _, c := range []struct {
		filters []string
		want    Reason
	}{
		{[]string{"node.name == 'x'"}, Reason{"CELFilter", `node(s) didn't match CEL expression "f0"`, true}},
		{[]string{"node.name == 'n'", "node.labels['x'] == 'y'"}, Reason{"CELFilter", `node(s) failed CEL expression "f1"`, true}},
		{[]string{"node.pods > 3"}, Reason{"CELFilter", `node(s) didn't match CEL expression "f0"`, false}},
		{[]string{loop}, Reason{"CELFilter", `node(s) exceeded the cost limit of CEL expression "f0"`, true}},
		{[]string{half, half, half, half, half}, Reason{"CELFilter", `node(s) exceeded the cost limit of CEL expression "f`, true}},
	} {
		x := celTables(t, []*pb.Node{node}, 1)[0]
		_, got := NewEvaluator(nil).Reasons(x, 0, nil, mustClass(t, celQuery(c.filters, nil, 0)))
		if len(got) != 1 || !strings.HasPrefix(got[0].Text, c.want.Text) || got[0].Plugin != c.want.Plugin || got[0].Unresolvable != c.want.Unresolvable {
			t.Errorf("%.60s: got %+v, want %+v", c.filters, got, c.want)
		}
	}
}

func TestCELScoresStayInRange(t *testing.T) {
	for _, c := range []struct {
		text string
		how  pb.CelNormalisation
		want int64
	}{
		{"50", 1, 50}, {"49.5", 1, 50}, {"-1", 1, 0}, {"101", 1, 100}, {"1e300", 1, 100}, {"0.0/0.0", 1, 0}, {"1/node.pods", 1, 0},
		{"node.labels['x'] == '' ? 1 : 2", 1, 0}, {"1e300", 2, maxCelRaw}, {"-7.0", 3, 0}, {"250", 2, 250},
	} {
		x := celTables(t, []*pb.Node{{Name: "n", AllowedPods: 1}}, 1)[0]
		got := NewEvaluator(nil).Scores(x, 0, nil, mustClass(t, celQuery(nil, []string{c.text}, c.how)))
		if len(got) != 1 || got[0].Raw != c.want {
			t.Errorf("%s: got %+v, want %d", c.text, got, c.want)
		}
	}
}

func TestCELOfAnotherVersionIsRefused(t *testing.T) {
	q := celQuery([]string{"true"}, nil, 0)
	q.Cel.Language = "cel/0/0"
	want := fmt.Sprintf("query 7: cel.language: expected %s, got cel/0/0: coordinator and worker are of different versions", expression.Fingerprint())
	if _, err := NewClass(q); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestCELJudgesEachInputOnce counts evaluations: a class that reads labels evaluates once for
// each value, and one that reads amounts once for each row that changed.
func TestCELJudgesEachInputOnce(t *testing.T) {
	var nodes []*pb.Node
	for i := range 500 {
		nodes = append(nodes, &pb.Node{
			Name: fmt.Sprint("n", i), Labels: []*pb.Label{{Key: "zone", Value: fmt.Sprint(i % 5)}}, Allocatable: &pb.Resources{MilliCpu: int64(i)},
		})
	}
	x := celTables(t, nodes, 1)[0]
	for _, c := range []struct {
		text   string
		passes []int
	}{
		{"node.labels['zone'] == '3'", []int{5, 5}},
		{"node.free['cpu'] > quantity('100m')", []int{500, 0}},
		{"'3' in node.labels.map(k, node.labels[k])", []int{500, 500}},
	} {
		e, class := NewEvaluator(nil), mustClass(t, celQuery([]string{c.text}, nil, 0))
		r := class.filters[0].rule.(*celFilter)
		n, inner := 0, r.judge
		r.judge = func(row *celRow) int64 { n++; return inner(row) }
		var got []int
		for range c.passes {
			n = 0
			rows := x.live.copyOf(nil)
			r.narrow(e, x, rows)
			got = append(got, n)
		}
		if !slices.Equal(got, c.passes) {
			t.Errorf("%s: got %v evaluations, want %v", c.text, got, c.passes)
		}
	}
}

// FuzzCELQuery feeds a table expressions and arguments of any kind.
func FuzzCELQuery(f *testing.F) {
	for _, text := range slices.Concat(celFilterTexts, celScoreTexts) {
		f.Add(text, "a", int64(3))
	}
	f.Add("node.labels['zone'] in pod.annotations['zones'].split(',')", "a,b", int64(0))
	f.Add("node.name.matches(pod.labels['a']) && pod.priority > 3", "[", int64(1))
	x := celTables(f, []*pb.Node{{Name: "n", Labels: []*pb.Label{{Key: "zone", Value: "a"}}, AllowedPods: 1}}, 1)
	f.Fuzz(func(t *testing.T, text, s string, n int64) {
		for _, v := range []*pb.CelValue{
			{Kind: &pb.CelValue_StringValue{StringValue: s}}, {Kind: &pb.CelValue_IntValue{IntValue: n}}, {Kind: &pb.CelValue_BoolValue{BoolValue: n > 0}},
			{Kind: &pb.CelValue_ListValue{ListValue: &pb.CelList{Values: []*pb.CelValue{{Kind: &pb.CelValue_StringValue{StringValue: s}}}}}},
		} {
			for _, q := range []*pb.Query{celQuery([]string{text}, nil, 0), celQuery(nil, []string{text}, 2)} {
				for _, e := range slices.Concat(q.Cel.Filters, q.Cel.Scores) {
					e.Arguments = []*pb.CelArgument{{Part: 0, Value: v}}
				}
				c, err := NewClass(q)
				if err != nil {
					continue
				}
				celAnswer(NewEvaluator(nil), x, c)
			}
		}
	})
}

// BenchmarkCEL compares an expression with NodeAffinity on the same predicate, and tells what a
// row costs that is judged by itself.
func BenchmarkCEL(b *testing.B) {
	const rows = 5000
	var nodes []*pb.Node
	for i := range rows {
		nodes = append(nodes, &pb.Node{
			Name: fmt.Sprint("n", i), Labels: []*pb.Label{{Key: "zone", Value: fmt.Sprint(i % 8)}}, Allocatable: &pb.Resources{MilliCpu: int64(1000 + i%7)},
			AllowedPods: 110,
		})
	}
	x := celTables(b, nodes, 1)[0]
	affinity := &pb.Query{ClassId: 8, Filters: []pb.Plugin{pb.Plugin_PLUGIN_NODE_AFFINITY}, NodeAffinity: &pb.NodeAffinityQuery{
		Required: &pb.NodeSelector{Terms: []*pb.SelectorTerm{{Labels: []*pb.LabelRequirement{
			{Key: "zone", Operator: pb.SelectorOperator_SELECTOR_OPERATOR_IN, Values: []string{"1", "2"}},
		}}}},
	}}
	for _, c := range []struct {
		name string
		q    *pb.Query
	}{
		{"NodeAffinity", affinity},
		{"label", celQuery([]string{"node.labels['zone'] in ['1', '2']"}, nil, 0)},
		{"amount", celQuery([]string{"node.free['cpu'] > quantity('900m')"}, nil, 0)},
		{"eachRow", celQuery([]string{"node.labels.exists(k, node.labels[k] == '1')"}, nil, 0)},
	} {
		class, e := mustClass(b, c.q), NewEvaluator(nil)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var r Result
			for b.Loop() {
				r.Reset(class.ID(), 8)
				e.Evaluate(x, class, Options{Candidates: 8}, &r)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
		})
	}
}
