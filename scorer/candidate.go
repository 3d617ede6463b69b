package scorer

import "cmp"

// Candidate is a row that a group offers, with its score and the columns of the
// tie rule.
type Candidate struct {
	// Shard and Row say where the node is.
	Shard, Row uint32
	// Score is the local score, or the whole one where the result is normalised.
	Score int64
	// LastDecision is the number of the last decision that gave the row a pod.
	LastDecision uint64
	// NameHash is the xxhash64 of the node's name.
	NameHash uint64
	// Name tells nodes with equal hashes apart.
	Name string
}

// Before is the order in which candidates are chosen: the higher score, then the
// tie rule, which is the row that was least recently given a pod, then the smaller hash
// of the node's name, then the name. Names are unique in a cluster, so the order
// is total and does not depend on how nodes are spread over shards and rows.
//
// Differs from upstream: there the first of the best wins, in an order that depends on the
// timing of goroutines.
func Before(a, b Candidate) bool { return compareCandidates(&a, &b) < 0 }

// compareCandidates is negative where a is chosen before b.
func compareCandidates(a, b *Candidate) int {
	switch {
	case a.Score != b.Score:
		return cmp.Compare(b.Score, a.Score)
	case a.LastDecision != b.LastDecision:
		return cmp.Compare(a.LastDecision, b.LastDecision)
	case a.NameHash != b.NameHash:
		return cmp.Compare(a.NameHash, b.NameHash)
	case a.Name != b.Name:
		return cmp.Compare(a.Name, b.Name)
	case a.Shard != b.Shard:
		return cmp.Compare(a.Shard, b.Shard)
	}
	return cmp.Compare(a.Row, b.Row)
}
