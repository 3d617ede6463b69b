package count

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/selector"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// carrier is a pod of namespace x with preferred terms about all namespaces, each of a selector of its
// own that pods without labels match.
func carrier(name string, terms int, key func(i int) string, values ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name}}
	near := &v1.PodAffinity{}
	for i := range terms {
		near.PreferredDuringSchedulingIgnoredDuringExecution = append(near.PreferredDuringSchedulingIgnoredDuringExecution, v1.WeightedPodAffinityTerm{
			Weight: 1,
			PodAffinityTerm: v1.PodAffinityTerm{
				TopologyKey: key(i), NamespaceSelector: &metav1.LabelSelector{},
				LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
					Key: fmt.Sprint(name, i), Operator: metav1.LabelSelectorOpNotIn, Values: append([]string{"v"}, values...)}}},
			}})
	}
	p.Spec.Affinity = &v1.Affinity{PodAffinity: near}
	return p
}

func zone(int) string { return "zone" }

// TestTermsLeaveNothingBehind carries ten thousand terms over five hundred busy namespaces: no namespace
// keeps a list of them, and once the pod is gone nothing looks at them.
func TestTermsLeaveNothingBehind(t *testing.T) {
	const terms, namespaces = 10000, 500
	r, l := New(), &land{labels: map[string]map[string]string{}}
	c := r.Carry(carrier("c", terms, zone))
	for i := range namespaces {
		m := r.Matching(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("ns-", i)}}, l)
		if m == nil || len(m.Terms) != terms {
			t.Fatalf("namespace %d: got %v, want %d terms that match", i, m, terms)
		}
	}
	if got := len(r.terms.matches); got != 1 {
		t.Errorf("matches: got %d, want one that all namespaces share", got)
	}
	filed := r.terms.selecting.Len()
	for _, s := range r.terms.named {
		filed += s.index.Len()
	}
	if filed != terms {
		t.Errorf("terms that are filed: got %d, want each once: %d", filed, terms)
	}
	r.Release(c)
	if r.terms.live != 0 || r.terms.selecting.Len() != 0 || len(r.terms.named) != 0 || r.terms.keptBytes != 0 || len(r.carried.byKey) != 0 {
		t.Errorf("after the pod: got %d terms that are looked up, %d filed, %d namespaces, %d bytes of sights, %d carried, want none",
			r.terms.live, r.terms.selecting.Len(), len(r.terms.named), r.terms.keptBytes, len(r.carried.byKey))
	}
	if r.carried.restingBytes > maxResting {
		t.Errorf("resting terms: got %d bytes, want %d at most", r.carried.restingBytes, maxResting)
	}
}

// TestTermsOfKeysThatNoNodeHasMakeNoCounter carries them, until a node gets one of the keys.
func TestTermsOfKeysThatNoNodeHasMakeNoCounter(t *testing.T) {
	r, l := New(), &land{labels: map[string]map[string]string{}}
	has := map[string]bool{}
	r.UseTopologies(func(key string) bool { return has[key] })
	key := func(i int) string { return fmt.Sprint("key-", i) }
	if _, brings, few := r.CarryFew(carrier("few", 1000, key), 0); !few || brings != 0 {
		t.Errorf("terms that the pod may bring: got %d, want none", brings)
	}
	victim := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "victims"}}
	if got := r.Len(); got != 0 || r.terms.live != 0 || r.Matching(victim, l) != nil {
		t.Errorf("got %d counters, %d terms that are looked up, and a match %v, want none", got, r.terms.live, r.Matching(victim, l))
	}
	has["key-7"] = true
	r.Appeared("key-7")
	if m := r.Matching(victim, l); r.Len() != 1 || m == nil || len(m.Terms) != 1 {
		t.Errorf("once nodes have key-7: got %d counters and the match %v, want the one term", r.Len(), m)
	}
	if list := r.TakeNew(); len(list) != 1 || len(list[0].Namespaces()) != 1 || list[0].Namespaces()[0] != "x" {
		t.Errorf("counters to fill: got %v, want one for the pods of namespace x", list)
	}
}

// TestRestingTermsAreBounded carries and releases more than may rest. What rests keeps its counter.
func TestRestingTermsAreBounded(t *testing.T) {
	r := New()
	wide := strings.Repeat("v", 60)
	last := uint32(0)
	for i := range 400 {
		p := carrier(fmt.Sprint("c", i), 200, zone, wide)
		c := r.Carry(p)
		last = r.Contributions(p)[0].Counter
		r.Release(c)
	}
	if got := r.carried.restingBytes; got > maxResting || got < maxResting/2 {
		t.Errorf("resting terms: got %d bytes, want at most %d and more than half of that", got, maxResting)
	}
	if got := len(r.carried.resting); got != len(r.carried.terms) || got != r.Len() {
		t.Errorf("got %d terms that rest, %d that are known and %d counters, want as many", got, len(r.carried.terms), r.Len())
	}
	p := carrier("c399", 200, zone, wide)
	r.Carry(p)
	if got := r.Contributions(p)[0].Counter; got != last {
		t.Errorf("counter of a term that comes back: got %d, want %d as before", got, last)
	}
}

// TestMatchesOfTermsThatAreGone has terms of thousands of values come, match a pod together, and go: once they are dropped
// no match that is kept leads to what they said, and the matches that name them go.
func TestMatchesOfTermsThatAreGone(t *testing.T) {
	r, l := New(), &land{labels: map[string]map[string]string{}}
	const rounds, terms = 40, 200
	for round := range rounds {
		var carried []*Carried
		for i := range terms {
			carried = append(carried, r.Carry(carrier(fmt.Sprintf("c%d-%d", round, i), 1, zone)))
			if m := r.Matching(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}}, l); m == nil || len(m.Terms) != i+1 {
				t.Fatalf("round %d: got %v, want %d terms that match", round, m, i+1)
			}
		}
		for _, c := range carried {
			r.Release(c)
		}
		for range patience + 2 {
			r.Sweep()
		}
	}
	for _, m := range r.terms.matches {
		for _, x := range m.Terms {
			if x.gone && (x.selector != nil || x.namespaces != nil || x.spec != "" || x.counter.spec != "") {
				t.Fatal("a match leads to what a term said that is gone")
			}
		}
	}
	if got, most := r.terms.matched, 2*terms*terms+lookedAtMatched; got > most || got == 0 {
		t.Errorf("terms of matches: got %d after %d rounds of %d, want some and at most %d", got, rounds, terms*(terms+1)/2, most)
	}
}

// TestWhatIsKeptOfMatchesIsBounded has more kinds of pods matched than are kept.
func TestWhatIsKeptOfMatchesIsBounded(t *testing.T) {
	r, l := New(), &land{labels: map[string]map[string]string{}}
	r.Carry(carrier("c", 3000, zone))
	for i := range keptMatched/3000 + 100 {
		// A label of value v keeps one of the terms from matching.
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Labels: map[string]string{fmt.Sprint("c", i): "v"}}}
		r.Matching(p, l)
	}
	if got := r.terms.matched; got > keptMatched {
		t.Errorf("terms of matches: got %d, want %d at most", got, keptMatched)
	}
	x, s := &r.terms, &termSpace{}
	x.named["b"] = s
	for i := range keptSights/(1<<10) + 100 {
		x.keep(s, fmt.Sprint(strings.Repeat("s", 1<<10), i), nil)
	}
	sum := 0
	for _, s := range x.named {
		sum += keptIn(&s.kept, func(*Match) int { return 0 })
	}
	if sum != x.keptBytes || sum > keptSights {
		t.Errorf("sights: got %d bytes, counted as %d, want %d at most", sum, x.keptBytes, keptSights)
	}
}

// keptIn is what the sights of a space take, and what is kept by them.
func keptIn[V any](s *sights[V], bytes func(V) int) (n int) {
	for sight, v := range s.bySight {
		n += len(sight) + 64 + bytes(v)
	}
	return n
}

// TestWhatIsKeptOfPodsIsBounded has more bytes of labels seen than are kept, by a selector of more values than
// are named one by one, in some namespaces, in each less than the bound.
func TestWhatIsKeptOfPodsIsBounded(t *testing.T) {
	r, in := New(), metav1.LabelSelectorRequirement{Key: "wide", Operator: "NotIn"}
	for i := range 100 {
		in.Values = append(in.Values, fmt.Sprint(i))
	}
	wide, err := selector.New(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{in}})
	if err != nil {
		t.Fatal(err)
	}
	x := &r.pods
	held := func() (n int) {
		for _, s := range x.spaces {
			n += keptIn(&s.kept, func(a *answer) int { return 16 * len(a.list) })
		}
		return n
	}
	for _, namespace := range []string{"a", "b", "c"} {
		r.Pods(Namespaces{Names: []string{namespace}}, wide)
	}
	for i := range keptSights/(1<<16) + 20 {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: string("abc"[i%3]), Labels: map[string]string{"wide": fmt.Sprint(strings.Repeat("s", 1<<16), i)}}}
		if got := r.Contributions(p); len(got) != 1 {
			t.Fatalf("pod %d: got %v, want a counter", i, got)
		}
	}
	if sum := held(); sum != x.keptBytes || sum > keptSights || sum == 0 {
		t.Errorf("got %d bytes, counted as %d, want %d at most", sum, x.keptBytes, keptSights)
	}
	r.Pods(Namespaces{Names: []string{"a", "b", "c"}}, wide)
	if x.keptBytes != 0 {
		t.Errorf("got %d bytes once the selectors are others, want none", x.keptBytes)
	}
}

// TestUnionsAreBounded merges more answers than are kept.
func TestUnionsAreBounded(t *testing.T) {
	var x unions
	one := &answer{from(1, 1000)}
	for range 2 * keptUnions / 1000 {
		x.of(one, &answer{from(2000, 10)})
		if x.values > keptUnions {
			t.Fatalf("values of unions: got %d, want %d at most", x.values, keptUnions)
		}
	}
}

// from are n values from a counter on.
func from(id uint32, n int) (out []*pb.CounterValue) {
	for i := range n {
		out = append(out, &pb.CounterValue{Counter: id + uint32(i), Value: 1})
	}
	return out
}
