// Package tune chooses how the classes of a batch are asked about: of workers or of the own tables, how many batches ahead, and how
// many classes a batch has. It goes by what batches took, whatever the reasons: cores, nodes, workers, round trips. It is pure: it
// has no clock, and asks nobody. No decision depends on it.
//
// # Words
//
//	way     one choice of all three
//	cost    the time that a batch took, by the class that it lacked an answer for
//	sample  the costs of the last batches by one way; its median counts, since a batch now and then is late for other reasons
//	trial   some batches by a neighbour of the way in use: one of the three is other
//
// # Trials
//
//	         the sample is full, and the pause over
//	in use ─────────────────────────────────────────> trial of the next neighbour
//	   ^                                                    │ its sample is full
//	   ├──── cheaper: it is in use, its neighbours come <───┤
//	   └──── not cheaper: the next neighbour comes  <───────┘
//
// Once no neighbour was cheaper nothing is tried for a while, twice as long each time. That begins anew once the cluster has changed,
// or the way in use costs much more than when it was chosen.
package tune
