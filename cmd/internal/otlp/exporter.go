package otlp

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// tellEvery is how often failures are logged.
const tellEvery = time.Minute

// counted is an exporter that counts, and tells of failures now and then.
type counted struct {
	sdktrace.SpanExporter
	clock        clock.PassiveClock
	sent, failed prometheus.Counter

	mu   sync.Mutex
	told time.Time
}

func newCounted(e sdktrace.SpanExporter, c clock.PassiveClock, r prometheus.Registerer) *counted {
	spans := promauto.With(r).NewCounterVec(prometheus.CounterOpts{
		Name: "shardsched_spans_total", Help: "Spans that the collector took (sent) or did not take (failed).",
	}, []string{"result"})
	return &counted{SpanExporter: e, clock: c, sent: spans.WithLabelValues("sent"), failed: spans.WithLabelValues("failed")}
}

// ExportSpans implements sdktrace.SpanExporter. Its errors end here.
func (x *counted) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := x.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		x.sent.Add(float64(len(spans)))
		return nil
	}
	x.failed.Add(float64(len(spans)))
	x.mu.Lock()
	defer x.mu.Unlock()
	if now := x.clock.Now(); x.told.IsZero() || now.Sub(x.told) >= tellEvery {
		x.told = now
		klog.FromContext(ctx).Error(err, "The collector does not take spans", "spans", len(spans))
	}
	return nil
}

// labelled tells the services of a process apart.
func labelled(r prometheus.Registerer, service string) prometheus.Registerer {
	if r == nil {
		return nil
	}
	return prometheus.WrapRegistererWith(prometheus.Labels{"service": service}, r)
}
