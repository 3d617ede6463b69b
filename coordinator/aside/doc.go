// Package aside has pods wait in the queue for work that is too much for one turn of the loop, and has that work done a part each turn:
//
//	ForCounters   the counters that a pod's class reads are not filled yet (package state)
//	ForDevices    devices for its claims are not all searched for yet
//	ForGangs      its gang is to be tried in more domains, or victims are to be looked for that make room for its gang
//
// Batches of pods that were set aside take turns with those of all others. Between its parts the work rests, so that others find the
// loop idle most of the time. A pod's decision is then what it would have been at once.
//
// # Devices
//
// Devices are searched for once for each state that the devices of nodes are in, and a search takes up to devices.DefaultBudget
// steps of some 50 ns. Claims that are hard to meet, on nodes that all differ, would hold workers and the loop for minutes. So
// workers, own tables and decisions stop at a number of steps, with scorer.ErrUnfinished, and what they have found is kept
// (scorer.Searches): the pod is set aside, and tried again in slices until all is found.
//
//	batch ── within the steps ──> decided
//	  │
//	  └── more ──> set aside in the queue ── slice ── all is found ──> decided
//	                  ^                        │
//	                  └── the loop rests ──────┘ more
//
// A slice is a batch of one class. Between slices the loop rests from searching.
//
// # Gangs
//
// A gang whose pods differ is tried in one domain after the other, for gangTime in a row; to look for its victims is one step. After either
// all gangs wait that would go on, or begin, with the like, and namespaces take turns.
package aside
