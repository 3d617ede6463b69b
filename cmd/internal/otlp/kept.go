package otlp

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	// keptTraces and keptSpans are how many traces a process keeps at the most, and how many spans they have together, of about 1 KiB each.
	keptTraces, keptSpans = 256, 16384
	// spansOfTrace is how many spans of one trace are kept; shownText how many bytes of an attribute.
	spansOfTrace, shownText = 1024, 1024
	// listed is how many traces are listed where no number is asked for, and maxListed how many at the most: a message has 4 MiB.
	listed, maxListedSpans = 5, 2048
)

// Kept keeps the last traces of this process in memory, so that they can be looked at without a collector. It is a SpanProcessor of the
// coordinator's provider and of those of workers in its process. Any goroutine may use it.
type Kept struct {
	mu     sync.Mutex
	traces map[trace.TraceID]*keptTrace
	order  []*keptTrace // by their first span, oldest first
	spans  int
}

// keptTrace is the spans of a trace that have ended. A trace is told of once its root has.
type keptTrace struct {
	id    trace.TraceID
	root  *pb.Span // nil: it has not ended
	spans []*pb.Span
}

// NewKept makes one that keeps nothing yet.
func NewKept() *Kept { return &Kept{traces: map[trace.TraceID]*keptTrace{}} }

// OnStart implements sdktrace.SpanProcessor, as do OnEnd, Shutdown and ForceFlush.
func (k *Kept) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd keeps a span.
func (k *Kept) OnEnd(s sdktrace.ReadOnlySpan) {
	span, id := spanOf(s), s.SpanContext().TraceID()
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.traces[id]
	if t == nil {
		t = &keptTrace{id: id}
		k.traces[id] = t
		k.order = append(k.order, t)
	}
	switch {
	case span.Parent == "":
		t.root = span
	case len(t.spans) >= spansOfTrace:
		return
	default:
		t.spans = append(t.spans, span)
	}
	for k.spans++; len(k.order) > keptTraces || k.spans > keptSpans; {
		k.dropOldest()
	}
}

func (k *Kept) dropOldest() {
	t := k.order[0]
	k.order[0] = nil
	k.order = k.order[1:]
	delete(k.traces, t.id)
	if k.spans -= len(t.spans); t.root != nil {
		k.spans--
	}
}

// Shutdown is part of sdktrace.SpanProcessor.
func (k *Kept) Shutdown(context.Context) error { return nil }

// ForceFlush is part of sdktrace.SpanProcessor.
func (k *Kept) ForceFlush(context.Context) error { return nil }

// List gives the traces that are asked for, the newest first. A nil Kept says that tracing is off.
func (k *Kept) List(req *pb.ListTracesRequest) *pb.ListTracesResponse {
	out := &pb.ListTracesResponse{}
	if k == nil {
		out.Note = "tracing is off: start the coordinator with --tracing-local, or with a collector"
		return out
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	most, spans := int(req.GetLimit()), 0
	if most == 0 {
		most = listed
	}
	for _, t := range slices.Backward(k.order) {
		if len(out.Traces) == most {
			break
		}
		if !t.asked(req) {
			continue
		}
		if spans += 1 + len(t.spans); spans > maxListedSpans && len(out.Traces) > 0 {
			break
		}
		out.Traces = append(out.Traces, &pb.Trace{Id: t.id.String(), Spans: append([]*pb.Span{t.root}, t.spans...)})
	}
	if len(out.Traces) == 0 {
		out.Note = k.without()
	}
	return out
}

// without tells what is kept, to one who has asked for something else.
func (k *Kept) without() string {
	why, whole, oldest := map[string]int{}, 0, (*pb.Span)(nil)
	for _, t := range k.order {
		if t.root == nil {
			continue
		}
		if whole++; oldest == nil {
			oldest = t.root
		}
		for _, a := range t.root.GetAttributes() {
			if reason, is := strings.CutPrefix(a, "shardsched.kept="); is {
				why[reason]++
			}
		}
	}
	kept := "no trace is kept yet"
	if whole > 0 {
		kept = fmt.Sprintf("not among the traces that are kept (%d since %s", whole, oldest.GetStart().AsTime().Format(time.RFC3339))
		for _, reason := range slices.Sorted(maps.Keys(why)) {
			kept += fmt.Sprintf(", %d %s", why[reason], reason)
		}
		kept += ")"
	}
	return fmt.Sprintf("%s: kept are attempts that were slow (--tracing-slow-threshold), that failed, or that were sampled "+
		"(--tracing-sampling-rate-per-million), the last %d at the most", kept, keptTraces)
}

func (t *keptTrace) asked(req *pb.ListTracesRequest) bool {
	if t.root == nil || req.GetSlow() != nil && t.root.GetTook().AsDuration() < req.GetSlow().AsDuration() {
		return false
	}
	has := func(s *pb.Span, key, value string) bool {
		return value == "" || slices.Contains(s.GetAttributes(), key+"="+value)
	}
	is := func(s *pb.Span) bool {
		return has(s, "k8s.namespace.name", req.GetNamespace()) && has(s, "k8s.pod.name", req.GetName())
	}
	return is(t.root) || slices.ContainsFunc(t.spans, is) // a member of a pod group stands below that
}

// spanOf is a span as a message.
func spanOf(s sdktrace.ReadOnlySpan) *pb.Span {
	out := &pb.Span{
		Id: s.SpanContext().SpanID().String(), Name: s.Name(), Start: timestamppb.New(s.StartTime()),
		Took: durationpb.New(s.EndTime().Sub(s.StartTime())), Error: s.Status().Description,
	}
	if s.Parent().HasSpanID() {
		out.Parent = s.Parent().SpanID().String()
	}
	for _, a := range s.Attributes() {
		value := a.Value.String()
		if len(value) > shownText {
			value = value[:shownText] + "…"
		}
		out.Attributes = append(out.Attributes, string(a.Key)+"="+value)
	}
	if service, ok := s.Resource().Set().Value("service.name"); ok {
		out.Service = service.AsString()
	}
	return out
}
