// Package conformance holds our decisions against upstream's plugins, decision by
// decision.
//
//	Scenario --> Ours: the scheduler itself, in memory   --> decision log --+
//	    |                                                                   v
//	    +------> Replay: package oracle, and our scorer on every node --> differences
//
// For a decision that chose a node: upstream finds the node feasible, gives it the score
// that we give it, no node a higher one, and finds as many nodes feasible. For one that
// chose none: upstream finds none either, and says so with the same words.
//
// Beyond what a decision shows, every node is compared: feasible or not, the
// reasons, and each plugin's score, raw and weighted.
//
// A Scenario that shows a difference is made smaller with Shrink, and written down as
// YAML.
package conformance
