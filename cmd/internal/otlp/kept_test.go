package otlp

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// local is a provider that keeps its traces, and has no collector.
func local(t *testing.T) (trace.Tracer, *Kept) {
	t.Helper()
	c := Config{Enabled: true, Local: true, Kept: NewKept()}
	p, stop, err := c.Worker(t.Context(), Service{Name: "shardsched-coordinator"}, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return p.Tracer("t"), c.Kept
}

// attempt makes a trace of a pod with so many spans below its root.
func attempt(tracer trace.Tracer, t *testing.T, pod string, took time.Duration, spans int) {
	begin := time.Unix(100, 0)
	ctx, root := tracer.Start(t.Context(), "schedule", trace.WithNewRoot(), trace.WithTimestamp(begin),
		trace.WithAttributes(attribute.String("k8s.namespace.name", "default"), attribute.String("k8s.pod.name", pod),
			attribute.String("shardsched.kept", "failed"),
			attribute.String("shardsched.message", strings.Repeat("x", 2*shownText))))
	for range spans {
		_, s := tracer.Start(ctx, "queue", trace.WithTimestamp(begin))
		s.End(trace.WithTimestamp(begin.Add(took / 2)))
	}
	root.End(trace.WithTimestamp(begin.Add(took)))
}

func podsOf(out *pb.ListTracesResponse) string {
	var names []string
	for _, t := range out.Traces {
		for _, a := range t.Spans[0].Attributes {
			if name, ok := strings.CutPrefix(a, "k8s.pod.name="); ok {
				names = append(names, name)
			}
		}
	}
	return strings.Join(names, " ")
}

func TestTracesAreKeptWithoutACollector(t *testing.T) {
	tracer, kept := local(t)
	attempt(tracer, t, "fast", time.Millisecond, 2)
	attempt(tracer, t, "slow", 2*time.Second, 1)
	attempt(tracer, t, "fast", time.Millisecond, 0)
	_, open := tracer.Start(t.Context(), "open", trace.WithNewRoot())
	defer open.End()
	for want, req := range map[string]*pb.ListTracesRequest{
		"fast slow fast": {}, "fast": {Limit: 1}, "slow": {Slow: durationpb.New(time.Second)}, "fast fast": {Namespace: "default", Name: "fast"},
		"": {Namespace: "other"},
	} {
		if got := podsOf(kept.List(req)); got != want {
			t.Errorf("%v: got %q, want %q", req, got, want)
		}
	}
	first := kept.List(&pb.ListTracesRequest{}).Traces[2]
	if len(first.Spans) != 3 || first.Spans[0].Name != "schedule" || first.Spans[1].Parent != first.Spans[0].Id ||
		first.Spans[1].Took.AsDuration() != time.Millisecond/2 || first.Spans[0].Service != "shardsched-coordinator" {
		t.Errorf("got %v, want the root with two spans below it", first)
	}
	for _, a := range first.Spans[0].Attributes {
		if len(a) > shownText+40 {
			t.Errorf("got an attribute of %d bytes", len(a))
		}
	}
	if got := kept.List(&pb.ListTracesRequest{}).Note; got != "" {
		t.Errorf("got note %q beside traces, want none", got)
	}
	got := kept.List(&pb.ListTracesRequest{Namespace: "other"}).Note
	want := "not among the traces that are kept (3 since 1970-01-01T00:01:40Z, 3 failed): kept are attempts that were slow " +
		"(--tracing-slow-threshold), that failed, or that were sampled (--tracing-sampling-rate-per-million), the last 256 at the most"
	if got != want {
		t.Errorf("got note %q, want %q", got, want)
	}
	if got := NewKept().List(&pb.ListTracesRequest{}).Note; !strings.HasPrefix(got, "no trace is kept yet: kept are attempts") {
		t.Errorf("got note %q", got)
	}
	if off := (*Kept)(nil).List(&pb.ListTracesRequest{}); off.Note == "" {
		t.Error("without tracing nothing is said")
	}
}

// Whatever is traced, so many traces and spans are kept, the newest; and a message has so many.
func TestKeptTracesAreBounded(t *testing.T) {
	tracer, kept := local(t)
	attempt(tracer, t, "long", time.Second, 2*spansOfTrace)
	if got := len(kept.List(&pb.ListTracesRequest{}).Traces[0].Spans); got != spansOfTrace+1 {
		t.Errorf("got %d spans of one trace, want %d", got, spansOfTrace+1)
	}
	for i := range 2 * keptTraces {
		attempt(tracer, t, fmt.Sprint("p", i), time.Second, 100)
		if len(kept.order) > keptTraces || kept.spans > keptSpans || len(kept.traces) != len(kept.order) {
			t.Fatalf("got %d traces of %d spans", len(kept.order), kept.spans)
		}
	}
	for i := range 2 * keptTraces {
		attempt(tracer, t, fmt.Sprint("q", i), time.Second, 0)
	}
	if len(kept.order) != keptTraces || kept.spans != keptTraces {
		t.Errorf("got %d traces of %d spans, want %d of one each", len(kept.order), kept.spans, keptTraces)
	}
	for range 10 {
		attempt(tracer, t, "wide", time.Second, spansOfTrace)
	}
	spans := 0
	for _, x := range kept.List(&pb.ListTracesRequest{Limit: 100}).Traces {
		spans += len(x.Spans)
	}
	if spans > maxListedSpans || spans < spansOfTrace {
		t.Errorf("got %d spans in a message, want %d at the most", spans, maxListedSpans)
	}
}
