// Command drain measures schedulers on a real API server: kube-scheduler, built from
// Kubernetes' module, and ours, with the same configuration, nodes and pods, one after
// the other on this machine.
//
//	nodes ──> etcd's data ──┬── + pods ──> etcd's data ──┬─> control plane + upstream ─> drain
//	(made once, through     │  (once a workload and      └─> control plane + ours ─────> drain
//	 an API server)         │   size)
//	                        ├─> control plane + upstream <── pods arrive
//	                        └─> control plane + ours     <── pods arrive
//
// Every case has a control plane of its own that starts from a copy of the same data:
// each scheduler finds the very same objects. In each run the other one goes first.
//
// # What is measured
//
//	drain   The pods were there before the scheduler was. The rate is that from the first
//	        pod bound to the last one. The start is from the scheduler's process to
//	        the first pod bound: informers, leases, the first decisions.
//	arrive  The scheduler is there and has nothing to do; then pods come, each at its time
//	        whether or not those before are bound. The latency is from before the request
//	        that makes a pod to when a watch has told of its node.
//
// Both end when the scheduler has settled, which is when it uses less than a twentieth of
// a core for a second: it may bind first and write events later, and all of that counts as
// CPU. CPU is that of all the scheduler's processes: with ours these are coordinator,
// workers, and the etcd that it needs, which is in the coordinator's process here. CPU of
// a drain is from the process's start on, so that it has what it takes to read nodes and
// pods at first; CPU of arrivals has not.
//
// The API server's and etcd's CPU, and what the API server was asked for, stand beside:
// where these are what the machine does, no scheduler is faster. "others" is what of the
// machine's cores went to what is no part of the measurement; where that is much, only
// ratios mean anything, and these not much.
//
// # The arrangement of ours
//
// Unless flags say otherwise the coordinator evaluates its own tables, with no workers:
// on two cores that the API server uses as well, to hand a decision to another process
// costs more than the decision.
//
// Each placement is checked in the end: no node over what it has, no two pods together
// that repel each other, no zone ahead by more than is allowed.
package main
