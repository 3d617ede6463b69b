// Package cache is the coordinator's state of the cluster: every node as a row
// of one of S shard tables, and every pod that takes room, whether it is seen on
// its node or only assumed there.
//
// It is the only place where pods are assumed. Each change of a row is one
// delta, applied to the coordinator's own table at once and kept in the shard's
// log for the workers, so that table and workers can not tell different tales.
//
// # A pod's states
//
//	          Assume                SetPod (seen on its node)
//	(none) ----------> assumed --------------------------------> added
//	   ^                  |                                        |
//	   |      Forget      |                RemovePod               |
//	   +------------------+<---------------------------------------+
//
// An assumed pod has no time limit: it leaves by being seen, forgotten or
// deleted, as upstream's does.
//
// A pod may be on a node that is not known yet, or no longer: it is kept, and
// takes its room when the node comes.
//
// # What a row counts
//
//	usage      its pods' requests and host ports, as compile tells them
//	counters   what its pods add to each, as Counters tells, and what ChangeCounters gave the
//	           node beside (volumes that are attached to it)
//	limits     what its CSINode says, whichever of the two comes first
//	devices    slices that are the node's alone, and what is in use of their devices; shared ones are in all tables
//
// A counter that comes into use is filled once, by FillCounters, from the pods that are
// known, or by Fill, row by row; from then on each pod brings its share. Counters and limits of a name that has no
// node yet wait for it, as its pods do.
//
// Pods that look alike to counters are of one kind, as those of a workload are. A counter is filled kind by kind: those with
// its labels are found, and of each kind one pod is asked what it adds.
//
// # What preemption looks at
//
// Each pod gets a number when it comes, and keeps it for as long as it is known. With the
// delta that charges its row go its priority, start, budgets (SetBudgets) and what else
// falls where it leaves (UseDepartures); where those change alone, a delta of their own
// tells (Retell, SetPod). A column that fills a counter names the pods that
// count, so that tables know what a victim would take along.
//
// # Rows
//
// shard = hash(node name) mod S. Within its shard a node takes the row that was
// freed last, or a new one. Which row it is has no influence on any decision.
//
// A Cache belongs to one goroutine, the scheduling loop's.
package cache
