package shardschedv1

import (
	"fmt"
	"testing"
)

// BenchmarkValidateDeltas is a round's usual freight: placements.
func BenchmarkValidateDeltas(b *testing.B) {
	const n = 1000
	s := &ShardDeltas{Generation: n}
	for range n {
		s.Deltas = append(s.Deltas, addPod())
	}
	r := &EvaluateRequest{Cluster: "c", Term: 1, Shards: []*ShardDeltas{s}}
	benchmark(b, r, n, "ns/delta")
}

// BenchmarkValidateSnapshot is a chunk of rows with labels and images as clusters have them.
func BenchmarkValidateSnapshot(b *testing.B) {
	const n = 1000
	r := &LoadSnapshotRequest{}
	for i := range n {
		node := &Node{Name: fmt.Sprintf("node-%d", i), Allocatable: &Resources{MilliCpu: 64000}}
		for l := range 15 {
			node.Labels = append(node.Labels, &Label{Key: fmt.Sprintf("example.com/label-%02d", l), Value: "value"})
		}
		for l := range 10 {
			node.Images = append(node.Images, fmt.Sprintf("registry.example.com/team/image-%02d:v1", l))
		}
		r.Rows = append(r.Rows, &SnapshotRow{Row: uint32(i), Node: node, Totals: validTotals()})
	}
	benchmark(b, r, n, "ns/row")
}

// BenchmarkValidateQuery is the definition of one class.
func BenchmarkValidateQuery(b *testing.B) { benchmark(b, validQuery(), 1, "ns/query") }

func benchmark(b *testing.B, m message, n int, unit string) {
	b.ReportAllocs()
	for b.Loop() {
		if err := m.Validate(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), unit)
}
