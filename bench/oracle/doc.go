// Package oracle is upstream's own answer: kube-scheduler's framework and plugins,
// from k8s.io/kubernetes, run over an in-memory cluster one pod at a time on every
// node. Decisions of ours are held against it.
//
//	nodes, pods --> upstream's cache --> a snapshot --> PreFilter
//	                                                --> Filter on every node
//	                                                --> PreScore, Score on every feasible node
//	                                                --> Verdict
//
// What is upstream's is called, not copied; only the order of the calls stands here.
// It differs from a kube-scheduler in what the judge needs:
//
//   - every node is looked at, in one goroutine;
//   - a single feasible node is scored too, so that its score can be compared (kept
//     apart: an error of scoring counts only where more than one node is feasible);
//   - the image states of a snapshot are never older than the last change of a node:
//     upstream keeps each node's as they were when that node changed last.
//
// An Oracle belongs to one goroutine.
package oracle
