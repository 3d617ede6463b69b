package expression

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/cel-go/cel"
	"pgregory.net/rapid"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// direct evaluates an expression as a whole, with both variables.
func direct(t interface{ Fatalf(string, ...any) }, text string, k Kind, p *Pod, n Node) Outcome {
	checked, issues := the().env.Compile(text)
	if issues.Err() != nil {
		t.Fatalf("%s: %v", text, issues.Err())
	}
	program, err := the().env.Program(checked, cel.CostTracking(costs{}))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	v, _, err := program.Eval(&activation{node: &nodeValue{the(), n}, pod: &podValue{the(), p}})
	return k.judge(v, nil, err)
}

// overWire is the residual that a worker makes of what the coordinator sends.
func overWire(t interface{ Fatalf(string, ...any) }, tmpl *Template, r *Residual) *Residual {
	list := r.Encode()
	e := &pb.CelExpression{Name: "x", Text: tmpl.Text(), Arguments: list, Weight: 1}
	if err := e.Validate(); err != nil {
		t.Fatalf("%s: %v", tmpl.Text(), err)
	}
	again, err := Compile(e.GetText(), tmpl.kind)
	if err != nil {
		t.Fatalf("%s: %v", tmpl.Text(), err)
	}
	values, err := again.Decode(list)
	if err != nil {
		t.Fatalf("%s: %v", tmpl.Text(), err)
	}
	far, err := again.Residual(values)
	if err != nil {
		t.Fatalf("%s: %v", tmpl.Text(), err)
	}
	return far
}

func same(a, b Outcome) bool {
	return (a.Failed == "") == (b.Failed == "") && a.Pass == b.Pass && math.Float64bits(a.Number) == math.Float64bits(b.Number)
}

// TestResidualsComeToWhatTheWholeComesTo draws expressions, pods and nodes.
func TestResidualsComeToWhatTheWholeComesTo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := Kind(rapid.IntRange(0, 1).Draw(t, "kind"))
		text := drawBool(t, 4)
		if kind == Score {
			text = drawNumber(t, 3)
		}
		tmpl, err := Compile(text, kind)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		p := drawPod(t)
		r, err := tmpl.Residual(tmpl.Ask(p))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		far := overWire(t, tmpl, r)
		for range 4 {
			n := drawNode(t)
			want, got, there := direct(t, text, kind, p, n), r.Eval(n), far.Eval(n)
			if !same(got, want) {
				t.Fatalf("%s: got %+v, the whole expression comes to %+v", text, got, want)
			}
			if there != got {
				t.Fatalf("%s: got %+v, over the wire %+v", text, got, there)
			}
		}
	})
}

func drawBool(t *rapid.T, depth int) string {
	simple := []string{
		"node.labels['zone'] in pod.annotations['zones'].split(',')", "'disk' in node.labels", "has(pod.labels.tier)", "pod.labels['tier'] == 'a'",
		"node.unschedulable", "pod.hostNetwork", "true", "false", "node.labels[?'zone'].orValue('x') == pod.labels[?'zone'].orValue('x')",
		"node.free['cpu'] > pod.requests['cpu']", "node.taints.all(t, pod.tolerations.exists(o, o.key == t.key))", "node.name.matches(pod.labels['zone'])",
		"node.taints.exists(t, t.value == pod.annotations['zone'])", "pod.tolerations.map(o, o.key).exists(k, k in node.labels)",
		"node.labels.exists(k, node.labels[k] == pod.name)", "node.labels[pod.labels['disk']] == 'a'", "node.annotations['tier'] == 'b'",
		"dyn(pod.labels['zone']) == 'a'", "pod.containers.all(c, c.image in node.images)", "node.allocatable['nvidia.com/gpu'] >= quantity('4')",
		"pod.labels == node.labels", "pod.labels.all(k, k in node.labels)", "sets.contains(pod.annotations.map(k, k), node.labels.map(k, k))",
		"int(pod.labels['zone']) > 3", "pod.requests['cpu'] + quantity('1') < node.allocatable['cpu']", "node.name.startsWith(pod.name)",
		"{'a': 1, 'b': 2}.exists(k, k == node.labels['zone'])", "cel.bind(z, pod.labels['zone'], z == 'a' || z == node.labels['zone'])",
	}
	if depth == 0 {
		return rapid.SampledFrom(simple).Draw(t, "simple")
	}
	switch rapid.IntRange(0, 5).Draw(t, "form") {
	case 0:
		return "(" + drawBool(t, depth-1) + " && " + drawBool(t, depth-1) + ")"
	case 1:
		return "(" + drawBool(t, depth-1) + " || " + drawBool(t, depth-1) + ")"
	case 2:
		return "!(" + drawBool(t, depth-1) + ")"
	case 3:
		return "(" + drawBool(t, depth-1) + " ? " + drawBool(t, depth-1) + " : " + drawBool(t, depth-1) + ")"
	case 4:
		return "(" + drawNumber(t, depth-1) + " > " + drawNumber(t, depth-1) + ")"
	}
	return rapid.SampledFrom(simple).Draw(t, "simple")
}

func drawNumber(t *rapid.T, depth int) string {
	simple := []string{
		"100.0", "double(pod.priority)", "double(size(pod.labels))", "100.0 * (node.free['cpu'] / node.allocatable['cpu'])", "double(node.pods)",
		"double(int(pod.labels['zone']))", "double(size(node.labels))", "math.least(50.0, double(node.requested['memory']))",
		"double(pod.tolerations.size() + node.taints.size())", "[double(node.pods), 3.0].sum()", "node.free['cpu'].asApproximateFloat()",
	}
	if depth == 0 {
		return rapid.SampledFrom(simple).Draw(t, "number")
	}
	switch rapid.IntRange(0, 3).Draw(t, "number form") {
	case 0:
		return "(" + drawNumber(t, depth-1) + " + " + drawNumber(t, depth-1) + ")"
	case 1:
		return "(" + drawNumber(t, depth-1) + " / " + drawNumber(t, depth-1) + ")"
	case 2:
		return "(" + drawBool(t, depth-1) + " ? " + drawNumber(t, depth-1) + " : " + drawNumber(t, depth-1) + ")"
	}
	return rapid.SampledFrom(simple).Draw(t, "number")
}

func TestWhatIsLeftOfAnExpression(t *testing.T) {
	pod := &Pod{Name: "p", Labels: map[string]string{"tier": "gold"}, Annotations: map[string]string{"zones": "a,b"}}
	for _, c := range []struct {
		text     string
		constant string // outcome; empty: depends on the node
		live     int
		reads    string
	}{
		{"node.labels['zone'] in pod.annotations['zones'].split(',')", "", 1, "[{labels true zone}]"},
		{"pod.labels['tier'] == 'gold' || node.unschedulable", "true", 1, "[]"},
		{"node.unschedulable && pod.labels['tier'] == 'silver'", "false", 1, "[]"},
		{"pod.labels['tier'] == 'gold' ? node.pods < 3 : node.labels['x'] == pod.name", "", 1, "[{pods false }]"},
		{"!(pod.labels['tier'] == 'gold') ? pod.labels['x'] == 'a' : node.unschedulable", "", 1, "[{unschedulable false }]"},
		{"pod.labels['x'] == 'a'", "failed", 1, "[]"},
		{"pod.labels['x'] == 'a' || node.unschedulable", "", 1, "[{unschedulable false }]"},
		{"node.labels[pod.labels['tier']] == 'a'", "", 1, "[{labels true gold}]"},
		{"node.free['cpu'] > quantity('1')", "", 0, "[{free true cpu}]"},
		{"node.taints.all(t, t.key == 'a')", "", 0, "[{taints false }]"},
		{"1 < 2", "true", 0, "[]"},
		{"type(node.labels) == type(pod.labels)", "", 1, "[{labels false }]"},
		{"type(node.pods) == (pod.priority > 2 ? int : string)", "", 1, "[{pods false }]"},
		{"type(node.taints[0]) == shardsched.Taint", "", 0, "[{taints false }]"},
	} {
		tmpl, err := Compile(c.text, Filter)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		r, err := tmpl.Residual(tmpl.Ask(pod))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		got := ""
		if o, ok := r.Constant(); ok {
			got = fmt.Sprint(o.Pass)
			if o.Failed != "" {
				got = "failed"
			}
		}
		if reads := fmt.Sprint(r.Reads()); got != c.constant || len(r.Encode()) != c.live || reads != c.reads && c.constant == "" {
			t.Errorf("%s: got constant %q, %d arguments, reads %s, want %q, %d, %s", c.text, got, len(r.Encode()), reads, c.constant, c.live, c.reads)
		}
	}
}

func TestErrorsPointAtTheColumn(t *testing.T) {
	for _, c := range []struct {
		text string
		kind Kind
		want string
	}{
		{"node.label['a'] == 'b'", Filter, "column 5: undefined field 'label'"},
		{"nod.labels['a'] == 'b'", Filter, "column 1: undeclared reference to 'nod' (in container '')"},
		{"node.labels['a'] == 3", Filter, "column 18: found no matching overload for '_==_' applied to '(string, int)'"},
		{"node.labels['a']", Filter, "column 12: expected a bool, got string"},
		{"node.unschedulable", Score, "column 5: expected an int or a double, got bool"},
		{"true &&\n  node.labels['a'] == 1", Filter, "line 2, column 20: found no matching overload for '_==_' applied to '(string, int)'"},
		{"[node] == [node]", Filter, "column 2: node stands by itself: name one of its fields, such as node.labels"},
		{"node.annotations.exists(k, k == 'a')", Filter, "column 5: node.annotations: name the annotation by a constant, for rows carry no others"},
		{"[1].exists(node, node == 1)", Filter, "column 11: a macro's variable may not be named node"},
		{"node.name.matches('a(')", Filter, "column 19: error parsing regexp: missing closing ): `a(`"},
		{"node.free['cpu'] > quantity('0x')", Filter, "column 28: fails whatever the pod and the node are: quantity \"0x\": expected a number with a suffix such as m, k, M, Gi or e3"},
		{"node.pods > 1 || 1 / 0 == 1", Filter, "column 24: fails whatever the pod and the node are: division by zero"},
		{"pod.name.find('[') == ''", Filter, "column 15: error parsing regexp: missing closing ]: `[`"},
		{"cel.bind(t, type(pod.labels), t == type(node.labels))", Filter, "column 9: reference to undefined type: t"},
		{"{dyn(b'a'): node.pods}.exists(k, {dyn(b'a'): 1}.size() == 1)", Filter,
			"column 56: fails whatever the pod and the node are: internal error: runtime error: hash of unhashable type types.Bytes"},
		{"pod.labels['a' == 'b'", Filter, "column 22: Syntax error: missing ']' at '<EOF>'"},
	} {
		_, err := Compile(c.text, c.kind)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", c.text, err, c.want)
		}
	}
}

func TestAnEvaluationMayNotCostMuch(t *testing.T) {
	text := "node.labels.all(a, node.labels.all(b, node.labels.all(c, node.labels.all(d, a + b + c + d != ''))))"
	tmpl, err := Compile(text, Filter)
	if err != nil {
		t.Fatal(err)
	}
	r, err := tmpl.Residual(tmpl.Ask(&Pod{}))
	if err != nil {
		t.Fatal(err)
	}
	n := &fakeNode{labels: map[string]string{}}
	for i := range 20 {
		n.labels[fmt.Sprint(i)] = "x"
	}
	if o := r.Eval(n); !o.Costly || o.Cost != NodeCost || o.Failed == "" {
		t.Errorf("got %+v, want a failure for the cost", o)
	}
}
