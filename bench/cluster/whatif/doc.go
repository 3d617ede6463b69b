// Package whatif holds what `shardsched simulate` says of a change against what becomes of the change in a cluster: a real kube-apiserver,
// Kubernetes' own controllers, and this scheduler.
//
//	go test ./cluster/whatif                            # a few changes
//	go test ./cluster/whatif -changes 200 -timeout 1h   # as many as wanted
//	go test ./cluster/whatif -seed 7                    # others
//
// Each round takes a dump, draws a change (a workload scaled, given another template, new or deleted; a node drained), asks simulate, makes
// the change, waits until nothing happens any more, and compares: each workload has to have as many pods placed, pending, and of its
// old template. Pods are all of one size, so that how many find room does not depend on which nodes they are on.
package whatif
