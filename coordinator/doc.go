// Package coordinator is the leader: the scheduling loop, and what it takes to be
// the only one.
//
// # The loop
//
// One goroutine owns the queue, the picture of the cluster (every node as a row of a shard
// table, every promise, storage, and the counters that tell the tables which pods are
// where) and the decisions. Everything else talks to it through its inbox:
//
//	store (etcd watch) ──Deliver──┐                        ┌──> binder ──> etcd
//	binder (outcomes)  ───────────┼─> inbox ─> LOOP ───────┤
//	client API (explain, summary)─┘     │   ▲              └──> journal ──> etcd
//	                                    ▼   │ groups
//	                                  fanout ──gRPC──> workers
//
// A turn of the loop takes the inbox in, moves what has waited long enough, pops a
// batch in queue order, asks the workers in one round for those of its classes that it has
// no answer for, and decides pod by pod. It never waits for a bind or for the journal. What clients ask
// of it costs each turn one bounded step (reads.go).
//
// # Answers
//
// A workers' answer is of one moment. Every change of what a row's pods add up to since is
// a touch: the row, and what they added up to before. Before a class's next pod is
// decided, its pick is repaired: each touched row is judged as it was when the workers
// answered (to take it out of the counts) and as it is now (to put it back in), by the same
// code that the workers run. So pod n+1 sees pod n, the counts are those that upstream
// would have, and a batch decides as its pods would one by one:
//
//	answer:  group key -> rows, best candidates      touched rows: verdicts of now
//	             └── heads that are not touched ──┬── heads by score ──┘
//	                                     best of G(key) + L(row), tie rule
//
// A group lists only its best candidates. When those are used up and rows that it
// did not list might be better than all that is known, the class is asked again.
// The same happens when no row is left and the reasons are wanted.
//
// Answers are held over batches. They are given up where a node itself changes, or a counter that
// the class reads is set anew; where so much has changed since a class's last pod that a pass over
// all rows on the workers costs less than the repair; where so many rows were repaired, or
// candidates used, that they take too much memory or are about to run out; and where there are
// more than a thousand. The next answer names as many candidates as the last one was of use for. A
// class whose nodes are
// full is refused by the answer that is held, without looking at any row that has not changed.
//
// Where terms of other pods name many labels, their sums are pinned: they go out with the question, and an
// answer is given up where a pod is placed, or leaves, that carries one of the terms.
//
// Classes that differ in selectors alone, as those of Deployments that spread by default, are a family and
// have one answer: that to their base, which counts nothing. It is repaired once for all of them. A row
// of which a class counts nothing is to it what it is to the base; the others are its own, judged and
// ranked by itself. See family.go. A class is asked by itself where it has so many rows of its own that
// they cost more than an answer, where nominated pods, guests or extenders have a say in its pod, and
// where it is refused, for the reasons.
//
// # Counters
//
// What a class counts of other pods is filled before its pods are decided. Where that takes many steps, as of a term
// about all pods of the cluster, its pods are set aside until then, and each turn takes a part. See counting.go.
//
// # Volumes
//
// A placed pod's claims get their volumes with its node: what they get is assumed at once,
// written before the pod is bound, and taken back with the placement. A pod behind it in the
// batch, whose own volumes that may change, is compiled again when its turn comes.
//
// # Nominated pods
//
// A node that is promised to pods of no lower priority, whose victims are still leaving,
// has to take a pod with them and without them. Such rows are judged twice, and vetoed for
// this one pod where they refuse it with them. A pod's own node is tried before all others.
//
// # Guests
//
// Plugins that are compiled in look at a pod, and at the nodes that tables have left, while the loop
// waits; from Permit on they run beside it. Attempts that wait for extenders leave the batch and
// come back with an answer. Profiles without guests, and pods that no extender is interested in, go
// their way as if there were none. See hosted.go, hosted_place.go and park.go.
//
// # Terms
//
// A Scheduler lives for one term. When the lease is lost it is dropped whole, and the
// next term starts from what etcd holds. See RunStandalone. Where the objects are a Kubernetes API
// server's, a process has one term, and holds the Lease of kube-schedulers beside etcd's. See
// RunKubernetes.
package coordinator
