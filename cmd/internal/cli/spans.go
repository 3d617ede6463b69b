package cli

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"

	"github.com/shardsched/shardsched/cmd/internal/otlp"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/tracing"
)

// Names of the services, as a collector shows them.
const (
	coordinatorService = "shardsched-coordinator"
	workerService      = "shardsched-worker"
)

// spans are what a process with a scheduler traces with. Where tracing is off its parts are
// nil.
type spans struct {
	tracer  *tracing.Tracer
	workers trace.TracerProvider // of the workers in this process
	kept    *otlp.Kept           // what `shardsched trace` shows
	stop    func()               // sends what is left
}

// startSpans starts what the options ask for.
func startSpans(ctx context.Context, o otlp.Options, instance string, r prometheus.Registerer) (*spans, error) {
	c, err := o.Load()
	if err != nil {
		return nil, usageError{err}
	}
	if c.Enabled {
		c.Kept = otlp.NewKept()
	}
	tracer, stopTracer, err := c.Coordinator(ctx, otlp.Service{Name: coordinatorService, Instance: instance, Version: Version()}, r)
	if err != nil {
		return nil, err
	}
	workers, stopWorkers, err := c.Worker(ctx, otlp.Service{Name: workerService, Instance: instance, Version: Version()}, r)
	if err != nil {
		stopTracer()
		return nil, err
	}
	return &spans{tracer: tracer, workers: workers, kept: c.Kept, stop: func() { stopTracer(); stopWorkers() }}, nil
}

// dialOptions are what requests to workers need for it.
func (s *spans) dialOptions() []grpc.DialOption {
	if s.tracer == nil {
		return nil
	}
	return []grpc.DialOption{grpc.WithStatsHandler(fanout.WireStats{})}
}
