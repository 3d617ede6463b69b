// Package oracle is upstream's own answer: kube-scheduler's framework and plugins,
// from k8s.io/kubernetes, run over an in-memory cluster one pod at a time on every
// node. Decisions of ours are held against it.
//
//	Set, Remove -+-> nodes, pods --> upstream's cache --> a snapshot ---+
//	             +-> all other objects --> upstream's listers ----------+
//	             +-> waiting pods --> upstream's queue: nominations ----+
//	                                                                    v
//	           Judge: PreFilter --> Filter on every node (the nominated one first)
//	                            --> PreScore, Score on every feasible node --> Verdict
//	           Place: assume, Reserve --> what a scheduler would write of volumes and devices
//
// A Config is a KubeSchedulerConfiguration file, read by upstream. Of its plugins all are
// run, feature gates at their defaults; DefaultPreemption evicts nobody.
//
// What is upstream's is called, not copied; only the order of the calls stands here.
// It differs from a kube-scheduler in what the judge needs:
//
//   - every node is looked at, in one goroutine (Decide, for benchmarks, takes more); results of earlier pods are never
//     used again (the feature gate OpportunisticBatching);
//   - a single feasible node is scored too, so that its score can be compared (kept
//     apart: an error of scoring counts only where more than one node is feasible);
//   - the image states of a snapshot are never older than the last change of a node:
//     upstream keeps each node's as they were when that node changed last;
//   - the search for devices on a node has no limit of time (filterTimeout 0);
//   - what NodeResourcesFit remembers of devices and nodes, to score extended resources that devices
//     stand for, it forgets where one of them changes: upstream remembers for ever;
//   - no goroutine watches objects: a change is there at once, and under a new
//     resource version, so that nothing is assumed of an object that has changed.
//
// Where upstream takes any (of several volumes of the smallest size that fits, of several claims to
// be deallocated), so does the oracle. Of the errors of several nodes, of which upstream has the one
// that a goroutine comes to first, it has that of the node first by name.
//
// An Oracle belongs to one goroutine.
package oracle
