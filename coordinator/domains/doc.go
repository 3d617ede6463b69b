// Package domains knows the domains of the topology keys that pod groups name: which values a label key has, which of them lie in
// which of other keys, and what the nodes of each add up to.
//
// It reads the own tables. What it has read of a key is kept, and repaired where rows have changed since, so that to ask about
// a key for one pod group after the other costs what has changed between them:
//
//	table of a shard ── rows that changed ──> key: domain of each row, number of rows of each domain ──> [placement.Tree]
//	                                            └─ resource: amounts of each row, sums of each domain
//
// Only a change of labels makes the trees of a key anew.
//
// # Bounds
//
// A pod group's owner chooses the keys. So few keys and trees are kept ([maxKeys], [maxTrees]); the one that was used the longest
// ago goes first. A key with more than [MaxDomains] values has no tree, and [Index.Tree] tells it.
package domains
