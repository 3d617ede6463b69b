// Package preempt holds what preemption is, apart from the scheduling loop that decides it and
// from those that carry it out: whether a pod may preempt, and which text its condition gets.
//
// # Words
//
//	preemptor    a pending pod that no node takes, whose priority lets it put others out
//	victim       a pod of lower priority that has to leave the node for it
//	candidate    a node with the fewest victims that make room there
//	nominate     what an attempt does to the pod's nominated node
//
// The package is pure: it has no clock, writes nothing and knows no table. The source is
// upstream-1.36.md, section 5.
package preempt
