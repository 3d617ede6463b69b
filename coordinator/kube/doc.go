// Package kube is a coordinator's side of the API server: where objects come from (Source),
// where decisions go (Binder, VolumeWriter, Reporter), and the Lease that keeps other
// schedulers out.
//
//	                   lists, watches                         POST pods/binding
//	            ┌──── Reads, Metadata <───┐            ┌────> PATCH pods/status
//	            │                         │            │      PATCH persistentvolumes, claims
//	         Source                   API server ──────┤      POST, PATCH events
//	(an informer for each kind)           ^            │
//	            │ Subscribe, CatchUp      │ Leases     └── FencedTransport: asks both leases
//	            v                         v                before each request
//	        Scheduler.Load            Lease                        ^
//	        Scheduler.Deliver     (kube-scheduler's)               │
//	            └── decides ──> Binder, VolumeWriter, Reporter ────┘
//
// # The source
//
// An informer for each kind that package objects knows, but for templates of claims, lists and watches as upstream's do: no
// resync, pods that have run to their end left out by the field selector. All pods come,
// whosever they are: those of other schedulers and static ones take room too. It needs no more
// of RBAC than the roles system:kube-scheduler and system:volume-scheduler allow. A kind
// that may not be listed, or is not served, is named in the log, in the error of WaitSynced and
// in that of Ready. Only the kinds of devices may be missing from an API server, such as one before 1.34.
// PodGroups are read where a feature gate says so, and WaitSynced fails where they are not served.
//
// Objects are trimmed before they are kept, to what a rule or a write of ours reads, and have
// their equal parts in common: pods of one workload their containers, labels and owners, nodes
// of one type their resources and images. What there is stays readable as a Kubernetes
// object, but it is shared, and must not be changed or written back whole.
//
// Subscribe makes objects.Events of what changes: one for each change of an object, in the order
// in which the API server made them, but objects of different kinds in any order. What came
// while the subscriber was busy is delivered together. A pod that is replaced by another of
// its name is deleted first, whether or not the informer saw it go. A pod that reaches its end
// leaves as if it were deleted.
//
// # The consistent read
//
// An informer shows the past, and its API server may be behind the others. A new leader must
// see each bind of those before it. So CatchUp lists the metadata of every kind without a
// resourceVersion, which the API server answers from a quorum of etcd, and waits for the
// informers:
//
//	listed at version v    in the informer at v or newer, or the informer has passed v
//	                       without it: it was deleted since
//	not listed             not in the informer, or newer than the list
//
// What came and went before the list, and the informer has not heard of either, may still be
// seen to come and go.
//
// A pod that is written again and again is not waited for longer than for the version that the
// list had. ResourceVersions of a kind are compared as numbers.
//
// # The writers
//
// Every request that changes something asks the fence when it is about to be sent: behind the
// rate limiter, and again at each try. See FencedTransport. Binds have connections and a rate
// limit of their own; conditions and events are written behind the loop and give way to them.
//
// Differs from upstream: there all requests of a scheduler share one rate limit, conditions
// are written in the scheduling loop, and a deposed leader writes until it notices.
package kube
