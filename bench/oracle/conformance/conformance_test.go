package conformance

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/bench/oracle"
	"github.com/shardsched/shardsched/coordinator/build"
)

func hold(t *testing.T, s *Scenario) *Result {
	t.Helper()
	r, err := Run(klog.NewContext(t.Context(), klog.Logger{}), s, Split{Shards: 3, Batch: 7})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range r.Differences {
		t.Errorf("%s", d)
	}
	return r
}

func round(objects ...oracle.Object) (r Round) {
	for _, obj := range objects {
		r = append(r, set(obj))
	}
	return r
}

// A node that alone has an image, and reports another size for it.
func TestImageThatChangesItsSize(t *testing.T) {
	node := func(name string, size int64) *v1.Node {
		b := build.Node(name).CPU("4").Memory("8Gi")
		if size > 0 {
			b.Image(size, "x:latest")
		}
		return b.Obj()
	}
	r := hold(t, &Scenario{Rounds: []Round{
		round(node("a", 500<<20), node("b", 0)),
		round(node("a", 1000<<20)),
		round(build.Pod("p").Image("x").Obj()),
	}})
	if r.Decisions != 1 {
		t.Errorf("got %d decisions, want 1", r.Decisions)
	}
}

// Random scenarios: of every kind that Random makes (see there), with batches and shards of
// several sizes.
func TestRandomScenarios(t *testing.T) {
	decisions := 0
	for seed := uint64(1); seed <= 500 && !t.Failed(); seed++ {
		s := Random(seed, 40, Evaluated())
		r, err := Run(klog.NewContext(t.Context(), klog.Logger{}), s, SplitOf(seed))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, d := range r.Differences {
			t.Errorf("seed %d: %s", seed, d)
		}
		decisions += r.Decisions
	}
	t.Logf("%d decisions", decisions)
}
