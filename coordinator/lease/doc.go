// Package lease elects one leader among the coordinators of a cluster and lets it prove,
// before and in every write, that it still leads.
//
// # The election
//
// Each contender holds an etcd lease and puts a key with it:
//
//	/shardsched/<cluster>/leader/<lease id in hex> = LeaderRecord
//
// The key with the lowest create revision leads; every other waits for the key right before
// its own to go. That is the layout and the rule of etcd's own concurrency package, so
// etcdctl elect --listen understands it. The create revision is the term: unique, and higher
// for every later leader.
//
//	         grant, put key                no earlier key
//	Campaign ──────────────> contending ──────────────────> leading
//	    ^                        │ lease lost                  │ deadline passed, lease or key
//	    └────────────────────────┘                             v gone, or Resign
//	                                                         lost (for ever: Done is closed)
//
// # Two fences
//
// A leader that was stopped (kill -STOP, a swapped-out machine) does not know when it wakes.
// So leadership is proved twice:
//
//   - Check, before a write is sent: the deadline is the time at which the last successful
//     renewal was *sent* plus the TTL that etcd granted, on the monotonic clock. etcd began to
//     count later, so the deadline here is never later than the one there, as long as the
//     two clocks run equally fast.
//   - Compare, in the write itself: etcd commits only while the leader's key still has the
//     create revision of this term. It holds whatever the clocks do.
//
// Check makes a deposed leader silent, Compare makes it harmless: also where the clock
// stood still, as the monotonic clock of a suspended machine does.
//
// Renewals are our own and not etcd's KeepAlive, because that does not tell when a renewal
// was sent.
package lease
