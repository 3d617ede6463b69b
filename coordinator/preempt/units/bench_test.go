package units

import (
	"fmt"
	"testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// BenchmarkVictims finds the victims of a gang of 1,000 in a cluster of 50,000 nodes that are full of 500,000 pods, all of lower
// priority: all that it takes, from the tables on.
func BenchmarkVictims(b *testing.B) {
	tables := make([]*scorer.Table, 64)
	for i := range tables {
		tables[i] = scorer.NewTable(uint32(i))
	}
	const nodes, each = 50_000, 10
	for i := range nodes {
		table, row := tables[i%len(tables)], uint32(i/len(tables))
		apply := func(d *pb.Delta) {
			if err := table.Apply(d); err != nil {
				b.Fatal(err)
			}
		}
		apply(&pb.Delta{Row: row, Change: &pb.Delta_SetNode{SetNode: &pb.Node{
			Name: fmt.Sprint("n", i), AllowedPods: 110, Allocatable: &pb.Resources{MilliCpu: each * 1000, MemoryBytes: each << 30},
		}}})
		for k := range each {
			number := uint64(i*each + k + 1)
			apply(&pb.Delta{Row: row, Change: &pb.Delta_AddPod{AddPod: &pb.PodUsage{Requests: &pb.Resources{MilliCpu: 1000, MemoryBytes: 1 << 30}}},
				Pod: &pb.PlacedPod{Number: number, StartMicros: int64(number * 7919 % 1_000_003)}})
		}
	}
	class, err := scorer.NewClass(&pb.Query{
		ClassId: 1, Filters: []pb.Plugin{pb.Plugin_PLUGIN_NODE_RESOURCES_FIT},
		Fit: &pb.FitQuery{Requests: &pb.Resources{MilliCpu: 4000, MemoryBytes: 1 << 30}},
	})
	if err != nil {
		b.Fatal(err)
	}
	e := scorer.NewEvaluator(nil)
	ask := &scorer.Leaving{Preemption: scorer.Preemption{Priority: 1}, List: true}
	b.Run("may it help", func(b *testing.B) {
		for b.Loop() {
			if x := e.Leavers(tables, []*scorer.Class{class}, &scorer.Leaving{Preemption: scorer.Preemption{Priority: 1}}); x.AtMost != 2*nodes {
				b.Fatal(x.AtMost)
			}
		}
	})
	b.Run("victims", func(b *testing.B) {
		for b.Loop() {
			x := e.Leavers(tables, []*scorer.Class{class}, ask)
			l := New(x.Pods, now, func(*scorer.Leaver) Belongs { return Belongs{} })
			l.Charge(x.BudgetSets, nil)
			if victims := l.Victims(x, 1000); len(victims) < 4000 {
				b.Fatal(len(victims))
			}
		}
	})
}
