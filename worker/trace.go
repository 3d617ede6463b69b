package worker

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/scan"
)

// instrumentation names the worker's tracer.
const instrumentation = "github.com/shardsched/shardsched/worker"

// traced are the times of a request whose sender wants spans of it; nil: it wants none.
type traced struct {
	server *Server
	ctx    context.Context // the sender's span is in it
	req    *pb.EvaluateRequest
	start  time.Time
	// The shards are at their generations, and the scan has ended; zero: it did not come to
	// that.
	applied, scanned time.Time
	passes           []scan.Pass // of the class that is traced
	rows             int
}

// trace begins the spans of a request where its metadata carry a sampled traceparent, and the
// worker has somewhere to send spans to.
func (s *Server) trace(ctx context.Context, req *pb.EvaluateRequest, start time.Time) *traced {
	if s.tracer == nil {
		return nil
	}
	header := metadata.ValueFromIncomingContext(ctx, "traceparent")
	if len(header) == 0 {
		return nil
	}
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": header[0]})
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return nil
	}
	return &traced{server: s, ctx: ctx, req: req, start: start}
}

// ready notes that the shards are at their generations.
func (t *traced) ready() {
	if t != nil {
		t.applied = t.server.clock.Now()
	}
}

// answered notes the end of the scan, and keeps what the traced class's plugins did.
func (t *traced) answered(answers []scan.Answer) {
	if t == nil {
		return
	}
	t.scanned = t.server.clock.Now()
	for i, c := range t.req.GetClasses() {
		if c.GetTrace() {
			t.passes = append(t.passes, answers[i].Passes...)
			t.rows += answers[i].Result.Rows
		}
	}
}

// finish makes the spans.
func (t *traced) finish(err error) {
	if t == nil {
		return
	}
	deltas := 0
	for _, s := range t.req.GetShards() {
		deltas += len(s.GetDeltas())
	}
	ctx, span := t.server.tracer.Start(t.ctx, pb.WorkerService_ServiceDesc.ServiceName+"/Evaluate",
		trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(t.start), trace.WithAttributes(
			attribute.String("rpc.system", "grpc"),
			attribute.String("shardsched.worker", t.server.cfg.ID),
			attribute.String("shardsched.cluster", t.req.GetCluster()),
			attribute.Int64("shardsched.term", int64(t.req.GetTerm())),
			attribute.Int("shardsched.shards.count", len(t.req.GetShards())),
			attribute.Int("shardsched.deltas", deltas),
			attribute.Int("shardsched.classes", len(t.req.GetClasses())),
			attribute.Int("shardsched.rows", t.rows),
		))
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	if !t.applied.IsZero() {
		t.span(ctx, "apply deltas", t.start, t.applied)
	}
	if !t.scanned.IsZero() {
		scan.Lay(t.passes, t.applied, t.scanned, func(p *scan.Pass, from, to time.Time) { t.plugin(ctx, p, from, to) })
	}
	span.End(trace.WithTimestamp(t.server.clock.Now()))
}

func (t *traced) plugin(ctx context.Context, p *scan.Pass, from, to time.Time) {
	plugin, point := pluginLabel(p.Plugin), pointLabel(p.Point)
	t.span(ctx, point+" "+plugin, from, to,
		attribute.String("shardsched.plugin", plugin),
		attribute.String("shardsched.extension_point", point),
		attribute.Int64("shardsched.rows_in", int64(p.RowsIn)),
		attribute.Int64("shardsched.rows_out", int64(p.RowsOut)),
		attribute.Int64("shardsched.busy_ns", p.Took.Nanoseconds()))
}

// span makes a span whose times are known.
func (t *traced) span(ctx context.Context, name string, from, to time.Time, attributes ...attribute.KeyValue) {
	_, s := t.server.tracer.Start(ctx, name, trace.WithTimestamp(from), trace.WithAttributes(attributes...))
	s.End(trace.WithTimestamp(to))
}
