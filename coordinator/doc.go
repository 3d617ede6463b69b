// Package coordinator is the scheduling loop of a leader.
//
// # The loop
//
// One goroutine owns the queue, the state of the cluster (package state: every node as a row of a shard
// table, every assumed pod, storage, and the counters that tell the tables which pods are
// where) and the decisions. Everything else talks to it through its inbox:
//
//	API server or store ──Deliver──┐                       ┌──> binder, evictor, reporter ──> API server or etcd
//	binder (outcomes)   ───────────┼─> inbox ─> LOOP ──────┤
//	client API (explain, summary) ─┘     │   ▲             └──> journal ──> etcd
//	                                     ▼   │ groups
//	                                   fanout ──gRPC──> workers
//
// A turn of the loop takes in a part of the inbox, moves what has waited long enough, pops a batch in queue order, asks the
// workers, or the own tables where that takes less (package tune), about the classes that it has no answer for, mostly in one round,
// and decides pod by pod. It never waits for
// a bind or for the journal. What clients ask of it costs each turn one bounded step (package observe).
//
// # Words
//
//	class         what all pods that no rule can tell apart are compiled to: one query
//	answer        what workers have said of a class, repaired since (package answers)
//	turn          one pass of the loop: some of the inbox, then a batch
//	batch         the pods that one turn pops, asks about and decides
//	ahead         of a question: workers are asked about a batch while those before are decided, drawn in ahead.go
//	way           how the classes of a batch are asked about: of whom, how far ahead, how many (package tune)
//	attempt       one try to find a node for a popped pod, drawn in attempt.go
//	decision      what an attempt comes to: a node, or why there is none
//	try           what the choice of a row knows of an attempt (package choice)
//	reviewer      an out-of-tree plugin or an extender that takes part in a choice
//	reserve       to assume a pod on its node and run Reserve and Permit for it
//	assumed       of a pod: it takes room on a node, but is not seen there yet
//	pending bind  a placement whose outcome is not known yet, drawn in bound.go
//	in flight     of a pod: popped, and neither placed nor back in the queue
//	parked        of an attempt: extenders are asked about it outside the loop
//	set aside     of a pod: it waits for work of several turns for its class (package aside)
//	nominated     of a pending pod: it keeps room on a node, usually while victims leave
//	quarantine    of a pod, class or object: passed over, because it met a bug of ours
//	term          the time for which a coordinator leads; a Scheduler lives for one
//
// # Answers
//
// Package answers decides: it holds what the workers have said of each class, repairs it after each placement, and gives the
// best row, or tells what it lacks. The loop turns what it lacks into a fan-out (fetch in batch.go, for the pods at hand, and
// askAhead in ahead.go, for those that come next), and reserves the row for the pod (place).
//
// # Counters
//
// What a class counts of other pods is filled before its pods are decided. Where that takes many steps, as of a term
// about all pods of the cluster, its pods are set aside until then, and each turn takes a part (package aside).
//
// # Volumes
//
// A placed pod's claims get their volumes with its node: what they get is assumed at once,
// written before the pod is bound, and taken back with the placement. That may change
// the volumes of a pod behind it in the batch: such a pod is compiled again when its turn comes.
//
// # Nominated pods
//
// A node to which pods of no lower priority are nominated, because their victims are still leaving,
// has to take a pod with them and without them. Such rows are judged twice, and vetoed for
// this one pod where they refuse it with them. A pod's own node is tried before all others.
//
// # Decisions
//
// decideOne (decide.go) takes a pod through the steps of a decision. Package choice takes the row: the engine's best, or with
// reviewers the best of the rows that they leave. Out-of-tree plugins look at a pod, and at the nodes that tables have left, while
// the loop waits, and after Permit they run beside the loop. HTTP extenders (package extenders) are asked behind the loop: the
// attempt is parked (attempt.go), and is decided anew with the answer. A pod that no reviewer wants goes its way as if there were
// none.
//
// # Preemption
//
// A pod without a node may have others leave: package preempt finds them for PostFilter (package choice), preemption.go has them leave.
//
// # Quarantine
//
// A pod, a class or another object that meets a bug is confined, told of, and passed over: packages quarantine and intake.
//
// # Binding cycles
//
// Package bind takes placements to their binds, behind the loop. The loop hands over those of a batch at its end, and takes
// each outcome in: a pod that is not bound gives its room back, and is tried again. See bound.go.
//
// # Terms
//
// A Scheduler lives for one term. When the lease is lost it is dropped whole, and the
// next term starts from what is stored. Package leader makes one for each term.
package coordinator
