// Package otlp sends spans to an OpenTelemetry collector by OTLP over gRPC.
//
// It is configured as upstream's components are: by a file of the kind
// TracingConfiguration, or by flags, which win over the file. Without any of them nothing is
// traced.
//
//	attempts ── coordinator/tracing ──┐ waits where the collector is slow
//	                                  ├── batches of spans ── collector
//	requests ── worker ───────────────┘ drops where the collector is slow
//
// Differs from upstream: kube-scheduler sends no traces, and the components that do decide at
// a span's beginning. Here it is decided after the attempt (coordinator/tracing), so the
// provider takes all that it is given; and what could not be sent is counted, and told once
// a minute.
package otlp
