// Package store keeps the objects and the queue journal of a standalone scheduler in
// etcd. It is the only place that writes them, and every write is fenced.
//
//	/shardsched/<cluster>/
//	  objects/nodes/<name>            Kubernetes protobuf (package objects)
//	  objects/namespaces/<name>
//	  objects/pods/<namespace>/<name>
//	  queue/<pod uid>                 QueueEntry of a pending pod
//
// The mod revision of an object's key is its resourceVersion; it is not part of the
// stored bytes.
//
// # What it promises
//
//   - A write is acknowledged after etcd has committed it, and never by a deposed leader:
//     Fence.Check is asked right before each transaction is sent, and Fence.Compare is part
//     of each.
//   - Optimistic concurrency, object by object: a write rests on the revision that it read,
//     and a transaction of a hundred of them that is refused tells, in the same round
//     trip, which ones another write came before. Those get a precise error or are
//     planned anew; the rest is sent again at once.
//   - An answer that does not come (etcd restarts, the connection breaks) is not taken for
//     a failure. The same transaction is sent again until it is answered, the leadership
//     ends, or ctx does; a write that finds its own bytes there has succeeded. Only then
//     comes ErrUnknown, and the caller must not assume either outcome.
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
//	                          └─────> conflict: planned anew (Apply, Delete) or refused (Bind)
//
// # Limits
//
// External etcd servers take 128 operations a transaction and 1.5 MiB a request, so
// transactions hold at most 100 operations (a bind takes two: the pod and its journal
// entry) and 1 MiB, several of them under way at once. Objects of one Apply that are
// not written yet when it fails are named in its error by their number.
//
// Differs from upstream: Apply replaces an object instead of merging fields; deleting is at
// once, without grace period or finalizers, and deleting a namespace leaves its pods. A
// pending pod's spec may be changed; a bound one's may not, in no field.
package store
