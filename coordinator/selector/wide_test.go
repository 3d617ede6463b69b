package selector

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// long is a selector of n values of a key, of which the i-th begins with v<i>.
func long(t testing.TB, key string, op metav1.LabelSelectorOperator, from, n int) *Selector {
	t.Helper()
	r := metav1.LabelSelectorRequirement{Key: key, Operator: op}
	for i := range n {
		r.Values = append(r.Values, fmt.Sprintf("v%d", from+i))
	}
	s, err := New(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{r}})
	if err != nil {
		t.Fatalf("want a selector, got %v", err)
	}
	return s
}

// TestLongSelectorsAreFoundAsShortOnes holds an index of selectors around the length from which their values
// are not listed by it against looking at each of them.
func TestLongSelectorsAreFoundAsShortOnes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var x Index[int]
		known := map[int]*Selector{}
		for i := range rapid.IntRange(1, 20).Draw(rt, "steps") {
			if _, there := known[i-1]; there && rapid.Bool().Draw(rt, "remove") {
				x.Remove(known[i-1], i-1)
				delete(known, i-1)
			}
			op := rapid.SampledFrom([]metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn}).Draw(rt, "operator")
			s := long(t, rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "key"), op, rapid.IntRange(0, 70).Draw(rt, "from"), rapid.SampledFrom([]int{1, 8, 9, 64, 65, 70}).Draw(rt, "values"))
			if rapid.Bool().Draw(rt, "and") {
				s = s.And(long(t, "c", metav1.LabelSelectorOpIn, rapid.IntRange(0, 3).Draw(rt, "c"), 2))
			}
			x.Add(s, i)
			known[i] = s
		}
		value := rapid.Custom(func(rt *rapid.T) string { return fmt.Sprintf("v%d", rapid.IntRange(0, 140).Draw(rt, "value")) })
		bySight := map[string][]int{}
		for range 20 {
			set := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), value, 0, 3).Draw(rt, "set")
			want, got := []int{}, []int{}
			for id, s := range known {
				if s.Matches(set) {
					want = append(want, id)
				}
			}
			x.Matching(set, func(id int) { got = append(got, id) })
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(want, got) {
				rt.Fatalf("matching %v: want %v, got %v", set, want, got)
			}
			sight := string(x.Sight(set, nil))
			if before, ok := bySight[sight]; ok && !slices.Equal(before, want) {
				rt.Fatalf("%v is seen as labels that %v match, but %v do", set, before, want)
			}
			bySight[sight] = want
		}
		for id, s := range known {
			x.Remove(s, id)
		}
		if x.Len() != 0 || len(x.names.keys) != 0 || x.names.wide != 0 || len(x.rest)+len(x.byKey)+len(x.byLabel) != 0 {
			rt.Fatalf("all removed: want an empty index, got %+v", x)
		}
	})
}

// TestALongSelectorIsNotListedByItsIndexes counts what an index holds of a selector of 10,000 values: a
// tenant's selector stands in the index of each namespace.
func TestALongSelectorIsNotListedByItsIndexes(t *testing.T) {
	for _, op := range []metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn} {
		s := long(t, "app", op, 0, 10000)
		var x Index[int]
		if n := testing.AllocsPerRun(10, func() {
			x.Add(s, 1)
			x.Remove(s, 1)
		}); n > 20 {
			t.Errorf("%s: want at most 20 allocations to add and remove it, got %g", op, n)
		}
		x.Add(s, 1)
		if n := len(x.byLabel) + len(x.names.keys["app"].values); n != 0 {
			t.Errorf("%s: want none of its values listed, got %d", op, n)
		}
	}
}

// TestSelectorsThatDemandNothingAreNotLookedAt has five thousand selectors that only forbid, which labels
// without their keys are matched by; a selector that is looked at panics.
func TestSelectorsThatDemandNothingAreNotLookedAt(t *testing.T) {
	var x Index[int]
	for i := range 5000 {
		op := metav1.LabelSelectorOpNotIn
		if i%2 == 0 {
			x.Add(&Selector{text: fmt.Sprint(i), requirements: []requirement{newRequirement("gone", doesNotExist, nil), newRequirement("other", notIn, []string{fmt.Sprint(i)})}}, i)
			continue
		}
		x.Add(long(t, "app", op, i, 1), i)
	}
	for _, d := range x.rest {
		for i := range d.filed {
			d.filed[i].selector = nil
		}
	}
	for _, c := range []struct {
		labels map[string]string
		want   int
	}{
		{map[string]string{"tier": "web"}, 5000},
		{map[string]string{"gone": "no"}, 2500},
		{map[string]string{"gone": "no", "other": "1"}, 2500},
	} {
		n := 0
		x.Matching(c.labels, func(int) { n++ })
		if n != c.want {
			t.Errorf("%v: want %d, got %d", c.labels, c.want, n)
		}
	}
}

// forbids is a selector of keys that must not be there.
func forbids(t testing.TB, n int) *Selector {
	t.Helper()
	var s metav1.LabelSelector
	for i := range n {
		s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: fmt.Sprintf("not-%d", i), Operator: metav1.LabelSelectorOpDoesNotExist})
	}
	out, err := New(&s)
	if err != nil {
		t.Fatalf("want a selector, got %v", err)
	}
	return out
}

// TestManyRequirementsMatchAsFew adds requirements that no labels break: selectors match what they matched before.
func TestManyRequirementsMatchAsFew(t *testing.T) {
	more := forbids(t, 200)
	rapid.Check(t, func(t *rapid.T) {
		s, err := New(drawSelector(t))
		if err != nil || s.MatchesNothing() {
			return
		}
		var few, many Index[int]
		few.Add(s, 1)
		many.Add(s.And(more), 1)
		set := drawLabels(t, "set")
		want, got, found := s.Matches(set), s.And(more).Matches(set), [2]int{}
		few.Matching(set, func(int) { found[0]++ })
		many.Matching(set, func(int) { found[1]++ })
		if got != want || (found[0] == 1) != want || (found[1] == 1) != want {
			t.Fatalf("%v and %v: got %v, and found %v in an index of either, want %v", s, set, got, found, want)
		}
		if set["not-7"] = "x"; s.And(more).Matches(set) || many.Matching(set, func(int) { t.Fatalf("%v: found, want it not", set) }) < 1 {
			t.Fatalf("%v: matched, or nothing looked at", set)
		}
	})
}

// TestRequirementsOnOtherKeysAreNotLookedAt has 5,000 requirements, and labels with none of their keys.
func TestRequirementsOnOtherKeysAreNotLookedAt(t *testing.T) {
	s, set := forbids(t, 5000), map[string]string{"app": "web", "tier": "db"}
	demanding := s.And(Equal(map[string]string{"app": "web"}))
	var x Index[int]
	x.Add(s, 1)
	x.Add(demanding, 2)
	found := 0
	if looks := x.Matching(set, func(int) { found++ }); found != 2 || looks > 20 {
		t.Errorf("got %d found with %d looks, want 2 with 20 at the most", found, looks)
	}
	if _, looks := demanding.look(set); looks > 10 {
		t.Errorf("got %d looks, want 10 at the most", looks)
	}
}

// BenchmarkLong is a pod among 300 selectors of 10,000 values.
func BenchmarkLong(b *testing.B) {
	var x Index[int]
	var list []*Selector
	for i := range 300 {
		list = append(list, long(b, "app", metav1.LabelSelectorOpNotIn, i*10000, 10000))
		x.Add(list[i], i)
	}
	set := map[string]string{"app": "web", "tier": "db"}
	n := 0
	b.Run("matching", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			x.Matching(set, func(int) { n++ })
		}
	})
	b.Run("sight", func(b *testing.B) {
		var sight []byte
		b.ReportAllocs()
		for b.Loop() {
			sight = x.Sight(set, sight[:0])
		}
	})
	b.Run("add and remove", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			x.Remove(list[7], 7)
			x.Add(list[7], 7)
		}
	})
}

// BenchmarkRemove empties an index of 5,000 selectors that forbid.
func BenchmarkRemove(b *testing.B) {
	list := make([]*Selector, 5000)
	for i := range list {
		list[i] = long(b, "app", metav1.LabelSelectorOpNotIn, i, 1)
	}
	b.ReportAllocs()
	for b.Loop() {
		var x Index[int]
		for i, s := range list {
			x.Add(s, i)
		}
		for i, s := range list {
			x.Remove(s, i)
		}
	}
}

// A long text is told by its digest, and tells selectors apart all the same.
func TestALongSelectorHasAShortText(t *testing.T) {
	a, b, longer, other := long(t, "k", metav1.LabelSelectorOpNotIn, 0, 5000), long(t, "k", metav1.LabelSelectorOpNotIn, 0, 5000),
		long(t, "k", metav1.LabelSelectorOpNotIn, 0, 5001), long(t, "k", metav1.LabelSelectorOpIn, 0, 5000)
	if a.Text() != b.Text() || len(a.Text()) > longText {
		t.Errorf("got texts of %d and %d bytes, want the same one of %d at most", len(a.Text()), len(b.Text()), longText)
	}
	if a.Text() == longer.Text() || a.Text() == other.Text() || longer.Text() == other.Text() {
		t.Error("selectors that differ have one text")
	}
	if n := a.MemoryBytes(); n < 5000*16 {
		t.Errorf("a selector of 5000 values takes %d bytes, want what its values take", n)
	}
}
