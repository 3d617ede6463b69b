// Command hostile shows what somebody who may create pods in one namespace can do to the
// scheduling of all others: kube-scheduler and ours on a real API server, one attack after the
// other, the same on both sides.
//
//	            settle     calm          attack              wait
//	victims   ──┼──────────┼─────────────┼───────────────────┤ ··· until all are bound
//	attacker                             ┼───────────────────┤
//
// Each case has a control plane of its own that starts from a copy of the same data: hollow nodes,
// and pods that run on them in hundreds of namespaces. Victims are plain pods that come at an even
// rate into a namespace of their own. The attacker acts as a user who may do in one other namespace what
// Kubernetes' role "edit" allows, and nothing elsewhere. What an attack makes is in the catalogue: see
// catalogue.go.
//
// # What is measured
//
//	p50, p99   of the victims, from before the request that makes a pod to when a watch has told of
//	           its node; of a pod that is not bound at the end, its age then
//	unbound    victims without a node when the wait is over
//	MiB        the scheduler's process in RAM: the most in the calm, the most under attack, and at the end.
//	           The etcd that ours needs is a process beside it
//	made       pods of the attacker: a side under which the API server comes to a standstill is attacked less
//	cores      that the scheduler uses under attack. Where these are few, and latencies high, it is the API server
//	           that is busy with the attacker's requests
//	leader     whether the Lease is held at the end by whom it was held at first
//	log, etcd  what the scheduler prints, and what ours writes to its etcd, per second of the attack
//
// The attacker's pods of a bystander name a scheduler that is not there: what is left is what they cost by
// being made, stored and watched, which no scheduler can avoid.
//
// With -churn, one scheduler meets all attacks again and again on one control plane, what they made being
// deleted after each; its memory is told after each round.
//
// # The verdict
//
// A scheduler stands an attack where none of the victims is unbound, the leader stays, and
//
//	p99     is at most twice the calm one, or twice the bystander's, or 50 ms: what a turn of the loop may take
//	memory  is at most 1.2 times the calm one or the bystander's, or what kube-scheduler takes under the same attack
//
// The command fails where ours does not. After a churn, memory is at most 1.2 times what it was after the first round.
package main
