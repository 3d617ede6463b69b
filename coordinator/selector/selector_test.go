package selector

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"
)

func drawLabels(t *rapid.T, name string) map[string]string {
	return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), rapid.SampledFrom([]string{"", "x", "y", "z"}), 0, 4).Draw(t, name)
}

// drawSelector draws selectors of all kinds, those that can not be read among them.
func drawSelector(t *rapid.T) *metav1.LabelSelector {
	if rapid.IntRange(0, 9).Draw(t, "nil") == 0 {
		return nil
	}
	s := &metav1.LabelSelector{MatchLabels: rapid.MapOfN(rapid.SampledFrom([]string{"a", "b"}), rapid.SampledFrom([]string{"x", "y"}), 0, 2).Draw(t, "labels")}
	operators := []metav1.LabelSelectorOperator{
		metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
	}
	if rapid.IntRange(0, 19).Draw(t, "odd") == 0 {
		operators = append(operators, "Is")
	}
	for range rapid.IntRange(0, 2).Draw(t, "expressions") {
		r := metav1.LabelSelectorRequirement{
			Key:      rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key"),
			Operator: rapid.SampledFrom(operators).Draw(t, "operator"),
		}
		if r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn {
			r.Values = rapid.SliceOfN(rapid.SampledFrom([]string{"", "x", "y"}), 0, 3).Draw(t, "values")
		}
		s.MatchExpressions = append(s.MatchExpressions, r)
	}
	return s
}

// TestSelectorIsTheLibrarys holds a selector against apimachinery's.
func TestSelectorIsTheLibrarys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, set := drawSelector(t), drawLabels(t, "set")
		want, wantErr := metav1.LabelSelectorAsSelector(in)
		got, err := New(in)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("error of %v: want %v, got %v", in, wantErr, err)
		}
		if err != nil {
			return
		}
		if w, g := want.Matches(labels.Set(set)), got.Matches(set); w != g {
			t.Errorf("%v of %v: want %t, got %t", got, set, w, g)
		}
		if want.Empty() != got.Empty() || labels.MatchesNothing(want) != got.MatchesNothing() {
			t.Errorf("%v: want empty %t, nothing %t; got %t, %t", got, want.Empty(), labels.MatchesNothing(want), got.Empty(), got.MatchesNothing())
		}
	})
}

// TestAndIsBoth also holds the text to be that of one selector with all requirements.
func TestAndIsBoth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, errA := New(drawSelector(t))
		b, errB := New(drawSelector(t))
		if errA != nil || errB != nil {
			return
		}
		set := drawLabels(t, "set")
		both := a.And(b)
		if want, got := a.Matches(set) && b.Matches(set), both.Matches(set); want != got {
			t.Errorf("%v and %v of %v: want %t, got %t", a, b, set, want, got)
		}
		if got := b.And(a).Text(); got != both.Text() {
			t.Errorf("text the other way round: want %q, got %q", both.Text(), got)
		}
	})
}

func TestEqualSelectorsHaveOneText(t *testing.T) {
	expression := func(key string, op metav1.LabelSelectorOperator, values ...string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: values}
	}
	for name, pair := range map[string][2]*metav1.LabelSelector{
		"a label and an In of one value": {
			{MatchLabels: map[string]string{"a": "x"}},
			{MatchExpressions: []metav1.LabelSelectorRequirement{expression("a", "In", "x")}},
		},
		"values in another order, one twice": {
			{MatchExpressions: []metav1.LabelSelectorRequirement{expression("a", "NotIn", "x", "y")}},
			{MatchExpressions: []metav1.LabelSelectorRequirement{expression("a", "NotIn", "y", "x", "y")}},
		},
		"requirements in another order, one twice": {
			{MatchExpressions: []metav1.LabelSelectorRequirement{expression("a", "Exists"), expression("b", "DoesNotExist")}},
			{MatchExpressions: []metav1.LabelSelectorRequirement{expression("b", "DoesNotExist"), expression("a", "Exists"), expression("b", "DoesNotExist")}},
		},
	} {
		a, errA := New(pair[0])
		b, errB := New(pair[1])
		if errA != nil || errB != nil || a.Text() != b.Text() {
			t.Errorf("%s: want equal texts, got %q and %q (%v, %v)", name, a.Text(), b.Text(), errA, errB)
		}
	}
	a, b := Equal(map[string]string{"a": "x"}), Equal(map[string]string{"a": "x", "b": "y"})
	if a.Text() == b.Text() || a.Text() == Nothing().Text() || a.Text() == Equal(nil).Text() || Nothing().Text() == Equal(nil).Text() {
		t.Errorf("different selectors: want different texts, got %q, %q, %q, %q", a.Text(), b.Text(), Nothing().Text(), Equal(nil).Text())
	}
}

func TestStringIsAsKubernetesWritesIt(t *testing.T) {
	s, err := New(&metav1.LabelSelector{MatchLabels: map[string]string{"a": "x"}, MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "b", Operator: "In", Values: []string{"y", "x"}}, {Key: "c", Operator: "NotIn", Values: []string{"z"}},
		{Key: "d", Operator: "Exists"}, {Key: "e", Operator: "DoesNotExist"},
	}})
	if err != nil {
		t.Fatalf("want no error, got %v", err)
	}
	if want := "a=x,b in (x,y),c notin (z),d,!e"; s.String() != want {
		t.Errorf("want %s, got %s", want, s)
	}
	if got := Nothing().String(); got != "<none>" {
		t.Errorf("nothing: want <none>, got %s", got)
	}
}

// TestIndexFindsWhatMatches adds and removes selectors at random, and holds the index
// against looking at each of them.
func TestIndexFindsWhatMatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x Index[int]
		known := map[int]*Selector{}
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			if len(known) > 0 && rapid.IntRange(0, 2).Draw(t, "remove") == 0 {
				ids := make([]int, 0, len(known))
				for id := range known {
					ids = append(ids, id)
				}
				slices.Sort(ids)
				id := rapid.SampledFrom(ids).Draw(t, "which")
				x.Remove(known[id], id)
				delete(known, id)
				continue
			}
			s, err := New(drawSelector(t))
			if err != nil {
				continue
			}
			x.Add(s, i)
			if !s.MatchesNothing() {
				known[i] = s
			}
		}
		if x.Len() != len(known) {
			t.Fatalf("length: want %d, got %d", len(known), x.Len())
		}
		sets := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) map[string]string { return drawLabels(t, "set") }), 1, 6).Draw(t, "sets")
		bySight := map[string][]int{}
		for _, set := range sets {
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
				t.Errorf("matching %v: want %v, got %v", set, want, got)
			}
			sight := string(x.Sight(set, nil))
			if before, ok := bySight[sight]; ok && !slices.Equal(before, want) {
				t.Errorf("%v is seen as labels that %v match, but %v do", set, before, want)
			}
			bySight[sight] = want
		}
	})
}

func TestSightLeavesAwayWhatNoSelectorNames(t *testing.T) {
	var x Index[int]
	x.Add(Equal(map[string]string{"app": "db", "pod-name": "db-7"}), 1)
	sight := func(name string) string {
		return string(x.Sight(map[string]string{"app": "db", "pod-name": name, "hash-of-" + name: name}, nil))
	}
	if sight("db-1") != sight("db-2") {
		t.Errorf("pods that differ in what no selector names: want one sight, got two")
	}
	if sight("db-1") == sight("db-7") {
		t.Errorf("a pod that a selector names: want another sight, got the same")
	}
}

func TestAppendTellsSelectorsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawSelector(t), drawSelector(t)
		sa, errA := New(a)
		sb, errB := New(b)
		if string(Append(nil, a)) != string(Append(nil, b)) {
			return
		}
		if (errA == nil) != (errB == nil) || errA == nil && sa.Text() != sb.Text() {
			t.Errorf("%v and %v: want different bytes, got the same", a, b)
		}
	})
}

// BenchmarkMatching is a pod among the selectors of ten thousand workloads.
func BenchmarkMatching(b *testing.B) {
	var x Index[int]
	for i := range 10000 {
		x.Add(Equal(map[string]string{"app": name(i), "tier": name(i % 3)}), i)
	}
	set := map[string]string{"app": name(77), "tier": name(77 % 3), "pod-template-hash": "5d4f", "version": "v1", "team": "a"}
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
}

func name(i int) string {
	return string([]byte{byte('a' + i%26), byte('a' + i/26%26), byte('a' + i/676%26)})
}
