// Package placement finds out where a gang goes when its members have to be, or would rather be, close together. It is arithmetic on
// numbers: how many members each domain takes, and what its nodes add up to. It knows no pods and no nodes, and does no I/O.
//
// # Words
//
//	gang       the members of a pod group, placed as one transaction; here those that still wait
//	domain     the nodes with one value of a topology key: rack=r7
//	copies     how many members a domain takes in all, each by itself (Σ c_r over its nodes)
//	cell       the nodes with the same values of all keys that a gang names
//	scope      the domains that a gang may be in: those of its required key, or the whole cluster
//	level      the domains of one preferred key. The narrowest comes first: host, rack, block
//	slice      so many members in order that have to be in one domain of the slice key
//	share      so many members, in order, that go into one domain
//
// # The choice
//
// A gang without preferences goes where upstream's plugins say: each scope that takes enough members is a [Candidate], and [Best]
// takes the one with the highest total of PodGroupPodsCount ([PodsCount]) and NodeResourcesFit ([MostAllocated]). Equal totals go to the
// scope with the least room left, then by the hash of its value.
//
//	cells ──> Tree, and copies by domain
//	     v
//	scopes that take enough ── none: the best of them, for the verdict
//	     │ target: the most members that any scope takes
//	     v
//	level 0: domains in such scopes that take the target ── the smallest of them
//	level 1: …                                           ── the smallest of them
//	     │ none
//	     v
//	the scope that Best takes
//	     v
//	shares: inside the domain, as few domains of each narrower level as possible
//
// A preference never costs a member: a domain counts only where it takes as many members as any scope would.
//
// Differs from upstream: sums do not overflow. They end at the largest number, and the score is computed in 128 bits.
package placement
