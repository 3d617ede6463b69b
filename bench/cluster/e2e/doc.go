// Package e2e runs shardsched as its users do, as separate processes around a separate
// etcd, and takes processes away from it.
//
//	test ──SchedulerService──> coordinator ×2 ──WorkerService──> worker ×3
//	  │                           │                                 │
//	  │ reads, and judges         v                                 v
//	  └───────────────────────> etcd (fsync on; it writes down every request to write)
//
// The etcd is the test binary itself, started a second time. What is demanded stands in
// package audit; this package brings the cluster into trouble. Processes' output is shown
// where a test fails; go test -artifacts keeps all of it.
package e2e
