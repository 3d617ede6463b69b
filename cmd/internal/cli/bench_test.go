package cli

import (
	"testing"

	"github.com/shardsched/shardsched/cmd/internal/openb"
	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// BenchmarkSimulateDemo decides the demo's 8,152 pods on its 1,523 nodes, with two
// workers on loopback.
func BenchmarkSimulateDemo(b *testing.B) {
	nodes, pods := openb.Objects(openb.Demo(1))
	for _, p := range pods {
		objects.Default(p)
	}
	in := &Input{Nodes: nodes, Pods: pods}
	create(in)
	b.ReportAllocs()
	for b.Loop() {
		sum, err := (simulation{sharding: Sharding{Cluster: "bench", Workers: 2}}).run(b.Context(), in, func(*pb.Summary) {})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(sum.DecidedPerSecond, "decided/s")
	}
}
