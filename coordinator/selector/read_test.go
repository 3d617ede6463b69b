package selector

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzRead holds what is read here against apimachinery.
func FuzzRead(f *testing.F) {
	long := strings.Repeat("x", 63)
	subdomain := strings.Repeat("x.", 126) + "x"
	for _, key := range []string{"", "a", "a_b.C-d", "-a", "a-", "a b", "é", "/a", "a/", "a/b", "a.b/c", "A.b/c", "a..b/c", "a-.b/c", "a/b/c", long, long + "x", subdomain + "/a", subdomain + "x/a", "a/" + long + "x"} {
		for _, value := range []string{"", "v", "V-_.1", "_v", "v.", "v/w", "v\n", long, long + "x"} {
			f.Add(key, value, byte(len(key)+len(value)))
		}
	}
	operators := []metav1.LabelSelectorOperator{
		metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist, "in", "Is",
	}
	f.Fuzz(func(t *testing.T, key, value string, kind byte) {
		expression := metav1.LabelSelectorRequirement{Key: key, Operator: operators[int(kind>>2)%len(operators)]}
		for i := range kind % 4 {
			expression.Values = append(expression.Values, []string{value, "v", value}[i])
		}
		for _, s := range []*metav1.LabelSelector{
			{MatchLabels: map[string]string{key: value}},
			{MatchExpressions: []metav1.LabelSelectorRequirement{expression}},
			{MatchLabels: map[string]string{key: value, "k": "v"}, MatchExpressions: []metav1.LabelSelectorRequirement{expression, {Key: "k", Operator: "Exists"}}},
		} {
			want, err := parse(s)
			list, valid := read(s)
			if valid != (err == nil) {
				t.Fatalf("%+v: read here: %v, apimachinery: %v", s, valid, err)
			}
			if valid && of(list).Text() != want.Text() {
				t.Errorf("%+v: got %q, want %q", s, of(list).Text(), want.Text())
			}
		}
	})
}

func TestReadingASelectorLeavesItAsItIs(t *testing.T) {
	values := []string{"z", "a"}
	s := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: metav1.LabelSelectorOpIn, Values: values}}}
	if _, err := New(s); err != nil || values[0] != "z" {
		t.Errorf("got values %q, %v; want them in the order that they had", values, err)
	}
}
