package worker_test

import (
	"slices"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"

	"github.com/shardsched/shardsched/worker"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"
)

func TestARequestThatIsSampledHasSpans(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	r := newRig(t, worker.Config{ID: "w", TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))})
	r.fill(0, 50)
	r.load(0)
	ask := func(header string) []sdktrace.ReadOnlySpan {
		t.Helper()
		recorder.Reset()
		ctx := t.Context()
		if header != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", header)
		}
		q := query(1, 500)
		req := r.request(r.at(0), q, query(2, 700))
		req.Classes[0].Trace = true
		if _, err := r.client.Evaluate(ctx, req); err != nil {
			t.Fatal(err)
		}
		return recorder.Ended()
	}
	for _, header := range []string{"", "00-" + traceID + "-" + spanID + "-00", "nonsense", "00-" + traceID + "-0000000000000000-01"} {
		if got := ask(header); len(got) != 0 {
			t.Errorf("traceparent %q: got %d spans, want none", header, len(got))
		}
	}
	spans := ask("00-" + traceID + "-" + spanID + "-01")
	var names []string
	var server sdktrace.ReadOnlySpan
	for _, s := range spans {
		if got := s.SpanContext().TraceID().String(); got != traceID {
			t.Errorf("%s: got trace %s, want %s", s.Name(), got, traceID)
		}
		if s.SpanKind() == trace.SpanKindServer {
			server = s
		}
		names = append(names, s.Name())
	}
	want := []string{
		"apply deltas", "Filter TaintToleration", "Filter NodeAffinity", "Filter NodeResourcesFit",
		"Score TaintToleration", "Score NodeAffinity", "Score NodeResourcesFit", "Score NodeResourcesBalancedAllocation",
		"shardsched.v1.WorkerService/Evaluate",
	}
	if !slices.Equal(names, want) {
		t.Errorf("got spans %q, want %q", names, want)
	}
	if server == nil || server.Parent().SpanID().String() != spanID || !server.Parent().IsRemote() {
		t.Fatalf("the request's span is not below the sender's: %v", server)
	}
	for _, s := range spans {
		if s == server {
			continue
		}
		if s.Parent().SpanID() != server.SpanContext().SpanID() || s.StartTime().Before(server.StartTime()) || s.EndTime().After(server.EndTime()) {
			t.Errorf("%s is not within the request's span", s.Name())
		}
	}
}
