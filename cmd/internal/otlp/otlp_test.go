package otlp

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestLoad(t *testing.T) {
	const good = "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: TracingConfiguration\nendpoint: collector:4317\nsamplingRatePerMillion: 250000\n"
	tests := []struct {
		name    string
		file    string
		options Options
		want    Config
		err     string
	}{
		{name: "nothing is off", options: Options{RatePerMillion: -1, Slow: time.Second}},
		{name: "a file is on", file: good, options: Options{RatePerMillion: -1, Slow: time.Second},
			want: Config{Enabled: true, Endpoint: "collector:4317", Ratio: 0.25, Slow: time.Second}},
		{name: "flags win over the file", file: good, options: Options{Endpoint: "other:1", RatePerMillion: 0},
			want: Config{Enabled: true, Endpoint: "other:1"}},
		{name: "an endpoint alone keeps what is slow or failed", options: Options{Endpoint: "other:1", RatePerMillion: -1, Slow: time.Second},
			want: Config{Enabled: true, Endpoint: "other:1", Slow: time.Second}},
		{name: "a rate alone goes to OpenTelemetry's own endpoint", options: Options{RatePerMillion: 1000000}, want: Config{Enabled: true, Ratio: 1}},
		{name: "in memory alone", options: Options{Local: true, RatePerMillion: -1, Slow: time.Second}, want: Config{Enabled: true, Local: true, Slow: time.Second}},
		{name: "in memory alone, with a collector", options: Options{Local: true, Endpoint: "c:1", RatePerMillion: -1}, err: "--tracing-local"},
		{name: "more than all", options: Options{RatePerMillion: 1000001}, err: "less than or equal to one million"},
		{name: "a scheme that gRPC does not know", options: Options{Endpoint: "http://x:1", RatePerMillion: -1}, err: "unsupported scheme"},
		{name: "a negative threshold", options: Options{RatePerMillion: 1, Slow: -1}, err: "--tracing-slow-threshold: -1ns is negative"},
		{name: "another kind", file: "apiVersion: v1\nkind: Pod\n", options: Options{RatePerMillion: -1}, err: "expected kind TracingConfiguration of apiserver.config.k8s.io/v1, got kind Pod of v1"},
		{name: "a field that is none", file: good + "rate: 5\n", options: Options{RatePerMillion: -1}, err: `unknown field "rate"`},
	}
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			if x.file != "" {
				x.options.ConfigFile = filepath.Join(t.TempDir(), "tracing.yaml")
				if err := os.WriteFile(x.options.ConfigFile, []byte(x.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := x.options.Load()
			if x.err == "" && err != nil || x.err != "" && (err == nil || !strings.Contains(err.Error(), x.err)) {
				t.Fatalf("got error %v, want %q", err, x.err)
			}
			if got != x.want {
				t.Errorf("got %+v, want %+v", got, x.want)
			}
		})
	}
	if _, err := (Options{ConfigFile: "nowhere.yaml", RatePerMillion: -1}).Load(); err == nil || err.Error() != "--tracing-config-file nowhere.yaml: no such file or directory" {
		t.Errorf("a file that is not there: got %v", err)
	}
}

// refusing is a collector that takes nothing.
type refusing struct{ sdktrace.SpanExporter }

func (refusing) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return errors.New("no") }

func TestWhatTheCollectorTakesIsCounted(t *testing.T) {
	memory := tracetest.NewInMemoryExporter()
	for name, exporter := range map[string]sdktrace.SpanExporter{"sent": memory, "failed": refusing{memory}} {
		registry := prometheus.NewRegistry()
		x := newCounted(exporter, clocktesting.NewFakePassiveClock(time.Unix(1, 0)), labelled(registry, "s"))
		if err := x.ExportSpans(t.Context(), make([]sdktrace.ReadOnlySpan, 0)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := x.ExportSpans(t.Context(), tracetest.SpanStubs{{Name: "a"}, {Name: "b"}}.Snapshots()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		count := map[string]prometheus.Counter{"sent": x.sent, "failed": x.failed}[name]
		if got := testutil.ToFloat64(count); got != 2 {
			t.Errorf("%s: got %v, want 2", name, got)
		}
	}
}

// A process ends though its collector is not there.
func TestAnEndDoesNotWaitForTheCollector(t *testing.T) {
	c := Config{Enabled: true, Endpoint: "127.0.0.1:1", Ratio: 1}
	_, stop, err := c.Coordinator(t.Context(), Service{Name: "c"}, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	p, stopWorker, err := c.Worker(t.Context(), Service{Name: "w"}, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	_, span := p.Tracer("t").Start(t.Context(), "a")
	span.End()
	start := time.Now()
	stop()
	stopWorker()
	if took := time.Since(start); took > 3*patience {
		t.Errorf("it took %v, want less than %v", took, 3*patience)
	}
	off, stop, err := Config{}.Worker(t.Context(), Service{}, nil)
	if off != nil || err != nil {
		t.Errorf("off: got a provider %v, error %v", off, err)
	}
	stop()
}
