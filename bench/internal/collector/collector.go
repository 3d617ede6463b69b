package collector

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"sync"
	"time"

	collectpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// Span is a span as it was received.
type Span struct {
	// Service and Instance name the process that made it.
	Service, Instance string
	Name, Kind        string
	Trace, ID, Parent string // hexadecimal; Parent is empty for the first of a trace
	Start, End        time.Time
	Attributes        map[string]any // string, int64, float64, bool, []any
	// Links are the ids of the spans that it is linked to, as trace/span.
	Links []string
	// Error is what its status says; empty: it is no error.
	Error string
}

// Collector is a server on loopback. It keeps all that it receives.
type Collector struct {
	collectpb.UnimplementedTraceServiceServer

	server   *grpc.Server
	listener net.Listener
	served   chan error

	mu    sync.Mutex
	spans []*Span
}

// Start serves on a free port of loopback.
func Start() (*Collector, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("collector: %w", err)
	}
	c := &Collector{server: grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20)), listener: l, served: make(chan error, 1)}
	collectpb.RegisterTraceServiceServer(c.server, c)
	go func() { c.served <- c.server.Serve(l) }()
	return c, nil
}

// Address is host:port.
func (c *Collector) Address() string { return c.listener.Addr().String() }

// Close ends it.
func (c *Collector) Close() error {
	c.server.Stop()
	return <-c.served
}

// Export implements OTLP's TraceService.
func (c *Collector) Export(_ context.Context, req *collectpb.ExportTraceServiceRequest) (*collectpb.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range req.GetResourceSpans() {
		about := attributes(r.GetResource().GetAttributes())
		for _, scope := range r.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, span(s, about))
			}
		}
	}
	return &collectpb.ExportTraceServiceResponse{}, nil
}

// Spans are those received so far.
func (c *Collector) Spans() []*Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spans[:len(c.spans):len(c.spans)]
}

// Forget drops what was received so far.
func (c *Collector) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spans = nil
}

func span(s *tracepb.Span, about map[string]any) *Span {
	out := &Span{
		Name: s.GetName(), Kind: s.GetKind().String(),
		Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
		Start: time.Unix(0, int64(s.GetStartTimeUnixNano())), End: time.Unix(0, int64(s.GetEndTimeUnixNano())),
		Attributes: attributes(s.GetAttributes()),
	}
	out.Service, _ = about["service.name"].(string)
	out.Instance, _ = about["service.instance.id"].(string)
	for _, l := range s.GetLinks() {
		out.Links = append(out.Links, hex.EncodeToString(l.GetTraceId())+"/"+hex.EncodeToString(l.GetSpanId()))
	}
	if s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		out.Error = s.GetStatus().GetMessage()
	}
	return out
}

func attributes(list []*commonpb.KeyValue) map[string]any {
	out := make(map[string]any, len(list))
	for _, a := range list {
		out[a.GetKey()] = value(a.GetValue())
	}
	return out
}

func value(v *commonpb.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_IntValue:
		return v.IntValue
	case *commonpb.AnyValue_DoubleValue:
		return v.DoubleValue
	case *commonpb.AnyValue_BoolValue:
		return v.BoolValue
	case *commonpb.AnyValue_ArrayValue:
		var out []any
		for _, x := range v.ArrayValue.GetValues() {
			out = append(out, value(x))
		}
		return out
	}
	return nil
}
