// Package queue holds the pods that are on no node yet, and says which is to be tried next,
// and when.
//
// It promises that no pod is lost: each is in one place, and each place has a way out. It
// follows kube-scheduler's scheduling queue (upstream-1.36.md, section 4) with queueing
// hints and PopFromBackoffQ on, as they are by default.
//
// # Places
//
//	                      Add
//	                       |
//	                     gates? ---held---> Gated
//	                       |                  | Update: no gate holds it any more
//	                       v                  |
//	+------------------> Active <-------------+
//	|                      |
//	| backoff over         | PopBatch: priority, then Timestamp, then arrival
//	|                      v
//	|     +------------> InFlight --Done--> (out)        --GiveBack--> Active
//	|     |                |     |
//	|     | popped early:  |     | Error
//	|     | Active is      |     v
//	|     | empty          |   ErrorBackoff --backoff over--> Active
//	|     |                |
//	|     |                | Unschedulable, rejected by plugins
//	|     |                v
//	|     |         an event since the pod was popped that may help it?
//	|     |             yes |                | no
//	|     |                 |                v
//	|     |                 |          Unschedulable
//	|     |                 |                | an event that may help: Move, Update
//	|     |                 v                | 5 minutes, every 30 s: Flush
//	|     |          still backing off? <----+
//	|     |            yes |     | no
//	|     |                v     +-------> gates? --> Active
//	+-----+------------- Backoff
//
// Delete takes a pod out of every place; one in flight leaves with Done or its failure.
// GiveBack puts a pod that was popped early back to Backoff, and a member of a pod group that was popped with a mate back to where it was.
// Activate takes one from every waiting place to Active. Gates (PreEnqueue) are asked
// whenever a pod comes into Active or Backoff from elsewhere, but not from Backoff to
// Active.
//
// # Order
//
// Higher priority first, then the older Timestamp, then the earlier arrival. The Timestamp
// is when the pod was added or failed last: a pod that failed goes behind those of its
// priority that came meanwhile.
//
// # Backoff
//
// 1, 2, 4, 8, 10, 10 … seconds, aligned to whole seconds:
//
//	BackoffUntil = truncate(Timestamp + duration)
//	backing off  = BackoffUntil >= truncate(now)
//
// so that a pod waits between duration − 1 s and duration + 1 s, and pods that failed within
// one second become ready together, in the queue's order. Errors and rejections are counted
// apart, an error in a row with others goes first; a rejection sets errors back to none. A pod
// in Backoff is popped before its time where Active is empty; one in ErrorBackoff never is.
//
// # Events
//
// An event is a change of one property of an object of the cluster. A Plugin registers for the
// events that may make a pod fit that it rejected, with hints that look closer: If at the
// event alone, Helps at the pod too. A pod is tried again when one of the plugins that rejected
// it says so. The catalogue of rules (package rules) names the plugins.
//
//	index     plugin -> buckets -> pods       bucket = {rejecting plugins, class, likeness, longest}
//	          topic  -> buckets               claims that pods name among them
//	flights   pods in flight, in order of take-off, each with the number of the
//	          first event that it has not seen
//	events    e17 e18 e19 …                   since the first of them took off
//
// An event is held against one pod of each bucket of the plugins that registered for it and
// whose If lets it pass; one about a PersistentVolumeClaim only of those that use the claim.
// With pods of a few hundred classes waiting, an event that helps none of 500,000 pods costs
// a few hundred calls; the pods are not walked. Pods whose class is not known are judged one
// by one.
//
// Pods of one class may differ in what hints read: their claims, their terms as written, what
// default constraints find them by. The likeness is a fingerprint of that. Their own labels are
// not in it, for each pod of a StatefulSet has one of its own: a bucket notes the keys in which
// its pods differ, and where a hint reads one of those, each pod is asked. Of more than 64 keys it notes that there
// are so many.
//
// A pod whose lists are long (long.go) has a bucket of its own: hints do not walk the lists, and each event that one of
// its plugins waits for helps it.
//
// A bucket's pods stand in the queue's order. An event that makes room on a node moves as many of
// them as the node has room for (room.go).
//
// A pod's selectors are read once, not once per event.
//
// What the queue does not know (plugins that give Pending) it does not hold yet.
//
// # Pod groups
//
// Pods that are of one pod group (package groups) are in places of their own as any others, and a Group knows them. They act as one
// entry, at these points:
//
//	PopBatch       with a member come all that are queued, by priority, then FirstAttempt: from Active, both kinds of backoff and
//	               Unschedulable. So the pod group's rank is its best member's. They are never split over batches
//	Turn           goes by the best member in flight
//	Gated          members that lack their PodGroup or mates come to Active together, by Regroup or with the mate that was missing
//	GroupFailed    follows Unschedulable or Error of each: the longest backoff is everybody's, and each waits for what any of them
//	               was rejected by. A pod group is not popped before its backoff is over
//	an event       that helps one has all of them tried; where they are alike, once it has made enough room (group_wait.go)
//	Add            a new member that no gate holds has all of them tried with it
//	Delete         the others are tried, for they may fit without it; not where all are alike
//	Regroup        where fewer have to fit than at the last attempt, or the PodGroup is another one, all of them are tried
//
// Update, Activate, GiveBack, Done and Restore are a pod's own.
//
// # Nominations
//
// A pod may be nominated to a node: by its status, or by Nominate. Nominated lists the pods of
// a node in the order in which they were.
//
// What Nominate says holds until the pod's status names another node than before, for the status
// is written behind the loop, or by nobody.
//
//	comes, to Active       what its status says; a gated pod is not nominated yet
//	updated                what its new status says, or Nominate. It goes to the end of the list
//	updated in flight      nothing, until the attempt is over
//	Unschedulable          what its status says, or Nominate said before, then Nominate
//	Error                  none, then Nominate
//	Done, Delete           none
//	Restore                what its status says, or else the journal
//
// A pod whose victims are being told to leave is gated by DefaultPreemption where something moves it
// meanwhile, until Preempted.
//
// Where a pod is decided one at a time, those behind it are still waiting; so pods in flight
// stay nominated until the caller ends their attempts.
//
// # Use
//
// A Queue belongs to one goroutine, the scheduling loop's, and has no lock. Its clock is
// passed in. The loop is
//
//	for {
//		take in changes: Add, Update, Delete, Move
//		pods = q.PopBatch(n, pods[:0])
//		if len(pods) == 0 { wait for a change, or until q.NextWake() }
//		for each: q.Turn, or else q.GiveBack from here on;
//			q.Done, q.Unschedulable (after ClassID is set) or q.Error; q.Nominate
//	}
//
// # Journal
//
// Entry is what a new leader has to know of a pod that was tried. Restore, before Add, gives
// it back: attempts, counts, first attempt, reasons and the end of an error's backoff are
// as they were. What the journal can not tell is which events came since; so a pod that
// plugins rejected backs off once more from the moment of Add, and is then tried. New pods
// go first meanwhile, and no pod is forgotten.
package queue
