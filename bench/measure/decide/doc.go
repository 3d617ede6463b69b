// Decide measures what deciding pods takes without an API server: ours, and upstream's plugins beside it, in one
// process, on the same cluster and the same pods.
//
//	decide [-workloads LIST] [-nodes LIST] [-sides LIST] [-pods N] [-limit D] [-out PREFIX] [-profiles FOLDER] …
//
//	Kind ──> Workload: nodes, placed pods, pods that wait
//	            │
//	            │   for each repetition, the sides one after the other, first to last, then last to first:
//	            ├── upstream   oracle.Decide on all nodes, 16 goroutines ──────────┐
//	            ├── sampled    the same, on as many nodes as upstream samples ─────┤ pods a second, CPU,
//	            ├── tables     our scheduler on its own tables ────────────────────┤ allocations, …
//	            ├── workers    our scheduler with workers over gRPC on loopback ───┤
//	            ├── single     the same, each pod when the one before is decided ──┘
//	            v
//	        judge: our decisions replayed; of a sample, upstream's count of feasible nodes, best
//	               total and total of our node must be those that we have told
//
// It prints tables, writes PREFIX.json, PREFIX.txt and charts, and exits with 1 where a decision of ours is none
// that the plugins could have made.
//
// # What is measured
//
// A side is set up from the same objects: nodes, pods that are there, and one pod decided that
// no other looks like, so that snapshots are made and shards are with their workers. Then, after a
// garbage collection, all pods are delivered at once and the clock runs until all are decided or
// the limit is over: CPU time of the whole process (getrusage), wall time, and what is allocated. The side is
// dropped before the next one is set up, so that no garbage collector walks another's memory.
//
// Upstream's side is PreFilter, Filter, PreScore, Score, NormalizeScore, the choice, assuming the pod, Reserve, PreBind of
// claims that get devices (into memory) and the snapshot's update; no queue, no binding, no diagnosis, no informer, and nothing
// after a pod that fits nowhere.
// Of kinds with gangs it is kube-scheduler's own loop (pkg/scheduler) with its cycle of a pod group: the queue, the cycle, assuming,
// Permit and binding (to nowhere); gangs come one after the other.
// Ours is all that happens from when a pod arrives to when it counts as bound: the queue, the
// classes, workers and what is sent to them, the decisions and their log, and for a pod that fits nowhere
// its reasons and the search for somebody to preempt. Our classes are unknown when the clock starts.
//
// Upstream decides fewer of the pods than ours, the first of them, for its cost hardly changes
// from one to the next. Its time goes by all that it decides within the limit.
//
// Where pods come in turns (claims-full), each turn's leave with their claims before the next comes, which is charged, too.
//
// # Memory
//
// Nodes and pods are what our source of a cluster keeps of them: without what nobody reads, and with their equal
// parts in common. Our sides hold each pod once, as an informer does: the object that waited is forgotten when the
// pod is delivered, and made again for the next side.
//
// What a side keeps is the heap's growth from before it is set up to before the pods come, by the node; the
// objects of nodes and pods were there before and are told beside it. Of that the workers say
// how much their shards take, and the rest is the coordinator's, connections included: with few nodes it is mostly those.
package main
