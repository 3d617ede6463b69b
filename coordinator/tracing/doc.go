// Package tracing turns attempts to schedule pods into OpenTelemetry spans.
//
// The scheduling loop writes down times as it goes, whatever becomes of the attempt, and
// whether an attempt is worth spans is judged at its end (tail sampling): where it was
// drawn at its beginning (head-sampled, by the trace's id as OpenTelemetry's
// TraceIDRatioBased does), where it took longer than the threshold, or where it failed. A
// goroutine of the tracer makes the spans then, with the times that were written down.
//
//	schedule ──┬─ queue                    since the pod arrived or its last attempt failed
//	           ├─ compile
//	           ├─ fan-out ─┬─ Evaluate ── Evaluate ─┬─ Filter NodeUnschedulable
//	           │           │  (client)    (worker)  ├─ Filter NodeResourcesFit …
//	           │           └─ Evaluate …            └─ Score …
//	           ├─ turn                     until the pods before it are decided
//	           ├─ merge ───── fan-out …    where the workers are asked again
//	           ├─ assume
//	           ├─ permit
//	           ├─ prebind
//	           └─ bind
//
// The attempts of a batch share one fan-out. Its first head-sampled attempt owns it: the
// request to each worker carries that trace's traceparent, so that the worker's spans belong
// to it. The others of the batch have a fan-out span of the same times with a link to the
// owner's, and below it what the plugins did for their own class, all workers together. Where
// no attempt of a batch was drawn no worker is told; the first that is kept all the same owns
// the fan-out, and the spans of its workers are made here of what their answers say.
//
// A plugin makes one pass for each shard, and shards are evaluated side by side. Its span
// lasts as long as its passes together, and the plugins of a request stand end to end, drawn
// in where several cores made them overlap: the attribute shardsched.busy_ns is exact.
//
// A nil Tracer is off, and so are the nil Batch and Attempt that it gives: their methods do
// nothing and allocate nothing.
package tracing
