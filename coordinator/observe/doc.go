// Package observe is what people and dashboards are told of the loop.
//
// # What the loop tells
//
//	loop ──> Meters       metrics, and the counts of summaries
//	     ──> History      the last decisions of each pod ──> explanations
//	     ──> DecisionLog  every decision, a line of JSON
//	     ──> AttemptLog   attempts without a node, some of them ──> the log
//	     ──> Bugs         panics that were recovered ──> the log
//	     ──> Heartbeat    turns ──> health checks
//
// The loop tells, in its own words, and reads nothing back to decide by it.
//
// # What others read
//
//	Reads     one bounded step a turn: explanations, summaries, dumps
//	Judging   all rows for one pod    <── answers.Reader
//	Summary   shards, pods that wait  <── Cluster, Queue
//	Debugger  nodes, pods, the queue  <── Cluster, Queue
//
// What is read is seen through interfaces that have nothing to change it by, and nothing to end a term by. What an explanation
// has to change, as to take its pod from the node for the while, the loop does before a step and undoes after it.
//
// But for DecisionLog, Heartbeat, Bugs and the calls of Reads that wait, all of it belongs to the loop's goroutine.
package observe
