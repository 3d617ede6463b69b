package count

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// A pod that is being deleted departs with what it would add otherwise, but for what it
// adds in any case.
func TestDepartingPods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := New()
		for range rapid.IntRange(0, 8).Draw(t, "counters") {
			s := mustSelector(t, drawSelector(t))
			if rapid.Bool().Draw(t, "spread") {
				r.Spread(drawNamespace(t), s)
			} else {
				r.Pods(Namespaces{Names: []string{drawNamespace(t)}}, s)
			}
		}
		p := drawPod(t)
		p.DeletionTimestamp = nil
		if got := r.Departing(p); len(got) > 0 {
			t.Fatalf("a pod that stays: got %v", got)
		}
		want := map[uint32]int64{}
		for _, v := range r.Contributions(p) {
			want[v.Counter] = v.Value
		}
		p.DeletionTimestamp = &metav1.Time{}
		for _, v := range r.Contributions(p) {
			delete(want, v.Counter)
		}
		got := r.Departing(p)
		last := &pb.CounterValue{}
		for _, v := range got {
			if want[v.Counter] != v.Value || v.Counter <= last.Counter {
				t.Fatalf("got %v, want %v in order", got, want)
			}
			last = v
		}
		if len(got) != len(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}
