package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// Gang is a try at a pod group. Its span begins with the first of its members that has waited, and ends with the verdict; the attempts of
// the members stand below it, in one trace, and go on until they are bound. It is the loop's until a member is finished after Decided, and
// the tracer's from then on.
type Gang struct {
	name    string // namespace/name
	members int
	span    trace.SpanContext
	start   time.Time
	verdict GangVerdict
	end     time.Time // zero: there is no verdict
	emitted bool
}

// GangVerdict is what a try has come to.
type GangVerdict struct {
	// Fit is how many members fit, with those that are scheduled; Need is how many have to, 0: no gang.
	Fit, Need int
	// Domain is the best domain, as "key=value"; empty: there is none.
	Domain string
	// Result is upstream's name of it.
	Result string
}

// BeginGang puts the attempts of the members of a pod group into one trace: that of which workers were told already, if one is, else
// that of the first, whose draw is that of all. It is nil where nothing is traced.
func BeginGang(name string, n int, member func(i int) *Attempt) *Gang {
	if n == 0 || member(0) == nil {
		return nil
	}
	lead := member(0)
	for i := range n {
		if a := member(i); a.owns || a.gang != nil && !lead.owns {
			lead = a
		}
	}
	t := lead.batch.tracer
	g := &Gang{name: name, members: n, span: lead.child(), start: t.now()}
	for i := range n {
		a := member(i)
		a.gang = g
		a.span = lead.span.WithSpanID(a.span.SpanID())
		if !a.queued.IsZero() && a.queued.Before(g.start) {
			g.start = a.queued
		}
	}
	return g
}

// Decided tells the verdict, before any member is finished.
func (g *Gang) Decided(v GangVerdict, now time.Time) {
	if g != nil {
		g.verdict, g.end = v, now
	}
}

// above is the context below which an attempt's span is made: that of its pod group's, which is made with the first.
func (t *Tracer) above(a *Attempt) (context.Context, []trace.SpanStartOption) {
	g := a.gang
	if g == nil || g.end.IsZero() {
		return context.Background(), []trace.SpanStartOption{trace.WithNewRoot()}
	}
	if !g.emitted {
		g.emitted = true
		t.span(withIDs(context.Background(), g.span), "schedule pod group", interval{g.start, g.end}, trace.WithNewRoot(),
			trace.WithAttributes(g.attributes(a)...))
	}
	return trace.ContextWithSpanContext(context.Background(), g.span.WithTraceFlags(trace.FlagsSampled)), nil
}

func (g *Gang) attributes(a *Attempt) []attribute.KeyValue {
	list := []attribute.KeyValue{
		attribute.String("k8s.namespace.name", a.pod.Namespace),
		attribute.String("shardsched.pod_group", g.name),
		attribute.Int("shardsched.members", g.members),
		attribute.Int("shardsched.fits", g.verdict.Fit),
		attribute.Int("shardsched.needed", g.verdict.Need),
		attribute.String("shardsched.result", g.verdict.Result),
		attribute.String("shardsched.kept", a.why),
	}
	if g.verdict.Domain != "" {
		list = append(list, attribute.String("shardsched.domain", g.verdict.Domain))
	}
	return list
}
