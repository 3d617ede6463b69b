package compile

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// asked is a cluster model that counts how often it is asked for the topology of a key.
type asked struct {
	*clusterModel
	topologies int
}

func (w *asked) Topology(key string) Topology {
	w.topologies++
	return w.clusterModel.Topology(key)
}

// labelled is a cluster model of two nodes that share each of some label keys.
func labelled(t testing.TB, keys int) *asked {
	t.Helper()
	w := &asked{clusterModel: newClusterModel()}
	for _, name := range []string{"a", "b"} {
		n := build.Node(name).CPU("8")
		for i := range keys {
			n.Label(fmt.Sprint("key-", i), "x")
		}
		if err := w.setNode(n.Obj()); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// nearAll is a pod with a preferred term for each of some keys, about all pods.
func nearAll(keys ...string) *v1.Pod {
	p := build.Pod("near").UID("near").Obj()
	p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{}}
	list := &p.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	for _, key := range keys {
		*list = append(*list, v1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: v1.PodAffinityTerm{
			TopologyKey: key, LabelSelector: &metav1.LabelSelector{}, NamespaceSelector: &metav1.LabelSelector{},
		}})
	}
	return p
}

// spreadOver is a pod with a constraint for each of some keys.
func spreadOver(when v1.UnsatisfiableConstraintAction, keys ...string) *v1.Pod {
	p := build.Pod("spread").UID("spread").Obj()
	for _, key := range keys {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, v1.TopologySpreadConstraint{
			TopologyKey: key, MaxSkew: 1, WhenUnsatisfiable: when, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": key}}})
	}
	return p
}

// numbered are n keys from the one with a number on.
func numbered(from, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprint("key-", from+i))
	}
	return out
}

// TestKeysThatNoNodeHasMakeNoCounter compiles pods that name thousands of such keys beside one that
// nodes have: the first attempt asks for each key a few times, others ask for none, and no counter comes.
func TestKeysThatNoNodeHasMakeNoCounter(t *testing.T) {
	const keys = 1000
	for name, p := range map[string]*v1.Pod{
		"preferred terms":  nearAll(numbered(1, keys)...),
		"soft constraints": spreadOver(v1.ScheduleAnyway, numbered(1, keys)...),
		"hard constraints": spreadOver(v1.DoNotSchedule, numbered(1, keys)...),
	} {
		w, c, prof := labelled(t, 1), New(), DefaultProfile("x")
		for attempt, most := range []int{8 * keys, 0} {
			w.topologies = 0
			class, err := c.Class(p, prof, w)
			if err != nil {
				t.Fatalf("%s: class: %v", name, err)
			}
			if w.topologies > most {
				t.Errorf("%s: attempt %d asks for %d topologies, want %d at most", name, attempt+1, w.topologies, most)
			}
			if got := len(class.Query.DomainKeys); got > 1 {
				t.Errorf("%s: got %d domain keys, want one at most", name, got)
			}
		}
		if got := w.counters.Len(); got != 0 {
			t.Errorf("%s: got %d counters, want none", name, got)
		}
	}
}

// TestAPodOverItsBoundFailsByItself goes to each bound on what a pod may ask for, and over it.
func TestAPodOverItsBoundFailsByItself(t *testing.T) {
	over := func(p, q *v1.Pod) *v1.Pod {
		p.Spec.TopologySpreadConstraints = q.Spec.TopologySpreadConstraints
		return p
	}
	many := func(n int) *v1.Pod {
		p := nearAll()
		for i := range n {
			more := nearAll("key-0").Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0]
			more.PodAffinityTerm.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint(i)}}
			list := &p.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
			*list = append(*list, more)
		}
		return p
	}
	w, c, prof := labelled(t, 3*OwnKeys), New(), DefaultProfile("x")
	for name, x := range map[string]struct {
		pod  *v1.Pod
		fail string
	}{
		"as many keys as a pod may name":          {pod: nearAll(numbered(0, OwnKeys)...)},
		"as many, and thousands that no node has": {pod: nearAll(numbered(2*OwnKeys, 2000)...)},
		"one more":                                   {pod: nearAll(numbered(0, OwnKeys+1)...), fail: "more than 64 topology keys"},
		"as many constraints":                        {pod: spreadOver(v1.DoNotSchedule, numbered(0, OwnKeys)...)},
		"one constraint more":                        {pod: spreadOver(v1.ScheduleAnyway, numbered(0, OwnKeys+1)...), fail: "more than 64 topology keys"},
		"constraints and terms of the same keys":     {pod: over(nearAll(numbered(0, OwnKeys)...), spreadOver(v1.DoNotSchedule, numbered(0, OwnKeys)...))},
		"constraints and terms of other keys":        {pod: over(nearAll(numbered(0, OwnKeys)...), spreadOver(v1.DoNotSchedule, "key-100")), fail: "more than 64 topology keys"},
		"as many terms of one key as a pod may have": {pod: many(OwnTerms)},
		"one more of them":                           {pod: many(OwnTerms + 1), fail: "more than 256 of topology keys"},
	} {
		for range 2 {
			before := w.counters.Len()
			class, err := c.Class(x.pod, prof, w)
			switch {
			case x.fail == "" && (err != nil || class.Query.Validate() != nil):
				t.Errorf("%s: want a query, got the error %v and %v", name, err, class.Query.Validate())
			case x.fail != "" && (err == nil || !strings.Contains(err.Error(), x.fail)):
				t.Errorf("%s: want an error with %q, got %v", name, x.fail, err)
			case x.fail != "" && w.counters.Len() != before:
				t.Errorf("%s: got %d counters, want none", name, w.counters.Len()-before)
			}
		}
		w.topologies = 0
		if _, _ = c.Class(x.pod, prof, w); w.topologies != 0 {
			t.Errorf("%s: the third attempt asks for %d topologies, want none", name, w.topologies)
		}
	}
}

// TestWhatMatchedTermsMeanIsWorkedOutOnce compiles pods that a thousand terms match: what the nodes make
// of the terms' keys is asked for the first of them, and where nodes' labels have changed.
func TestWhatMatchedTermsMeanIsWorkedOutOnce(t *testing.T) {
	w, c, prof := labelled(t, OwnKeys), New(), DefaultProfile("x")
	w.counters.Carry(nearAll(numbered(0, OwnKeys)...))
	compile := func(name string) int {
		t.Helper()
		w.topologies = 0
		if _, err := c.Class(build.Pod(name).UID(name).CPU("1").Label("name", name).Obj(), prof, w); err != nil {
			t.Fatalf("class: %v", err)
		}
		return w.topologies
	}
	if got := compile("first"); got == 0 || got > 4*OwnKeys {
		t.Errorf("first pod: got %d topologies asked for, want between 1 and %d", got, 4*OwnKeys)
	}
	for _, name := range []string{"second", "third"} {
		if got := compile(name); got != 0 {
			t.Errorf("%s pod: got %d topologies asked for, want none", name, got)
		}
	}
	if err := w.removeNode("b"); err != nil {
		t.Fatal(err)
	}
	if got := compile("fourth"); got == 0 {
		t.Errorf("after a node has gone: got no topology asked for, want some")
	}
}
