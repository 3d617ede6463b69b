package otlp

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/utils/clock"

	"github.com/shardsched/shardsched/coordinator/tracing"
)

const (
	// queuedSpans wait for a batch at the most, batchSpans make one, which waits for others
	// no longer than batchAge.
	queuedSpans = 16384
	batchSpans  = 1024
	batchAge    = time.Second
	// patience is how long a process that ends waits for its collector.
	patience = 3 * time.Second
)

// Service names a process to the collector.
type Service struct {
	Name, Instance, Version string
}

// Worker is a provider for a worker, and what sends its last spans; both are nil-safe to use
// where tracing is off: the provider is nil then.
func (c Config) Worker(ctx context.Context, s Service, r prometheus.Registerer) (trace.TracerProvider, func(), error) {
	if !c.Enabled {
		return nil, func() {}, nil
	}
	p, err := c.provider(ctx, s, r)
	if err != nil {
		return nil, nil, err
	}
	return p, func() { shutdown(p) }, nil
}

// Coordinator is a tracer for a coordinator, nil where tracing is off, and what sends its last
// spans. It works until then.
func (c Config) Coordinator(ctx context.Context, s Service, r prometheus.Registerer) (*tracing.Tracer, func(), error) {
	if !c.Enabled {
		return nil, func() {}, nil
	}
	p, err := c.provider(ctx, s, r, sdktrace.WithBlocking())
	if err != nil {
		return nil, nil, err
	}
	t := tracing.New(tracing.Config{Provider: p, Ratio: c.Ratio, Slow: c.Slow, Random: rand.Uint64, Registerer: r})
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t.Run(ctx)
	}()
	return t, func() {
		cancel()
		late := time.NewTimer(patience)
		defer late.Stop()
		select {
		case <-ended:
		case <-late.C:
			// The collector takes nothing: what is left is dropped by the shutdown.
		}
		shutdown(p)
		<-ended
	}, nil
}

// provider keeps and sends all that it is given.
func (c Config) provider(ctx context.Context, s Service, r prometheus.Registerer,
	options ...sdktrace.BatchSpanProcessorOption) (*sdktrace.TracerProvider, error) {
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", s.Name),
		attribute.String("service.instance.id", s.Instance),
		attribute.String("service.version", s.Version),
	))
	if err != nil {
		return nil, fmt.Errorf("tracing as %s: %w", s.Name, err)
	}
	made := []sdktrace.TracerProviderOption{
		sdktrace.WithSampler(sdktrace.AlwaysSample()),
		sdktrace.WithIDGenerator(tracing.IDs{Random: rand.Uint64}),
		sdktrace.WithResource(about),
	}
	if c.Kept != nil {
		made = append(made, sdktrace.WithSpanProcessor(c.Kept))
	}
	if !c.Local {
		exporter, err := c.exporter(ctx)
		if err != nil {
			return nil, err
		}
		options = append(options, sdktrace.WithMaxQueueSize(queuedSpans), sdktrace.WithMaxExportBatchSize(batchSpans),
			sdktrace.WithBatchTimeout(batchAge))
		made = append(made, sdktrace.WithBatcher(newCounted(exporter, clock.RealClock{}, labelled(r, s.Name)), options...))
	}
	return sdktrace.NewTracerProvider(made...), nil
}

// exporter sends spans to the collector.
func (c Config) exporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	to, err := transport()
	if err != nil {
		return nil, err
	}
	if c.Endpoint != "" {
		to = append(to, otlptracegrpc.WithEndpoint(c.Endpoint))
	}
	exporter, err := otlptracegrpc.New(ctx, to...)
	if err != nil {
		return nil, fmt.Errorf("tracing to %s: %w", c.Endpoint, err)
	}
	return exporter, nil
}

// shutdown sends what is left, as far as the collector takes it soon.
func shutdown(p *sdktrace.TracerProvider) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// What it has to tell was told by the exporter.
	_ = p.Shutdown(ctx)
}
