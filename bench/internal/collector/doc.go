// Package collector receives spans by OTLP over gRPC, as an OpenTelemetry collector does, and
// puts them together to traces that tests can check and people can read.
//
//	shardsched processes ──OTLP──> Collector ── Traces ── Check: do they hang together?
//	                                                  └── Render: a tree
package collector
