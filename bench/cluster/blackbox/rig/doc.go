// Package rig runs a scheduler on a real API server and asks it things the way that users
// do: through objects alone.
//
//	r := rig.New(t, profiles)      a bed, a coordinator, two workers
//	r.Run(t, cases)                each case: nodes, pods that are there, a pod, where it goes
//
// What a case expects is what upstream's rules say. That the tests have these right is
// shown by upstream itself: with BLACKBOX_SCHEDULER=kube-scheduler they run its process.
//
// A scheduler learns of nodes and of pods through watches of their own, in no order
// between the two: a pod may come before the nodes that were made before it. Settle knows
// when it is safe to go on. A pod can go to one node only, the one that was made or changed
// last; once it is there, the scheduler has seen that change and, as each watch keeps its
// order, all changes of nodes and pods before it.
package rig
