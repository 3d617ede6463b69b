package count

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/build"
)

// What is kept of the affinities that pods carry is bounded in bytes, and what one adds is the same after it
// made room.
func TestAffinitiesAreBoundedInBytes(t *testing.T) {
	carrier := func(i int) *v1.Pod {
		values := make([]string, 10_000)
		for k := range values {
			values[k] = fmt.Sprintf("%s-%03d-%05d", strings.Repeat("x", 40), i, k)
		}
		p := build.Pod("p").Obj()
		p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "In", Values: values}}},
		}}}}
		return p
	}
	r, first := New(), carrier(0)
	r.Observe(first)
	want := fmt.Sprint(r.Contributions(first))
	for i := 1; i < 80; i++ {
		r.Observe(carrier(i))
		sum := 0
		for key := range r.terms.carried {
			sum += len(key)
		}
		if sum > keptAffinityBytes || r.terms.carriedBytes < sum {
			t.Fatalf("after %d pods: got keys of %d bytes, counted as %d, want at most %d", i+1, sum, r.terms.carriedBytes, keptAffinityBytes)
		}
	}
	if n := len(r.terms.carried); n == 0 || n >= 80 {
		t.Errorf("got %d of 80 affinities, want some to have made room", n)
	}
	if got := fmt.Sprint(r.Contributions(first)); got != want {
		t.Errorf("what the first pod adds: got %s, want %s", got, want)
	}
}
