package scorer

import (
	"fmt"
	"testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// fullTable is so many nodes that are full of pods of several priorities.
func fullTable(b testing.TB, shard uint32, nodes, pods int) *Table {
	t := NewTable(shard)
	number := uint64(shard) << 32
	for i := range nodes {
		row := uint32(i)
		n := &pb.Node{
			Name: fmt.Sprintf("node-%d-%d", shard, i), AllowedPods: 110,
			Allocatable: &pb.Resources{MilliCpu: int64(pods) * 500, MemoryBytes: int64(pods) << 30},
			Labels:      []*pb.Label{{Key: "kubernetes.io/hostname", Value: fmt.Sprintf("node-%d-%d", shard, i)}, {Key: "zone", Value: fmt.Sprint("z", i%3)}},
		}
		if err := t.Apply(&pb.Delta{Row: row, Change: &pb.Delta_SetNode{SetNode: n}}); err != nil {
			b.Fatal(err)
		}
		for k := range pods {
			number++
			u := &pb.PodUsage{Requests: &pb.Resources{MilliCpu: 500, MemoryBytes: 1 << 30}, NonZeroMilliCpu: 500, NonZeroMemoryBytes: 1 << 30}
			if k%3 == 0 {
				u.Counters = []*pb.CounterValue{{Counter: uint32(1 + k%2), Value: 1}}
			}
			p := &pb.PlacedPod{Number: number, Priority: int32((i*7 + k) % 5 * 10), StartMicros: int64(1 + (i*31+k*17)%1000)}
			if k%4 == 0 {
				p.Budgets = []uint32{uint32(1 + k%8)}
			}
			if err := t.Apply(&pb.Delta{Row: row, Change: &pb.Delta_AddPod{AddPod: u}, Pod: p}); err != nil {
				b.Fatal(err)
			}
		}
	}
	return t
}

// preemptors are pods for which every row of fullTable is tried.
func preemptors() map[string]*pb.Query {
	resources := &pb.Query{
		ClassId: 1, Filters: append(filterPlugins(), volumeFilters()...), NodeAffinity: &pb.NodeAffinityQuery{},
		Fit: &pb.FitQuery{Requests: &pb.Resources{MilliCpu: 1200, MemoryBytes: 2 << 30}, ScoringType: pb.ScoringType_SCORING_TYPE_LEAST_ALLOCATED},
	}
	resources.VolumeRestrictions, resources.VolumeLimits, resources.VolumeBinding = &pb.VolumeRestrictionsQuery{}, &pb.VolumeLimitsQuery{}, &pb.VolumeBindingQuery{}
	groups := &pb.Query{
		ClassId: 2, Filters: append(filterPlugins(), pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD, pb.Plugin_PLUGIN_INTER_POD_AFFINITY), NodeAffinity: &pb.NodeAffinityQuery{},
		Fit: resources.Fit,
	}
	spec := &groupSpec{
		hard: []spreadSpec{{key: "zone", counter: 1, maxSkew: 1, minDomains: 1, self: true}},
		anti: []affinitySpec{{key: "kubernetes.io/hostname", counters: counting(2)}},
	}
	compileGroups(spec, groups, func(key string) bool { return key == "kubernetes.io/hostname" }, false)
	return map[string]*pb.Query{"resources": resources, "spread and anti-affinity": groups}
}

// BenchmarkPreempt is a dry run over 5,000 full nodes of 30 pods, on one core.
func BenchmarkPreempt(b *testing.B) {
	table := fullTable(b, 0, 5000, 30)
	for name, q := range preemptors() {
		b.Run(name, func(b *testing.B) {
			e, c := NewEvaluator(nil), newClass(b, q)
			p := &Preemption{Priority: 1000, NowMicros: 5000, Budgets: []Budget{{1, 0}, {5, 3}}, Whole: evaluate(e, table, c, Options{Candidates: 1})}
			var r PreemptionResult
			b.ReportAllocs()
			for b.Loop() {
				r.Reset(c.ID(), 1)
				e.Preempt(table, c, p, &r)
			}
			if r.Tried != 5000 || r.Best() == nil {
				b.Fatalf("got %d tried, best %v", r.Tried, r.Best())
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/5000, "ns/row")
		})
	}
	b.Run("resources, units on each row", func(b *testing.B) {
		units := refUnits{of: map[uint64]*Unit{}, on: map[string]bool{}}
		for row := range table.All() {
			units.on[table.Name(row)] = true
			for i, p := range table.placed.ofRow[row] {
				if i%10 == 0 {
					units.of[p.number] = &Unit{Priority: 10, Pods: 5000, Start: 1}
				}
			}
		}
		e, c := NewEvaluator(nil), newClass(b, preemptors()["resources"])
		p := &Preemption{Priority: 1000, NowMicros: 5000, Budgets: []Budget{{1, 0}, {5, 3}}, Units: units}
		var r PreemptionResult
		b.ReportAllocs()
		for b.Loop() {
			r.Reset(c.ID(), 1)
			e.Preempt(table, c, p, &r)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/5000, "ns/row")
	})
	b.Run("bytes a pod", func(b *testing.B) {
		for b.Loop() {
		}
		b.ReportMetric(float64(table.placed.memory())/150000, "B/pod")
	})
}
