package compile

import (
	"math"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/expression"
)

// celProfileOf is a profile of expressions alone.
func celProfileOf(t *testing.T, filters, scores []string) *Profile {
	t.Helper()
	c := ProfileConfig{Name: "cel", Filters: []pb.Plugin{pb.Plugin_PLUGIN_CEL_FILTER}, Scores: []PluginWeight{{pb.Plugin_PLUGIN_CEL_SCORE, 1}}}
	for i, text := range filters {
		c.CELFilter.Expressions = append(c.CELFilter.Expressions, CELFilterExpression{Name: string(rune('a' + i)), Expression: text})
	}
	for i, text := range scores {
		c.CELScore.Expressions = append(c.CELScore.Expressions, CELScoreExpression{Name: string(rune('a' + i)), Expression: text})
	}
	p, err := newProfile(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func celPodOf(name string, labels, annotations map[string]string) *v1.Pod {
	p := &v1.Pod{}
	p.Name, p.Namespace, p.Labels, p.Annotations = name, "default", labels, annotations
	return p
}

type texts = map[string]string

// TestPodsShareClassesByWhatExpressionsRead compiles pods that differ.
func TestPodsShareClassesByWhatExpressionsRead(t *testing.T) {
	prof := celProfileOf(t, []string{
		"node.labels['zone'] in pod.annotations['zones'].split(',')", "pod.labels[?'tier'].orValue('') == 'gold' || !node.unschedulable",
	}, []string{"pod.labels[?'heavy'].orValue('no') == 'yes' ? 100 - node.pods : 50"})
	c, w := New(), EmptyCluster(still{})
	class := func(p *v1.Pod) *Class {
		got, err := c.Class(p, prof, w)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := class(celPodOf("a", texts{"app": "x"}, texts{"zones": "a,b", "note": "1"}))
	for _, x := range []struct {
		name string
		pod  *v1.Pod
		same bool
	}{
		{"another name, label and annotation", celPodOf("b", texts{"app": "y"}, texts{"zones": "a,b", "note": "2"}), true},
		{"read, with the same answer", celPodOf("c", texts{"tier": "silver"}, texts{"zones": "a,b"}), true},
		{"read, with another answer", celPodOf("d", texts{"tier": "gold"}, texts{"zones": "a,b"}), false},
		{"another value", celPodOf("e", nil, texts{"zones": "a"}), false},
		{"another branch", celPodOf("f", texts{"heavy": "yes"}, texts{"zones": "a,b"}), false},
	} {
		if got := class(x.pod).ID() == first.ID(); got != x.same {
			t.Errorf("%s: same class %t, want %t", x.name, got, x.same)
		}
	}
	if n := len(first.Query.Cel.Filters); n != 2 {
		t.Errorf("got %d filters, want 2", n)
	}
	if n := len(class(celPodOf("d", texts{"tier": "gold"}, texts{"zones": "a"})).Query.Cel.Filters); n != 1 {
		t.Errorf("of a pod that decides one: got %d filters, want 1", n)
	}
}

// Sizes of a pod share no answer of an expression that reads what the pod requests.
func TestExpressionsReadTheRequestsOfEachSize(t *testing.T) {
	for _, text := range []string{
		"node.free['cpu'] > pod.requests['cpu']",
		"node.free['cpu'] > pod.containers[0].requests['cpu']",
		"node.free['cpu'] > pod.initContainers[0].requests['cpu']",
		"quantity('1') < pod.requests['cpu']",
	} {
		c, prof := New(), celProfileOf(t, []string{text}, nil)
		for _, size := range []string{"1", "2", "500m"} {
			p := build.Pod("p").CPU(size).Init("i", "cpu", size).Obj()
			got, want := mustClass(t, c, p, prof, still{}), mustClass(t, New(), p, prof, still{})
			if definition(got) != definition(want) || (got.Rejected == nil) != (want.Rejected == nil) {
				t.Errorf("%s, cpu %s: got query %v and rejection %v, want %v and %v", text, size, got.Query, got.Rejected, want.Query, want.Rejected)
			}
		}
	}
}

func TestPodsThatExpressionsDecide(t *testing.T) {
	for _, c := range []struct {
		filter, want string
	}{
		{"pod.namespace == 'x'", `pod didn't match CEL expression "a"`},
		{"pod.labels['none'] == 'x'", `CEL expression "a" failed: no such key: none`},
		{"node.unschedulable && pod.namespace == 'x'", `pod didn't match CEL expression "a"`},
		{"pod.namespace == 'default' || node.pods > 3", ""},
	} {
		class, err := New().Class(celPodOf("a", nil, nil), celProfileOf(t, []string{c.filter}, nil), EmptyCluster(still{}))
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case c.want == "" && (class.Rejected != nil || len(class.Query.Filters) > 0 || class.Query.Cel != nil):
			t.Errorf("%s: got %+v, want nothing to ask", c.filter, class)
		case c.want != "" && (class.Rejected == nil || class.Rejected.Message != c.want || !class.Rejected.Unresolvable):
			t.Errorf("%s: got %+v, want %s", c.filter, class.Rejected, c.want)
		}
	}
}

func TestProfilesTellWhatExpressionsRead(t *testing.T) {
	p := celProfileOf(t, []string{"node.annotations['b'] == 'x' && 'a' in node.annotations", "node.free['cpu'] > pod.requests['cpu']"}, nil)
	if got := strings.Join(NodeAnnotations(map[string]*Profile{"x": p}), " "); got != "a b" {
		t.Errorf("annotations: got %q, want a b", got)
	}
	if !p.CELReadsPods() || p.WantsWhole() {
		t.Errorf("reads pods %t, wants whole pods %t, want true, false", p.CELReadsPods(), p.WantsWhole())
	}
	if q := celProfileOf(t, []string{"pod.owners.all(o, o.kind != node.name)"}, nil); q.CELReadsPods() || !q.WantsWhole() {
		t.Errorf("reads pods %t, wants whole pods %t, want false, true", q.CELReadsPods(), q.WantsWhole())
	}
}

// TestQuantitiesAreKubernetes holds the language's quantities to those of the API, which also takes
// amounts beyond 64 bits, or cuts them.
func TestQuantitiesAreKubernetes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`-?[0-9]{1,12}(\.[0-9]{0,12})?(n|u|m|k|M|G|T|Ki|Mi|Gi|Ti|e[0-3]|E-[0-9])?`).Draw(t, "quantity")
		want, err := resource.ParseQuantity(text)
		got, ours := expression.ParseQuantity(text)
		if err == nil && ours != nil && (want.CmpInt64(math.MaxInt64) >= 0 || want.CmpInt64(-math.MaxInt64) <= 0) {
			return
		}
		if (err == nil) != (ours == nil) {
			t.Fatalf("%s: got %v, Kubernetes %v", text, ours, err)
		}
		if err != nil {
			return
		}
		if again := resource.MustParse(got.String()); again.Cmp(want) != 0 {
			t.Fatalf("%s: got %s, Kubernetes %s", text, got, want.String())
		}
	})
}
