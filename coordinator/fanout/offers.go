package fanout

import (
	"math"

	"github.com/shardsched/shardsched/scorer/scan"
)

// Each part is asked for its share of the candidates that the caller wants, so that more workers do not mean more candidates to
// read:
//
//	wanted: the best 65 of a group       part A, half of the nodes: its best 47
//	                                     part B, half of the nodes: its best 47
//	merged: in order, until 65 are there, or all that A or B has named are used up
//
// The merged list is exact as far as it goes (scorer.Result.MergeAll): where a part has named too few, it ends sooner. Then the
// caller asks again once it has used the list up, as after a list of full length. No part is asked for more by itself: such a
// list lacks a few of its last candidates, which few callers come to, and another answer would be of a later moment.

// offers is how many candidates of each group a part with so many of all nodes offers, where n are wanted. Nodes go to shards
// by a hash of their names, so how many of the best n rows are in the part is a binomial number. Three standard deviations
// more than its mean, and two for the skew of small numbers, are enough for 99.8 of 100 lists: with two deviations eight workers had
// a list in a hundred used up too soon, and the loop waited for another round.
func offers(n, nodes, all int) int {
	if nodes >= all {
		return n
	}
	share := float64(nodes) / float64(all)
	mean := float64(n) * share
	return min(n, int(math.Ceil(mean+3*math.Sqrt(mean*(1-share))))+2)
}

// offersOf are how many candidates a group offers in the answer of some shards to each class.
func (r *round) offersOf(shards []uint32) []uint32 {
	nodes, out := r.f.nodes(shards), make([]uint32, len(r.asks))
	for i := range r.asks {
		out[i] = uint32(offers(r.asks[i].Options.Candidates, nodes, r.nodes))
	}
	return out
}

// askOf is what a part is asked of a class.
func (r *round) askOf(p *part, class int) scan.Ask {
	ask := r.asks[class]
	ask.Options.Candidates = int(p.candidates[class])
	return ask
}

// asksOf are all that a part is asked.
func (r *round) asksOf(p *part) []scan.Ask {
	out := make([]scan.Ask, p.to-p.from)
	for i := range out {
		out[i] = r.askOf(p, p.from+i)
	}
	return out
}

// nodes is how many nodes some shards have.
func (f *Fanout) nodes(shards []uint32) (n int) {
	for _, s := range shards {
		n += f.cfg.Shards.Table(int(s)).Nodes()
	}
	return n
}

// allNodes is how many nodes all shards have.
func (f *Fanout) allNodes() (n int) {
	for shard := range f.cfg.Shards.NumShards() {
		n += f.cfg.Shards.Table(shard).Nodes()
	}
	return n
}
