// Package chaos takes a Kubernetes cluster apart while its pods are scheduled, and holds
// what is left against what must be.
//
//	creator, owners of pods ──┐                       ┌── etcd          killed
//	nodes that come, go,      ├──> kube-apiserver ────┘                 killed
//	shrink and are cordoned ──┘     ^  killed
//	                                │
//	        coordinators ───────────┴──> own etcd                       killed, away
//	             │  the leader: killed, stopped for longer than its leases
//	             └──> workers                                           killed
//
// Two things are evidence. The history of the API server's etcd, every revision of it: no pod
// is lost or bound twice, no node is ever given more than it has (audit.Registry). And the
// API server's audit log, in which every life of a coordinator has a token of its own: no two
// terms overlap, a leader that was stopped writes nothing when it goes on, and the next one
// binds in time (JudgeTerms). The journal in the schedulers' own etcd is held against its
// transactions (audit.JudgeWriters).
//
// Nearly all of the cluster is used, and half of the pods ask to be packed: each goes where
// the least is left, so that a pod that one leader does not know of is one too many at once.
//
// Where gangs come beside, each has all the pods that it needs on nodes or none, but for as long as a takeover takes.
//
// The test has a size that fits; "make chaos" is the whole thing.
package chaos
