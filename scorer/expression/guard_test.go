package expression

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
)

// doubling is an expression in which each of n steps makes one value of the last one, twice.
func doubling(n int, first, step, last string) string {
	text := fmt.Sprintf("cel.bind(v0, %s, ", first)
	for i := range n {
		text += fmt.Sprintf("cel.bind(v%d, %s, ", i+1, strings.ReplaceAll(step, "V", fmt.Sprintf("v%d", i)))
	}
	return text + strings.ReplaceAll(last, "V", fmt.Sprintf("v%d", n)) + strings.Repeat(")", n+1)
}

// Each of these takes minutes or all memory where costs count when a step is done only.
func TestASingleStepMayNotCostMuch(t *testing.T) {
	for name, text := range map[string]string{
		"lists joined":           doubling(25, "[%s]", "V + V", "V.size() > 0"),
		"lists joined by macros": "[[%s]]" + strings.Repeat(".map(a, a + a)", 25) + ".size() == 1",
		"lists in lists":         doubling(25, "[%s]", "[V, V]", "V == V"),
		"untyped lists in lists": doubling(25, "[%s]", "dyn([V, V])", "V == V"),
		"optional lists":         doubling(25, "[%s]", "[optional.of(V), optional.of(V)]", "V == V"),
		"maps in maps":           doubling(25, "{'a': %s}", "{'a': V, 'b': V}", "V == V"),
		"texts replaced":         doubling(12, "%s + 'a text of a few characters'", "V + V", "V.replace('', V) != ''"),
		"texts joined":           doubling(12, "%s + 'a text of a few characters'", "V + V", "cel.bind(l, V.split(' '), l.join(V)) != ''"),
		"sets":                   doubling(11, "[%s]", "V + V", "sets.contains(V, V)"),
	} {
		for _, of := range []string{"node.name", "pod.name"} {
			whole := strings.Replace(text, "%s", of, 1)
			tmpl, err := Compile(whole, Filter)
			if err != nil {
				t.Errorf("%s of %s: %v", name, of, err)
				continue
			}
			r, err := tmpl.Residual(tmpl.Ask(&Pod{Name: "p"}))
			if err != nil {
				t.Errorf("%s of %s: %v", name, of, err)
				continue
			}
			o := r.Eval(&fakeNode{name: "n"})
			if o.Failed == "" || strings.HasPrefix(of, "node") != o.Costly || !o.Costly && !strings.Contains(o.Failed, "cost limit exceeded") {
				t.Errorf("%s of %s: got %+v, want a failure for the cost", name, of, o)
			}
		}
	}
}

// Each of these takes half a second and 100 MB for each node where patterns may be of any size.
func TestARegularExpressionMayNotBeLarge(t *testing.T) {
	large := strings.Repeat(".{1000}", 500)
	for text, want := range map[string]string{
		"node.name.find('%s') == ''":          "column 16: regular expression: expected at most 2000 steps with its repeats written out, got 500000",
		"node.name.findAll('%s').size() == 0": "column 19: regular expression: expected at most 2000 steps with its repeats written out, got 500000",
		"matches(pod.name, '%s')":             "column 19: regular expression: expected at most 2000 steps with its repeats written out, got 500000",
	} {
		if _, err := Compile(fmt.Sprintf(text, large), Filter); err == nil || err.Error() != want {
			t.Errorf("%s: error is %v, want %s", text, err, want)
		}
	}
	for _, text := range []string{
		"node.name.find(pod.annotations['p']) == ''", "node.name.findAll(pod.annotations['p']).size() == 0", "node.name.matches(pod.annotations['p'])",
		"node.name.find(node.annotations['p']) == ''", "node.name.matches(node.annotations['p'])", "pod.name.matches(pod.annotations['p']) && node.pods > 0",
		"dyn(node.name).matches(node.annotations['p'])",
	} {
		for pattern, fails := range map[string]bool{large: true, ".{1000}": false, "[": true, "^n{1,2}$": false} {
			tmpl, err := Compile(text, Filter)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			r, err := tmpl.Residual(tmpl.Ask(&Pod{Name: "p", Annotations: map[string]string{"p": pattern}}))
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if o := r.Eval(&fakeNode{name: "n", pods: 1, annotations: map[string]string{"p": pattern}}); (o.Failed != "") != fails {
				t.Errorf("%s of %.20q: got %+v, want a failure: %v", text, pattern, o, fails)
			}
		}
	}
	if got := patternOf("a(bc|[d-z]){2,}x?.*^").steps; got != 1+3*3+1+1+1 {
		t.Errorf("got %d steps, want 13", got)
	}
	if o := direct(t, "node.name.matches('^[mn]$') && !node.name.matches(node.name + 'a')", Filter, &Pod{}, &fakeNode{name: "n"}); !o.Pass {
		t.Errorf("got %+v, want true", o)
	}
}

func TestGuardedStepsDoAsBefore(t *testing.T) {
	for text, want := range map[string]bool{
		"'a-b'.replace('-', node.name) == 'anb' && 'aaa'.replace('a', node.name, 2) == 'nna'":                          true,
		"[node.name, 'b'].join('-') == 'n-b' && [node.name].join() == 'n'":                                             true,
		"sets.contains([node.name, 'b'], ['b']) && !sets.intersects([node.name], ['b'])":                               true,
		"sets.equivalent([node.name, 'n'], ['n'])":                                                                     true,
		"dyn(node.name).replace('n', 'm') == 'm' && dyn([node.name]).join(',') == 'n'":                                 true,
		"[[node.name], [node.name, 'b']] == [['n'], ['n', 'b']] && {'a': [node.name]} == {}":                           false,
		"[1, 2, 3].map(i, [i, node.pods]).size() == 3 && ([node.pods] + [7])[1] == 7":                                  true,
		"[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(a, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(b, a + b + node.pods)).size() == 10": true,
	} {
		if o := direct(t, text, Filter, &Pod{}, &fakeNode{name: "n"}); o.Failed != "" || o.Pass != want {
			t.Errorf("%s: got %+v, want %v", text, o, want)
		}
	}
}

func TestWeightStopsCounting(t *testing.T) {
	list := types.NewStringList(types.DefaultTypeAdapter, []string{"a", "b", strings.Repeat("x", 100)})
	for most, want := range map[uint64]uint64{1000: 13, 13: 13} {
		if got := weight(list, most); got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
	if got := weight(list, 1); got != 2 {
		t.Errorf("got %d, want 2: the rest is not looked at", got)
	}
}
