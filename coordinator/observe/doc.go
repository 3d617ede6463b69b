// Package observe is what people and dashboards are told of the loop: metrics, the decision log, the log's lines about attempts
// and bugs, and the decisions that explanations tell.
//
//	loop ──> Meters       metrics, and the counts of summaries
//	     ──> History      the last decisions of each pod ──> explanations
//	     ──> DecisionLog  every decision, a line of JSON
//	     ──> AttemptLog   attempts without a node, some of them ──> the log
//	     ──> Bugs         panics that were recovered ──> the log
//	     ──> Heartbeat    turns ──> health checks
//
// The loop tells, in its own words, and reads nothing back to decide by it. But for DecisionLog, Heartbeat and Bugs
// all of it belongs to the loop's goroutine.
package observe
