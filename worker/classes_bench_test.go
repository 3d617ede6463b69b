package worker

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/scan"
)

// BenchmarkResolve is a request with 32 classes that nobody has asked for before.
func BenchmarkResolve(b *testing.B) {
	const batch = 32
	c := newClassCache(4096, newMetrics(prometheus.NewRegistry()))
	req := &pb.EvaluateRequest{Cluster: "c", Rules: scan.Rules(), Term: 7}
	for range batch {
		req.Queries = append(req.Queries, plainQuery())
		req.Classes, req.Candidates = append(req.Classes, &pb.ClassRequest{}), append(req.Candidates, 40)
	}
	b.ReportAllocs()
	for id := uint64(1); b.Loop(); id += batch {
		for i := range req.Queries {
			req.Queries[i].ClassId, req.Classes[i].ClassId = id+uint64(i), id+uint64(i)
		}
		asks, _, missing, err := c.resolve(req)
		if err != nil || len(asks) != batch || len(missing) != 0 {
			b.Fatal(fmt.Sprint(len(asks), missing, err))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/class")
}

// plainQuery is what a pod asks that names nothing but cpu and memory.
func plainQuery() *pb.Query {
	scored := []*pb.ScoredResource{{Name: "cpu", Weight: 1, Request: 100}, {Name: "memory", Weight: 1, Request: 100 << 20}}
	return &pb.Query{
		Filters: []pb.Plugin{pb.Plugin_PLUGIN_NODE_UNSCHEDULABLE, pb.Plugin_PLUGIN_TAINT_TOLERATION, pb.Plugin_PLUGIN_NODE_RESOURCES_FIT},
		Scores: []*pb.ScoreWeight{
			{Plugin: pb.Plugin_PLUGIN_TAINT_TOLERATION, Weight: 3},
			{Plugin: pb.Plugin_PLUGIN_NODE_RESOURCES_FIT, Weight: 1},
			{Plugin: pb.Plugin_PLUGIN_NODE_RESOURCES_BALANCED_ALLOCATION, Weight: 1},
		},
		Fit: &pb.FitQuery{
			Requests:    &pb.Resources{MilliCpu: 100, MemoryBytes: 100 << 20},
			ScoringType: pb.ScoringType_SCORING_TYPE_LEAST_ALLOCATED, Scored: scored,
		},
		Balanced: &pb.BalancedQuery{Scored: scored},
	}
}
