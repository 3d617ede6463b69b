package count

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/selector"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// A pod departs with what Spread counters leave out of it: all of them while it is being deleted,
// those without a selector in any case.
func TestDepartingPods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := New()
		type spread struct {
			id        uint32
			namespace string
			selector  *selector.Selector
		}
		var list []spread
		for range rapid.IntRange(0, 8).Draw(t, "counters") {
			s := mustSelector(t, drawSelector(t))
			if ns := drawNamespace(t); rapid.Bool().Draw(t, "spread") {
				list = append(list, spread{r.Spread(ns, s), ns, s})
			} else {
				r.Pods(Namespaces{Names: []string{ns}}, s)
			}
		}
		p := drawPod(t)
		want := map[uint32]int64{}
		for _, x := range list {
			if x.id != 0 && x.namespace == p.Namespace && x.selector.Matches(p.Labels) && (p.DeletionTimestamp != nil || x.selector.Empty()) {
				want[x.id] = 1
			}
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
