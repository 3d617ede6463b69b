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
