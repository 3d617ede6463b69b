// Package scan evaluates classes over tables on several cores. The worker runs
// its shards through it, and so does the coordinator when it has to answer for
// a worker: the scorer itself starts no goroutine and knows no clock.
//
//	tables  T0  T1  T2 …          one item = (table, class)
//	        │   │   │
//	  ┌─────┴───┴───┴─────┐       the caller takes items, and so does every core
//	  │ next item (atomic)│       that is idle when the run starts
//	  └──┬─────────┬──────┘
//	   hand 0    hand 1 …         a hand: one evaluator with its scratch memory
//	     └──merge──┘
//	     one Answer a class       the same whoever evaluated what
//
// A Pool has as many hands as cores, shared by all runs: a run waits for its
// first hand and takes further ones only if they are free, so runs at the same
// time share the cores and none waits for another one's end.
package scan
