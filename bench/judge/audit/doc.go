// Package audit judges a scheduler by what it left in etcd, and by nothing else: it
// shares no code with the scheduler but the API types and the journal's message.
// What follows is of a standalone one; Registry judges what schedulers did to an API
// server's pods, in the same way.
//
// It takes three kinds of evidence:
//
//	History    every write of every key of a cluster, from the first revision on: etcd's
//	           own MVCC record (etcd must not have been compacted)
//	claims     the pods that the scheduler acknowledged to its clients
//	Txn        what etcd was asked to write, by whom (the leader key compared), and what
//	           it answered, taken down by a Recorder inside the etcd process
//
// and replays the history, revision by revision:
//
//	          first write                    nodeName written              anything else
//	absent ───────────────> pending ─────────────────────────> bound ───────────────────> fault
//	                          │                                  │
//	                          │ at the end: a stated reason,     │ at every bind: the node is there, admits
//	                          v and no node that it would fit    v the pod, and has room and ports for it
//
// JudgeWriters holds the transactions against the leaders' reigns: every write of an
// object or of the journal names a term and falls inside it.
package audit
