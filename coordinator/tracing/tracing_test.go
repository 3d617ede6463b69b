package tracing

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/fanout"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/scan"
)

// rig is a tracer whose clock moves on by a millisecond each time it is read.
type rig struct {
	t        *testing.T
	tracer   *Tracer
	exporter *tracetest.InMemoryExporter
	registry *prometheus.Registry
	now      time.Time
}

func newRig(t *testing.T, cfg Config) *rig {
	r := &rig{t: t, exporter: tracetest.NewInMemoryExporter(), registry: prometheus.NewRegistry(), now: time.Unix(1000, 0)}
	random := rand.New(rand.NewPCG(1, 2)).Uint64
	cfg.Provider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(r.exporter), sdktrace.WithIDGenerator(IDs{Random: random}))
	cfg.Random, cfg.Registerer = random, r.registry
	cfg.Now = func() time.Time { r.now = r.now.Add(time.Millisecond); return r.now }
	r.tracer = New(cfg)
	return r
}

func pod(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "u-" + "1"}, Spec: v1.PodSpec{SchedulerName: "default-scheduler"}}
}

// spans makes those of all that is kept.
func (r *rig) spans() tracetest.SpanStubs {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	cancel()
	if err := r.tracer.Run(ctx); err != nil {
		r.t.Fatal(err)
	}
	return r.exporter.GetSpans()
}

// tree is the names of spans, those below others indented.
func tree(spans tracetest.SpanStubs) string {
	below := map[trace.SpanID]tracetest.SpanStubs{}
	for _, s := range spans {
		below[s.Parent.SpanID()] = append(below[s.Parent.SpanID()], s)
	}
	var b strings.Builder
	var walk func(id trace.SpanID, lead string)
	walk = func(id trace.SpanID, lead string) {
		list := below[id]
		slices.SortStableFunc(list, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
		for _, s := range list {
			fmt.Fprintf(&b, "%s%s\n", lead, s.Name)
			walk(s.SpanContext.SpanID(), lead+"  ")
		}
	}
	walk(trace.SpanID{}, "")
	return b.String()
}

func attributeOf(s tracetest.SpanStub, key string) any {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value.AsInterface()
		}
	}
	return nil
}

// attempt goes through all stages.
func (b *Batch) whole(name string) *Attempt {
	a := b.Attempt(pod(name), 1, b.start.Add(-time.Second))
	for s := range stages {
		a.Begin(s)
		a.End(s)
	}
	a.Decided(&pb.Decision{Seq: 7, Node: "n1", Score: 300, Feasible: 2, Nodes: 3})
	return a
}

func TestNoTracerIsOff(t *testing.T) {
	var none *Tracer
	p := pod("a")
	allocated := testing.AllocsPerRun(100, func() {
		ctx := context.Background()
		b := none.Begin(512)
		a := b.Attempt(p, 1, time.Time{})
		a.Begin(Compile)
		a.End(Compile)
		a.Asks(5)
		if b.FanOut(ctx) != ctx || a.Again(ctx, 5) != ctx {
			t.Error("the context of a fan-out is another one")
		}
		a.Decided(nil)
		if a.Finish(Scheduled, nil) || a.Sampled() || a.TraceID() != "" {
			t.Error("a trace is kept")
		}
	})
	if allocated != 0 {
		t.Errorf("got %v allocations, want none", allocated)
	}
}

func TestASampledAttemptIsATree(t *testing.T) {
	r := newRig(t, Config{Ratio: 1})
	a := r.tracer.Begin(1).whole("a")
	if !a.Sampled() || !a.Finish(Scheduled, nil) {
		t.Fatal("the attempt was not kept")
	}
	spans := r.spans()
	want := "schedule\n  queue\n  compile\n  merge\n  extenders\n  postfilter\n  assume\n  permit\n  prebind\n  bind\n"
	if got := tree(spans); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	root := spans[slices.IndexFunc(spans, func(s tracetest.SpanStub) bool { return s.Name == "schedule" })]
	if got := root.SpanContext.TraceID().String(); got != a.TraceID() {
		t.Errorf("got trace %s, want %s", got, a.TraceID())
	}
	for key, want := range map[string]any{
		"k8s.namespace.name": "shop", "k8s.pod.name": "a", "k8s.node.name": "n1", "shardsched.score": int64(300), "shardsched.decision": int64(7),
		"shardsched.result": "scheduled", "shardsched.kept": "sampled", "shardsched.attempt": int64(1), "shardsched.batch.size": int64(1),
	} {
		if got := attributeOf(root, key); got != want {
			t.Errorf("%s: got %v, want %v", key, got, want)
		}
	}
}

func TestWhatIsKept(t *testing.T) {
	tests := []struct {
		name   string
		cfg    Config
		result Result
		err    error
		age    time.Duration // of the batch
		want   string        // empty: not kept
	}{
		{"an attempt that went well is not", Config{}, Scheduled, nil, 0, ""},
		{"one that was drawn is", Config{Ratio: 1}, Scheduled, nil, 0, "sampled"},
		{"one that found no node is", Config{}, Unschedulable, nil, 0, "failed"},
		{"one that ended in an error is", Config{}, Error, errors.New("no"), 0, "failed"},
		{"one that took long is", Config{Slow: time.Second}, Scheduled, nil, 2 * time.Second, "slow"},
		{"one that took a little is not", Config{Slow: time.Second}, Scheduled, nil, 100 * time.Millisecond, ""},
		{"one that was given back is not", Config{Ratio: 1}, GivenBack, nil, 0, ""},
	}
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			r := newRig(t, x.cfg)
			b := r.tracer.Begin(1)
			a := b.Attempt(pod("a"), 1, b.start)
			r.now = r.now.Add(x.age)
			if got := a.Finish(x.result, x.err); got != (x.want != "") {
				t.Errorf("got kept %t, want %t", got, x.want != "")
			}
			for _, s := range r.spans() {
				if got := attributeOf(s, "shardsched.kept"); s.Name == "schedule" && got != x.want {
					t.Errorf("got kept for being %v, want %s", got, x.want)
				}
			}
			if x.want != "" {
				if got := testutil.ToFloat64(r.tracer.kept.WithLabelValues(x.want)); got != 1 {
					t.Errorf("shardsched_traces_total{why=%q}: got %v, want 1", x.want, got)
				}
			}
		})
	}
}

// The loop gives an attempt back while the tracer makes the spans of another of its batch, which
// then owns the fan-out: the race detector watches.
func TestAnAttemptIsGivenBackBesideATracer(t *testing.T) {
	r := newRig(t, Config{})
	b := r.tracer.Begin(2)
	first, second := b.whole("a"), b.whole("b")
	first.Asks(7)
	second.Asks(7)
	evaluated(b.FanOut(t.Context()), 7, b.start.Add(time.Millisecond))
	if !first.Finish(Unschedulable, nil) {
		t.Fatal("a failed attempt: got not kept, want kept")
	}
	var tracer sync.WaitGroup
	tracer.Go(func() { r.spans() })
	if second.Finish(GivenBack, nil) {
		t.Error("an attempt that was given back: got kept, want not")
	}
	tracer.Wait()
}

func TestAFloodOfFailuresIsBounded(t *testing.T) {
	r := newRig(t, Config{PerSecond: 10})
	fail := func(n int) (kept int) {
		for range n {
			b := r.tracer.Begin(1)
			if b.Attempt(pod("a"), 1, b.start).Finish(Unschedulable, nil) {
				kept++
			}
		}
		return kept
	}
	r.tracer.cfg.Now = func() time.Time { return r.now }
	if got := fail(DefaultBurst + 500); got != DefaultBurst {
		t.Errorf("got %d kept at once, want %d", got, DefaultBurst)
	}
	r.now = r.now.Add(2 * time.Second)
	if got := fail(500); got != 20 {
		t.Errorf("got %d kept after two seconds at 10 a second, want 20", got)
	}
	if got := testutil.ToFloat64(r.tracer.kept.WithLabelValues("over_budget")); got != 500+480 {
		t.Errorf(`shardsched_traces_total{why="over_budget"}: got %v, want 980`, got)
	}
}

// evaluated is a fan-out that a worker has answered for a class.
func evaluated(ctx context.Context, class uint64, at time.Time) {
	r := fanout.RecordOf(ctx)
	r.Begin(at)
	r.Add(&fanout.Call{
		Worker: "w1", Address: "10.0.0.1:7460", Shards: []uint32{3}, Start: at.Add(time.Millisecond), End: at.Add(9 * time.Millisecond),
		Classes: []fanout.ClassCall{{Class: class, Rows: 10, Feasible: 4, Passes: []scan.Pass{{
			Plugin: pb.Plugin_PLUGIN_NODE_RESOURCES_FIT, Point: pb.ExtensionPoint_EXTENSION_POINT_FILTER, Took: time.Millisecond, RowsIn: 10, RowsOut: 4,
		}}}},
	})
	r.Finish(at.Add(10 * time.Millisecond))
}

func TestABatchSharesItsFanOut(t *testing.T) {
	r := newRig(t, Config{Ratio: 1})
	b := r.tracer.Begin(2)
	first, second := b.whole("first"), b.whole("second")
	first.Asks(5)
	second.Asks(5)
	evaluated(b.FanOut(t.Context()), 5, b.start)
	second.Finish(Scheduled, nil)
	first.Finish(Scheduled, nil)
	spans := r.spans()
	var owner, other *tracetest.SpanStub
	for i := range spans {
		switch s := &spans[i]; {
		case s.Name != "fan-out":
		case s.SpanContext.TraceID() == first.span.TraceID():
			owner = s
		default:
			other = s
		}
	}
	if owner == nil || other == nil {
		t.Fatalf("no two fan-outs in\n%s", tree(spans))
	}
	if len(other.Links) != 1 || other.Links[0].SpanContext.SpanID() != owner.SpanContext.SpanID() || other.Links[0].SpanContext.TraceID() != owner.SpanContext.TraceID() {
		t.Errorf("got links %v, want one to %v", other.Links, owner.SpanContext)
	}
	if !slices.Contains(other.Attributes, attribute.Bool("shardsched.shared", true)) || len(owner.Links) > 0 {
		t.Errorf("shared: got %v, owner's links %v", other.Attributes, owner.Links)
	}
}

// Where nobody was drawn no worker was told: its spans are made here.
func TestAFailureHasTheSpansOfWorkersThatWereNotTold(t *testing.T) {
	r := newRig(t, Config{})
	b := r.tracer.Begin(1)
	a := b.Attempt(pod("a"), 1, b.start)
	a.Asks(5)
	evaluated(b.FanOut(t.Context()), 5, r.now)
	r.now = r.now.Add(20 * time.Millisecond)
	a.Begin(Merge)
	a.End(Merge)
	a.Finish(Unschedulable, nil)
	want := "schedule\n  queue\n  fan-out\n    shardsched.v1.WorkerService/Evaluate\n      Filter NodeResourcesFit\n  turn\n  merge\n"
	if got := tree(r.spans()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAFullBacklogDropsWholeTraces(t *testing.T) {
	r := newRig(t, Config{Ratio: 1})
	for range backlog + 3 {
		b := r.tracer.Begin(1)
		b.Attempt(pod("a"), 1, b.start).Finish(Scheduled, nil)
	}
	if got := testutil.ToFloat64(r.tracer.kept.WithLabelValues("dropped")); got != 3 {
		t.Errorf(`shardsched_traces_total{why="dropped"}: got %v, want 3`, got)
	}
}

func TestTheShareThatIsDrawn(t *testing.T) {
	r := newRig(t, Config{Ratio: 0.25})
	sampler, drawn := sdktrace.TraceIDRatioBased(0.25), 0
	for range 4000 {
		id := r.tracer.ids.traceID()
		got := r.tracer.drawn(id)
		if want := sampler.ShouldSample(sdktrace.SamplingParameters{TraceID: id}).Decision == sdktrace.RecordAndSample; got != want {
			t.Fatalf("trace %s: got drawn %t, OpenTelemetry's sampler says %t", id, got, want)
		}
		if got {
			drawn++
		}
	}
	if drawn < 900 || drawn > 1100 {
		t.Errorf("got %d of 4000 drawn, want a quarter", drawn)
	}
}

func BenchmarkAttempt(b *testing.B) {
	p := pod("a")
	run := func(t *Tracer) func(b *testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				batch := t.Begin(512)
				for range 512 {
					a := batch.Attempt(p, 1, time.Time{})
					for s := range stages {
						a.Begin(s)
						a.End(s)
					}
					a.Finish(Scheduled, nil)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/512, "ns/pod")
		}
	}
	b.Run("off", run(nil))
	b.Run("never-sampled", run(New(Config{Provider: sdktrace.NewTracerProvider(), Random: rand.Uint64})))
}

// The attempts of a pod group's members are below its span, in one trace, which is kept as a whole.
func TestMembersOfAPodGroupAreInOneTrace(t *testing.T) {
	r := newRig(t, Config{})
	b := r.tracer.Begin(3)
	members := []*Attempt{b.whole("a"), b.whole("b"), b.whole("c")}
	other := b.whole("other")
	g := BeginGang("shop/train", len(members), func(i int) *Attempt { return members[i] })
	g.Decided(GangVerdict{Fit: 2, Need: 3, Domain: "rack=r1", Result: "unschedulable"}, r.tracer.now())
	id := members[0].TraceID()
	for _, a := range members {
		if a.TraceID() != id || a.TraceID() == other.TraceID() {
			t.Errorf("member %s is in trace %s, want %s", a.pod.Name, a.TraceID(), id)
		}
		a.Finish(Unschedulable, nil)
	}
	other.Finish(Unschedulable, nil)
	spans := r.spans()
	var all []string
	for _, line := range strings.Split(tree(spans), "\n") {
		if strings.Contains(line, "schedule") {
			all = append(all, line)
		}
	}
	if want := []string{"schedule pod group", "  schedule", "  schedule", "  schedule", "schedule"}; !slices.Equal(all, want) {
		t.Errorf("got spans %q, want %q", all, want)
	}
	i := slices.IndexFunc(spans, func(s tracetest.SpanStub) bool { return s.Name == "schedule pod group" })
	for key, want := range map[string]any{
		"shardsched.pod_group": "shop/train", "shardsched.members": int64(3), "shardsched.fits": int64(2), "shardsched.needed": int64(3),
		"shardsched.domain": "rack=r1", "shardsched.result": "unschedulable", "shardsched.kept": "failed",
	} {
		if got := attributeOf(spans[i], key); got != want {
			t.Errorf("%s: got %v, want %v", key, got, want)
		}
	}
	if start := members[0].queued; !spans[i].StartTime.Equal(start) {
		t.Errorf("it begins at %v, want when the first has waited since, %v", spans[i].StartTime, start)
	}
}

// A trace of which workers were told stays that: it is the one of the pod group. Without a verdict there is no span of it.
func TestAPodGroupKeepsTheTraceOfItsFanOut(t *testing.T) {
	r := newRig(t, Config{Ratio: 1})
	b := r.tracer.Begin(2)
	members := []*Attempt{b.whole("a"), b.whole("b")}
	members[1].Asks(5)
	id := members[1].TraceID()
	BeginGang("shop/train", 2, func(i int) *Attempt { return members[i] })
	if got := members[0].TraceID(); got != id {
		t.Errorf("got trace %s, want that of the fan-out, %s", got, id)
	}
	for _, a := range members {
		a.Finish(GivenBack, nil)
	}
	if got := tree(r.spans()); strings.Contains(got, "pod group") {
		t.Errorf("got spans\n%s", got)
	}
	var none []*Attempt
	if BeginGang("none", 0, func(i int) *Attempt { return none[i] }) != nil || BeginGang("off", 1, func(int) *Attempt { return nil }) != nil {
		t.Error("there is a span of what is not traced")
	}
}
