// Package intake takes changes of objects into the state of the cluster: nodes, pods on nodes, and whatever else rules read. Pods
// that wait for a node are the loop's own.
//
//	change ──> Intake ──┬─ taken in ──> state, and the pods that it may help are tried again (Loop.Move)
//	                    └─ refused, or a panic ──> quarantine: the log and a metric tell of it
//
// # Quarantine
//
// An object in quarantine is left out as far as that is safe. The term goes on, as does the term of the next leader, who finds
// the same objects:
//
//	a pod on a node     its requests count, without those of its terms, labels, volumes and budgets that failed. Where
//	                    its requests fail, its node is left out
//	a pending pod       is not in the queue
//	a node              is left out: it has no row, and no pod is placed there
//	a CSINode           is ignored, and its node is left out
//	any other object    is ignored
//	a row               that refuses a change is made anew of the node and its pods; where that fails, the node is left out
//
// Each change of the object is another try.
package intake
