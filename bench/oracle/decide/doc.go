// Package decide measures what a decision costs: ours, and that of upstream's plugins on all
// nodes, in one process, on the same cluster and the same pods.
//
//	Shape ──> Workload: nodes, placed pods, pods that wait
//	             │
//	             │   for each repetition, the sides one after the other, first the one, then the other:
//	             ├── upstream   oracle.Decide, 16 goroutines ──┐
//	             ├── tables     our scheduler, own tables ─────┼──> CPU, wall, bytes of each pod
//	             ├── workers    our scheduler, 2 gRPC workers ─┘
//	             v
//	         judge: our decisions replayed; of a sample, upstream's count of feasible nodes, best
//	                total and total of our node must be those that we have told
//
// # What is measured
//
// A side is set up from the same objects: nodes, pods that are there, and one pod decided that
// no other looks like, so that snapshots are made and shards are with their workers. Then, after a
// garbage collection, the clock runs: CPU time of the whole process (getrusage), wall time, and
// bytes allocated. The side is dropped before the next one is set up, so that no garbage
// collector walks another's memory.
//
// Upstream's side is PreFilter, Filter, PreScore, Score, NormalizeScore, the choice, assuming the
// pod, Reserve and the snapshot's update; no queue, no binding, no diagnosis, no informer.
// Ours is all that happens from when a pod arrives to when it counts as bound: the queue, the
// classes, workers and what is sent to them, the decisions and their log. Our classes are
// unknown when the clock starts.
//
// Upstream decides fewer of the pods than ours, the first of them, for its cost hardly changes
// from one to the next.
package decide
