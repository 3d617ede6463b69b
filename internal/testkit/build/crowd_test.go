package build

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEqualSourcesGiveEqualCrowds(t *testing.T) {
	for seed := range uint64(50) {
		size := CrowdSize{Nodes: 5, Present: 4, Pending: 10, Kinds: 3, Nominated: 20, Claims: seed%2 == 0}
		a := Crowd(rand.New(rand.NewPCG(seed, 1)), size)
		b := Crowd(rand.New(rand.NewPCG(seed, 1)), size)
		if d := cmp.Diff(a, b); d != "" {
			t.Fatalf("seed %d (-first +second):\n%s", seed, d)
		}
		if len(a.Nodes) != 5 || len(a.Present) != 4 || len(a.Pending) != 10 {
			t.Fatalf("seed %d: got %d nodes, %d pods there, %d pods to come; want 5, 4, 10", seed, len(a.Nodes), len(a.Present), len(a.Pending))
		}
		names := map[string]bool{}
		for _, p := range append(a.Present, a.Pending...) {
			if names[p.Name] {
				t.Fatalf("seed %d: two pods %s", seed, p.Name)
			}
			names[p.Name] = true
		}
	}
}
