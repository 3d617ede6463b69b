// Package preempt decides preemptions: whether a pod that no node takes may preempt others, which nodes are candidates, which
// pods have to leave them, and which candidate is the best. The scheduling loop carries out what it finds. The source is
// upstream-1.36.md, section 5.
//
// # Words
//
//	preemptor    a pending pod that no node takes, whose priority lets it preempt other pods
//	victim       a pod of lower priority that has to leave the node for it
//	candidate    a node with the fewest victims that make room there
//	dry run      the search of rows for candidates: which pods would have to leave each, and which are reprieved
//	to try       a row: its part of a dry run
//	nominate     what an attempt does to the pod's nominated node
//
// # Shared dry runs
//
// Preemptors often come in great numbers: thousands of pods of one class and priority, and a cluster that is full. What the
// dry run for the first pod finds serves the next ones, as long as the tables are the same:
//
//	dry run    c1 c2 c3 c4 … cn         the best n candidates of all rows, by the workers, and why the other rows are none
//	           │  └─ free
//	           └─ nominated since: tried here, once for each change of its nominations
//
// Each preemptor takes the first candidate that is free, or the best row that was tried here, whichever is better. Rows that
// have changed since are tried here, too, and rows of pods that a budget counts which allows more or less since. The workers
// are asked again where all n candidates are taken and there may be more, where many rows have changed, or where the sums
// over all rows have changed that the class's filters read.
//
// Rows to which pods of no lower priority are nominated ([nominees.Nominee]) are always tried here: with these pods and without.
// Where plugins that are compiled in judge nodes ([Plugins]) all rows are tried here. With [Config].WholeGangs rows with pods that leave
// together are tried here, too, all at once.
package preempt
