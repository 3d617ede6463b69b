// Package state is all that the loop knows of the cluster: nodes and pods, the objects that select pods, storage, and the
// counters by which the tables know of them.
//
//	                 ┌─> cluster   namespaces, services, controllers    ┐
//	a change ──State─┼─> budgets   PodDisruptionBudgets                 ├── what compile reads
//	                 ├─> volumes   claims, volumes, what is assumed     ┘
//	                 ├─> counters  who counts which pods                ──┐
//	                 └─> cache     nodes as rows, pods on nodes, deltas <─┘ what each pod adds
//
// State keeps these parts in step: each change of a pod reaches every part that counts the pod. It knows no queue of events, no
// workers and no time: the loop says when counters are to be filled further, and for how long.
//
// # Panics
//
// A change that panics ends in an error, so that one object ends no term. The part of a pod that may be left out is told of by
// OnUntold of package cache. A row that no longer agrees with its pods is handed to Hooks.Mend.
package state
