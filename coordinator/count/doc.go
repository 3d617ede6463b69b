// Package count names what is counted of pods. A counter is one number for each node:
// how many of its pods match a selector, or carry an affinity term, or use a disk. The
// tables and the workers only add the numbers up, under the counter's id; what an id
// stands for is known here alone.
//
//	Spread     pods of one namespace that match a selector and are not being deleted
//	Pods       pods of some namespaces, or of all, that match a selector
//	term       pods that carry an affinity term, by kind: required affinity, required
//	           anti-affinity, or preferred (each with its weight)
//	Key        pods that use a disk, a claim, or claims of a name
//
// # A counter's life
//
//	          Spread, Pods, Keyed: a class is compiled         TakeNew: whoever keeps
//	          Carry: a pod's terms count from here             the pods fills a column
//	(none) ---------------------------------------> new ----------------------------> in use
//	                                                                                    |
//	(never used again) <-- TakeDropped: the column goes <-- dropped <-- Sweep: no pod   |
//	                                                                    carries it, no  |
//	                                                                    class asks for it
//
// Ids count up from 1 and are never given again. From the moment that a counter has an
// id, Contributions tells what a pod adds to it; pods that were put in before are asked
// by Counter.Value, once. While a counter is postponed (Postpone, Open) no pod adds to it.
//
// Drop takes counters out before Sweep does: Unused are those that nobody has asked for of late.
//
// # A term's life
//
// A term counts for others while a pod carries it that is on a node (seen or assumed), nominated, or in the
// batch that is decided:
//
//	         Carry, a node has the key                Release, by the last
//	(none) ----------------------------> looked up ------------------------> resting ──> (none)
//	   └── Carry ──> waiting ──Appeared──────^  ^──────────── Carry ────────────┘
//
// A waiting term has a topology key that no node has had: no counter, and nobody is held against it. A
// resting term is held against nobody either; it keeps its counter for a while, within bounds, so that a
// pod that is tried again and again does not make other classes of those that it matches.
//
// # Two directions
//
// Contributions answers for a pod that is placed or seen: which counters does it add to?
// Matching answers for a pod that is to be scheduled: which terms of other pods match it?
// Both look selectors up in an index of the pod's namespace (package selector) and keep
// the answer by what the selectors see of the pod's labels, so the pods of one workload
// cost one look-up each, whatever number of selectors there is.
//
// A term that names namespaces is filed with these, one with a namespaceSelector once for all: its selector
// is held against the namespace of a pod that the rest of the term matches. So a term comes and goes in
// as many steps as it names namespaces, however many there are.
//
// A term's namespaceSelector is held against the labels of the namespace of the pod that
// is to be scheduled. For a pod's own terms upstream resolves it to names instead
// (Namespaces in package compile does); that is why counters know names only.
//
// A Registry belongs to one goroutine, the scheduling loop's.
package count
