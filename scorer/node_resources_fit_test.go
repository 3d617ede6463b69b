package scorer

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func TestBrokenLineEqualsReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := newRandom(rapid.Uint64().Draw(t, "seed")).fit().Shape
		for u, got := range brokenLine(shape) {
			if want := refLine(shape, int64(u)); got != want {
				t.Fatalf("at %d of %v: got %d, want %d", u, shape, got, want)
			}
		}
	})
}

// Amounts that no cluster has are added up and compared as any others, and no score leaves its bounds. Sums beyond 64
// bits may give any verdict, and a hundred times an amount beyond them any score, but nothing breaks: the coordinator
// rules both out, for amounts are 2^55 at the most (package compile).
func TestAbsurdAmounts(t *testing.T) {
	absurd := []int64{0, 1, 100, 1 << 55, math.MaxInt64/100 + 1, math.MaxInt64 - 1, math.MaxInt64}
	e := NewEvaluator(nil)
	for _, capacity := range absurd {
		for _, used := range absurd {
			for _, request := range absurd {
				for strategy := range pb.ScoringType(3) {
					all := func(v int64) *pb.Resources {
						return &pb.Resources{MilliCpu: v, MemoryBytes: v, Scalars: []*pb.ScalarResource{{Name: "x/y", Quantity: v}}}
					}
					table := loadTable(t, 0, []*pb.SnapshotRow{{
						Node:   &pb.Node{Name: "a", AllowedPods: capacity, Allocatable: all(capacity)},
						Totals: &pb.NodeTotals{Pods: used, Requested: all(used), NonZeroMilliCpu: used, NonZeroMemoryBytes: used},
					}})
					scored := []*pb.ScoredResource{{Name: "cpu", Weight: 1, Request: request}, {Name: "x/y", Weight: 100, Request: request}}
					q := &pb.Query{
						ClassId: 1, Filters: filterPlugins(), Scores: scorePlugins(), NodeAffinity: &pb.NodeAffinityQuery{},
						Fit:      &pb.FitQuery{Requests: all(request), ScoringType: strategy + 1, Scored: scored, Shape: []*pb.ShapePoint{{Score: 1}, {Utilization: 50, Score: 9}}},
						Balanced: &pb.BalancedQuery{Scored: append(scored, &pb.ScoredResource{Name: "memory", Weight: 1, Request: request})},
						Images:   &pb.ImageQuery{Containers: 1 << 20, Images: []*pb.ImageTerm{{Name: "a", ScaledBytes: request}, {Name: "a", ScaledBytes: request}}},
					}
					c := newClass(t, q)
					got, row := evaluate(e, table, c, Options{Candidates: 1, Diagnose: true}), judge(e, table, 0, nil, c)
					lacks, scores := len(e.Shortfalls(table, 0, nil, c)), e.Scores(table, 0, nil, c)
					if used > math.MaxInt64-max(request, 1) {
						continue
					}
					fits := used < capacity && (request == 0 || request <= capacity-used) // they are pods, too
					if got.Feasible == 1 != fits || row.Passed != fits || lacks > 0 == fits {
						t.Errorf("%d where %d of %d are in use: got %d rows, %t row by row, and %d shortfalls; want it to fit: %t",
							request, used, capacity, got.Feasible, row.Passed, lacks, fits)
					}
					if len(scores) != len(q.Scores) {
						t.Errorf("got %d scores, want %d", len(scores), len(q.Scores))
					}
					for _, s := range scores {
						if capacity <= math.MaxInt64/maxNodeScore && (s.Raw < 0 || s.Raw > maxNodeScore) {
							t.Errorf("%d where %d of %d are in use: got %d from %s, %v, want 0 to %d",
								request, used, capacity, s.Raw, s.Name(), strategy+1, maxNodeScore)
						}
					}
				}
			}
		}
	}
}

func TestQuantities(t *testing.T) {
	for _, c := range []struct {
		name   string
		amount int64
		want   string
	}{
		{"cpu", 500, "500m"},
		{"cpu", 2000, "2"},
		{"memory", 1023, "1023"},
		{"memory", 1 << 30, "1Gi"},
		{"memory", 1<<30 + 1, "1025Mi"},
		{"memory", 10<<30 + 1, "11Gi"},
		{"ephemeral-storage", 1 << 62, "4096Pi"},
		{"hugepages-2Mi", 4 << 20, "4Mi"},
		{"nvidia.com/gpu", 2048, "2048"},
	} {
		n := resourceRequest{newResourceRef(c.name), 0, false}
		if got := n.quantity(c.amount); got != c.want {
			t.Errorf("%d of %s: got %s, want %s", c.amount, c.name, got, c.want)
		}
	}
}
