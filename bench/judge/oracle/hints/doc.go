// Package hints holds the coordinator's queueing hints against upstream's: random pods wait
// for random changes of the cluster, and one tells the other whether the wait is over.
//
// Upstream's side is its framework with its plugins: what they register for, matched to an
// event as its queue does, and their hint functions. Ours is a queue with one pod in it that
// one plugin rejected. Both see the same objects; the names of the events have to be equal
// too.
package hints
