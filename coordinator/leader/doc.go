// Package leader is a coordinator's terms: it stands for election, makes a scheduler of what is stored, runs it as
// long as this process leads, and gives its leases up. The scheduler itself is package coordinator's.
//
//	              ┌───────────────<── Mode.next: again ──<───────────────┐
//	              v                                                      │
//	Mode.ready ─> campaign ─> load ─> run ─────────────────────> resign ─┤
//	              etcd's lease, │     until a lease is lost,             │
//	              then the Lease│     the scheduler ends,                └─> Mode.next: the process ends
//	                            │     or the process is told to end
//	                            Mode.prepare, Mode.subscribe
//
// leader.go is this flow, top to bottom, for both ways to run. The two are Modes: kubernetes.go, where objects are an API
// server's, and standalone.go, where they are in etcd.
//
// # Words
//
//	term      the time for which a process leads, and its fencing number: see package lease
//	lease     what a leader holds: etcd's lease always, the Kubernetes Lease beside it where kube-schedulers are kept out
//	fence     what is asked right before each write, and lets it pass only for the leader. The leases of a term are
//	          one; a Fence is a process's, and closed between terms
//	follower  the client API's side: it answers while this process leads, else it names the leader
//
// # What ends a term
//
//	cause                                            Kubernetes                    standalone
//	the process is told to end                       binds under way end, 0        0
//	etcd's lease or the Lease is lost (ErrDeposed)   the process: ErrLeaseLost     stand for election again
//	a worker knows a newer leader (ErrDeposed)       the process: ErrLeaseLost     stand for election again
//	objects or the journal can't be read             they are read again           stand for election again
//	informers, or the watch of etcd, end             the process, with the error   stand for election again
//	the scheduler's tables are wrong: a bug          the process, with the error   stand for election again
//
// Before a term has begun, the loss of etcd's lease and a Lease that is out of reach do no harm: the process stands for
// election again. Which errors end a scheduler stands at Scheduler.fail.
package leader
