package tracing

import (
	"cmp"
	"context"
	"net"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/scan"
)

// The names of requests. The first is that of both its spans: the client's and the server's.
const (
	evaluateMethod = "shardsched.v1.WorkerService/Evaluate"
	snapshotMethod = "shardsched.v1.WorkerService/LoadSnapshot"
)

// shown is how many shards a span names.
const shown = 64

// span makes a span whose times are known, and gives the context of those below it.
func (t *Tracer) span(ctx context.Context, name string, when interval, options ...trace.SpanStartOption) context.Context {
	ctx, s := t.tracer.Start(ctx, name, append(options, trace.WithTimestamp(when.from))...)
	s.End(trace.WithTimestamp(when.to))
	return ctx
}

// emit makes the spans of a kept attempt.
func (t *Tracer) emit(a *Attempt) {
	start := a.queued
	if start.IsZero() || start.After(a.batch.start) {
		start = a.batch.start
	}
	above, options := t.above(a)
	ctx, root := t.tracer.Start(withIDs(above, a.span), "schedule",
		append(options, trace.WithTimestamp(start), trace.WithAttributes(a.attributes()...))...)
	if a.err != nil {
		root.SetStatus(codes.Error, a.err.Error())
	}
	t.span(ctx, "queue", interval{start, a.batch.start})
	t.stage(ctx, a, Compile)
	t.batchFanOut(ctx, a)
	merging := t.stage(ctx, a, Merge)
	for _, r := range a.again {
		t.fanOut(merging, a, r, r.Parent)
	}
	for s := Merge + 1; s < stages; s++ {
		t.stage(ctx, a, s)
	}
	root.End(trace.WithTimestamp(a.end))
}

// attributes tell of the whole attempt.
func (a *Attempt) attributes() []attribute.KeyValue {
	list := []attribute.KeyValue{
		attribute.String("k8s.namespace.name", a.pod.Namespace),
		attribute.String("k8s.pod.name", a.pod.Name),
		attribute.String("k8s.pod.uid", string(a.pod.UID)),
		attribute.String("shardsched.profile", a.pod.Spec.SchedulerName),
		attribute.Int("shardsched.attempt", a.number),
		attribute.Int("shardsched.batch.size", len(a.batch.attempts)),
		attribute.String("shardsched.result", a.result.name()),
		attribute.String("shardsched.kept", a.why),
	}
	if class := cmp.Or(a.class, a.held); class != 0 {
		list = append(list, attribute.String("shardsched.class", classID(class)))
	}
	if a.held != 0 {
		list = append(list, attribute.Bool("shardsched.held", true))
	}
	d := a.decision
	if d == nil {
		return list
	}
	list = append(list, attribute.Int64("shardsched.decision", int64(d.Seq)), attribute.Int64("shardsched.nodes", int64(d.Nodes)),
		attribute.Int64("shardsched.feasible", int64(d.Feasible)))
	if d.Node != "" {
		list = append(list, attribute.String("k8s.node.name", d.Node), attribute.Int64("shardsched.score", d.Score))
	}
	if d.Message != "" {
		list = append(list, attribute.String("shardsched.message", d.Message))
	}
	return list
}

func classID(id uint64) string { return strconv.FormatUint(id, 16) }

// stage makes the span of a stage that the attempt came to.
func (t *Tracer) stage(ctx context.Context, a *Attempt, s Stage) context.Context {
	if a.times[s].from == 0 {
		return ctx
	}
	when := a.batch.at(a.times[s])
	if when.to.Before(when.from) {
		when.to = a.end
	}
	return t.span(ctx, s.name(), when)
}

// batchFanOut tells of the batch's fan-out, and of the wait for one's turn after it.
func (t *Tracer) batchFanOut(ctx context.Context, a *Attempt) {
	b := a.batch
	if b.fanout == nil || a.class == 0 {
		return
	}
	start, end := b.fanout.Times()
	if end.IsZero() {
		return
	}
	if merge := a.batch.at(a.times[Merge]); a.times[Merge].from != 0 && merge.from.After(end) {
		defer t.span(ctx, "turn", interval{end, merge.from})
	}
	if b.owner == nil {
		b.owner, b.fanoutSpan = a, a.child()
	}
	if b.owner == a {
		t.fanOut(ctx, a, b.fanout, b.fanoutSpan)
		return
	}
	ctx = t.span(ctx, "fan-out", interval{start, end},
		trace.WithLinks(trace.Link{SpanContext: b.fanoutSpan.WithTraceFlags(trace.FlagsSampled)}),
		trace.WithAttributes(attribute.Bool("shardsched.shared", true)))
	var passes []scan.Pass
	for _, c := range b.fanout.Calls() {
		if own := c.Class(a.class); own != nil {
			own.AddPasses(&passes)
		}
	}
	t.plugins(ctx, passes, interval{start, end})
}

// fanOut makes the spans of a fan-out that the attempt owns.
func (t *Tracer) fanOut(ctx context.Context, a *Attempt, r *fanout.Record, id trace.SpanContext) {
	start, end := r.Times()
	if end.IsZero() {
		return
	}
	calls := r.Calls()
	ctx = t.span(withIDs(ctx, id), "fan-out", interval{start, end}, trace.WithAttributes(attribute.Int("shardsched.calls", len(calls))))
	for i := range calls {
		t.call(ctx, a, &calls[i])
	}
}

// call makes the span of a request, and where its worker was not told, those that it would
// have made.
func (t *Tracer) call(ctx context.Context, a *Attempt, c *fanout.Call) {
	name, kind := evaluateMethod, trace.SpanKindClient
	switch {
	case c.Snapshot:
		name = snapshotMethod
	case c.Worker == "":
		name, kind = "evaluate here", trace.SpanKindInternal
	}
	own := c.Class(a.class)
	ctx, s := t.tracer.Start(withIDs(ctx, c.Span), name, trace.WithSpanKind(kind), trace.WithTimestamp(c.Start),
		trace.WithAttributes(callAttributes(c, own)...))
	if c.Err != nil {
		s.SetStatus(codes.Error, c.Err.Error())
	}
	s.End(trace.WithTimestamp(c.End))
	if own == nil || c.Span.IsSampled() {
		return
	}
	var passes []scan.Pass
	own.AddPasses(&passes)
	t.plugins(ctx, passes, interval{c.Start, c.End})
}

// callAttributes tell of a request to a worker, and its answer for the attempt's class.
func callAttributes(c *fanout.Call, own *fanout.ClassCall) []attribute.KeyValue {
	shards := make([]int64, 0, min(len(c.Shards), shown))
	for _, s := range c.Shards[:min(len(c.Shards), shown)] {
		shards = append(shards, int64(s))
	}
	list := []attribute.KeyValue{
		attribute.Int64Slice("shardsched.shards", shards),
		attribute.Int("shardsched.shards.count", len(c.Shards)),
	}
	if !c.Snapshot {
		list = append(list, attribute.Int("shardsched.classes", len(c.Classes)))
	}
	if own != nil {
		list = append(list, attribute.Int("shardsched.rows", own.Rows), attribute.Int("shardsched.feasible", own.Feasible))
	}
	if c.Backup {
		list = append(list, attribute.Bool("shardsched.backup", true))
	}
	if c.Worker == "" {
		return list
	}
	list = append(list,
		attribute.String("rpc.system", "grpc"),
		attribute.String("shardsched.worker", c.Worker),
	)
	if !c.Snapshot {
		list = append(list, attribute.Int64("shardsched.busy_ns", c.Busy.Nanoseconds()),
			attribute.Int("shardsched.request_bytes", c.RequestBytes), attribute.Int("shardsched.response_bytes", c.ResponseBytes))
	}
	if host, port, err := net.SplitHostPort(c.Address); err == nil {
		n, _ := strconv.Atoi(port)
		list = append(list, attribute.String("server.address", host), attribute.Int("server.port", n))
	}
	if n := c.NeedSnapshots; n > 0 {
		list = append(list, attribute.Int("shardsched.need_snapshots", n))
	}
	if n := c.NeedClasses; n > 0 {
		list = append(list, attribute.Int("shardsched.need_classes", n))
	}
	return list
}

// plugins makes a span for each plugin and extension point.
func (t *Tracer) plugins(ctx context.Context, passes []scan.Pass, when interval) {
	scan.Lay(passes, when.from, when.to, func(p *scan.Pass, from, to time.Time) {
		plugin, point := scorer.PluginName(p.Plugin), scorer.ExtensionPointName(p.Point)
		t.span(ctx, point+" "+plugin, interval{from, to}, trace.WithAttributes(
			attribute.String("shardsched.plugin", plugin),
			attribute.String("shardsched.extension_point", point),
			attribute.Int64("shardsched.rows_in", int64(p.RowsIn)),
			attribute.Int64("shardsched.rows_out", int64(p.RowsOut)),
			attribute.Int64("shardsched.busy_ns", p.Took.Nanoseconds()),
		))
	})
}
