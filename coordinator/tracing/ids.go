package tracing

import (
	"context"
	"encoding/binary"

	"go.opentelemetry.io/otel/trace"
)

// IDs names spans, and lets those that were told to others before they are made keep their
// names. A TracerProvider's option sdktrace.WithIDGenerator takes it.
type IDs struct {
	// Random gives any number.
	Random func() uint64
}

type idsKey struct{}

// named are the ids of the next span under a context.
type named struct {
	trace trace.TraceID
	span  trace.SpanID
}

// take gives the span's id once: spans below it have ids of their own.
func (n *named) take() trace.SpanID {
	id := n.span
	n.span = trace.SpanID{}
	return id
}

// withIDs names the next span under ctx.
func withIDs(ctx context.Context, c trace.SpanContext) context.Context {
	return context.WithValue(ctx, idsKey{}, &named{c.TraceID(), c.SpanID()})
}

// NewIDs names a trace's first span.
func (g IDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if n, _ := ctx.Value(idsKey{}).(*named); n != nil && n.span.IsValid() {
		return n.trace, n.take()
	}
	return g.traceID(), g.spanID()
}

// NewSpanID names a span of a trace.
func (g IDs) NewSpanID(ctx context.Context, id trace.TraceID) trace.SpanID {
	if n, _ := ctx.Value(idsKey{}).(*named); n != nil && n.trace == id && n.span.IsValid() {
		return n.take()
	}
	return g.spanID()
}

func (g IDs) traceID() (id trace.TraceID) {
	for !id.IsValid() {
		binary.BigEndian.PutUint64(id[:8], g.Random())
		binary.BigEndian.PutUint64(id[8:], g.Random())
	}
	return id
}

func (g IDs) spanID() (id trace.SpanID) {
	for !id.IsValid() {
		binary.BigEndian.PutUint64(id[:], g.Random())
	}
	return id
}
