package coordinator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/tracing"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// discard takes spans as a processor that exports them would.
type discard struct{ n int }

func (d *discard) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (d *discard) OnEnd(sdktrace.ReadOnlySpan)                     { d.n++ }
func (d *discard) Shutdown(context.Context) error                  { return nil }
func (d *discard) ForceFlush(context.Context) error                { return nil }

// BenchmarkTracing is what tracing costs the scheduling of 4,096 pods of 8 classes in batches
// of 512 on 1,000 nodes: off, on without ever keeping a trace, and keeping some.
func BenchmarkTracing(b *testing.B) {
	const nodes, pods = 1000, 4096
	all := &objects.Snapshot{}
	for i := range nodes {
		all.Nodes = append(all.Nodes, build.Node(fmt.Sprintf("n%d", i)).CPU("32").Memory("128Gi").Pods("110").Obj())
	}
	for i := range pods {
		all.Pods = append(all.Pods, build.Pod(fmt.Sprintf("p%d", i)).UID(fmt.Sprint(i)).CPU(fmt.Sprintf("%dm", 100+i%8*100)).Memory("1Gi").Obj())
	}
	run := func(b *testing.B, ratio float64) {
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			cfg := SchedulerConfig{Cluster: "c", Term: 1, Shards: 4}
			ctx, cancel := context.WithCancel(b.Context())
			served := make(chan error, 2)
			if ratio >= 0 {
				provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(&discard{}), sdktrace.WithIDGenerator(tracing.IDs{Random: rand.Uint64}))
				cfg.Tracer = tracing.New(tracing.Config{Provider: provider, Ratio: ratio, Random: rand.Uint64})
				go func() { served <- cfg.Tracer.Run(ctx) }()
			} else {
				served <- nil
			}
			s := benchScheduler(b, cfg, all)
			b.StartTimer()
			go func() { served <- s.Run(ctx) }()
			if err := s.Idle(ctx); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			cancel()
			<-served
			<-served
			b.StartTimer()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/pods, "ns/pod")
	}
	for _, x := range []struct {
		name  string
		ratio float64
	}{{"off", -1}, {"never-sampled", 0}, {"1-percent", 0.01}, {"100-percent", 1}} {
		b.Run(x.name, func(b *testing.B) { run(b, x.ratio) })
	}
}

// benchScheduler has the objects, and is not run yet.
func benchScheduler(b *testing.B, cfg SchedulerConfig, all *objects.Snapshot) *Scheduler {
	b.Helper()
	s, err := NewScheduler(cfg)
	if err != nil {
		b.Fatal(err)
	}
	own := *all
	own.Pods = append([]*v1.Pod(nil), all.Pods...)
	s.Load(&own, nil)
	return s
}
