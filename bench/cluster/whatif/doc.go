// Package whatif holds what `shardsched simulate` says of a change against what becomes of the change in a cluster: a real kube-apiserver,
// Kubernetes' own controllers, and this scheduler.
//
//	go test ./cluster/whatif                            # a few changes
//	go test ./cluster/whatif -changes 200 -timeout 1h   # as many as wanted
//	go test ./cluster/whatif -seed 7                    # others
//
// Each round takes a dump, draws a change (a workload scaled, given another template, new or deleted; a Job new, scaled, suspended or
// deleted; a node drained or removed; nodes added), asks simulate, makes the change, waits until nothing happens any more, and compares:
// each workload has to have as many pods placed, pending, and of its old template. Pods are of different sizes, but what a node runs out of
// is their number: how many find room does not depend on which nodes they are on. Where it does, for pods are large, they are gone before
// the next change. Nor is a change made whose outcome is chance, see races.
package whatif
