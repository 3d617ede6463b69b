// Package units decides which pods have to leave for a gang, once somebody knows that the gang fits if all left that may have to.
// The source is upstream-1.36-groups.md, A9.2.
//
// # Words
//
//	unit         what leaves, or stays, as a whole: a pod, or all pods on nodes of a PodGroup with disruptionMode PodGroup
//	importance   the order of units: those of lesser importance leave first
//	violating    a unit whose eviction a PodDisruptionBudget does not allow, were all more important ones evicted, too
//	reprieve     to let a unit come back
//
// # The order
//
// All units have left. They come back one by one, and those with which the gang fits no more are the victims:
//
//	most important ─────────────> least important
//	violating  ──────────────────────────────────┐ first
//	the others ──────────────────────────────────┘ then
//
// Whether the gang still fits is the caller's to say, for each unit once: by the copies that all rows take together, where the
// members are alike ([scorer.Leavers]), or by the placement that was found.
package units
