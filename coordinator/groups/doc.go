// Package groups knows PodGroups and their members: what a PodGroup asks for, which pods name it, and how many of them have a node.
//
// A pod names its PodGroup by spec.schedulingGroup; the PodGroup need not exist. The package follows kube-scheduler 1.36
// (upstream-1.36-groups.md, A1, A2 and A4).
//
// # Words
//
//	PodGroup   the object of the API; Spec is what it says, in whichever version of the API it was read
//	pod group  the PodGroup, if there is one, and its members
//	member     a pod that names the PodGroup
//	gang       a pod group whose PodGroup has the policy gang: at least minCount members start, or none
//	whole      a pod group whose PodGroup has the disruptionMode PodGroup: preemption takes all of its pods on nodes, or none
//	scheduled  a member that is assumed on a node or bound to one
//	asks       what annotations of a PodGroup ask for beyond upstream's API
//	verdict    what is known of why a pod group waits, or that it runs
//
// # State
//
//	Groups ── namespace/name ──> Group ─┬─ Spec, from Set until Remove
//	                                    └─ members, by UID
//
//	member:   PodSet ──> unscheduled ── Assumed ──> assumed ── PodSet, with a node ──> bound
//	                          ^                        │
//	                          └────── Forgotten ───────┘            PodGone: from everywhere
//
// A pod group is found by its name: a PodGroup that is deleted and made again has the members of the old one. It is there as long
// as the PodGroup or a member is. Pods on no node are members only where they are this scheduler's; pods on nodes always. Pods that
// have ended are no members: their number may fall below minCount again.
//
// # Use
//
// A Groups belongs to the scheduling loop and has no lock. Where the gate GenericWorkload is off there is none: all methods of a
// nil *Groups do nothing, and no pod has a pod group.
package groups
