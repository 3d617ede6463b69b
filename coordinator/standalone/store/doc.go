// Package store keeps the objects and the queue journal of a standalone scheduler in
// etcd. It is the only place that writes them, and every write is fenced.
//
//	/shardsched/<cluster>/
//	  objects/nodes/<name>              Kubernetes protobuf (package objects),
//	  objects/pods/<namespace>/<name>   each kind under its plural
//	  objects/storageclasses/<name> …
//	  queue/<pod uid>                   QueueEntry of a pending pod
//	  gangs/<namespace>/<name>/…        GangCommit of a pod group whose pods are being bound
//
// The mod revision of an object's key is its resourceVersion; it is not part of the
// stored bytes.
//
// # What it promises
//
//   - A write is acknowledged after etcd has committed it, and never by a deposed leader:
//     lease.Fence's Check is asked right before each transaction is sent, and its Compare is part
//     of each.
//   - Optimistic concurrency, object by object: a write rests on the revision that it read,
//     and a transaction of a hundred of them that is refused tells, in the same round
//     trip, which ones another write came before. Those get a precise error or are
//     planned anew; the rest is sent again at once. Update alone is all or nothing.
//   - An answer that does not come (etcd restarts, the connection breaks) is not taken for
//     a failure. The same transaction is sent again until it is answered, the leadership
//     ends, or ctx does; a write that finds its own bytes there has succeeded. Only then
//     comes objects.ErrUnknown, and the caller must not assume either outcome.
//   - A watch delivers every change after its revision, in order, none twice, over any
//     number of reconnects, or it ends with ErrCompacted.
//
// # One write
//
//	             send                       compare held
//	planned ────────────> in flight ─────────────────────────> committed
//	   ^                   │  │  │  own bytes found after an unanswered attempt
//	   │   unanswered      │  │  └────────────────────────────> committed
//	   └───────────────────┘  │  revision moved
//	                          └─────> conflict: planned anew (Apply, Delete) or refused (Bind, Update)
//
// # Claims of pods
//
// Where there is no Kubernetes, nobody else makes the claims of generic ephemeral volumes.
// So Apply makes those of each pod after it, owned by it, and Delete removes them after it. Both do
// so again when they are repeated: an answer that was acknowledged has its claims. A new
// claim that names no storage class gets the default one, as the API server gives it.
//
// The same holds for resource claims, which upstream's controller tends:
//
//	a pod of a template, applied        its claim is made; where the template comes later, with the template
//	a pod on a node, applied            an allocated claim that it uses is reserved for it
//	a pod deleted, evicted, at its end  its own claim goes; others it uses no more
//	the last user gone                  the claim is not allocated any more; it goes if it was deleted meanwhile
//
// Tend does for a new leader what the one before may have left undone between these writes.
//
// # Limits
//
// External etcd servers take 128 operations a transaction and 1.5 MiB a request, so
// transactions hold at most 100 operations (a bind takes two: the pod and its journal
// entry) and 1 MiB, several of them under way at once. Objects of one Apply that are
// not written yet when it fails are named in its error by their number.
//
// Differs from upstream: Apply replaces an object instead of merging fields; deleting is at
// once, without grace period or finalizers, but for resource claims in use, and deleting a namespace leaves its pods. A
// pending pod's spec may be changed; a bound one's may not, in no field. So it is with
// claims, but that a bound one's size and attributes may. What a volume or claim is bound to, and what is allocated to a resource
// claim, stays with it when its manifest is applied again; and a claim keeps the uid that it comes with, for the
// volumes of a dump name their claims by it.
package store
