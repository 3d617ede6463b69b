package scorer

import (
	"math/bits"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// pair is cpu and memory as columns of a table, in the order in which a strategy scores them. It has
// the loops of the default profile, which take most of the time of a pass over all rows, and are
// there twice: for machines with AVX-512, and for all others.
type pair struct {
	usedA, allA, usedB, allB []int64
	requestA, requestB       int64
	// evenness is derived.evenness.
	evenness []uint8
}

// pairOf finds the columns of cpu and memory.
func (t *Table) pairOf(list []scoredResource, nonZero bool) pair {
	used := func(s *scoredResource) []int64 {
		if nonZero {
			return t.nonZero[s.fixed].dense
		}
		return t.fixed[s.fixed].requested.dense
	}
	a, b := &list[0], &list[1]
	return pair{
		usedA: used(a), allA: t.fixed[a.fixed].allocatable.dense, requestA: a.request,
		usedB: used(b), allB: t.fixed[b.fixed].allocatable.dense, requestB: b.request,
		evenness: t.derived.evenness,
	}
}

// usual tells whether the requests, with what is in use on a row that is not odd, can be added up.
func (p *pair) usual() bool { return max(p.requestA, p.requestB) <= maxUsual }

// addScores adds the weighted scores of a rule: by their loops for words of rows of which none is odd, else
// row by row.
func (p *pair) addScores(e *Evaluator, t *Table, r scoreRule, rows bitmap, weight int64, into []int64) {
	odd := t.derived.odd
	for w := 0; w < len(rows); {
		if rows[w]&odd[w] != 0 {
			for row := range rows[w : w+1].all {
				row += uint32(w * wordRows)
				into[row] += weight * r.score(e, view{t: t, row: row})
			}
		}
		to := w
		for to < len(rows) && rows[to] != 0 && rows[to]&odd[to] == 0 {
			to++
		}
		if to > w {
			p.addRun(r, rows, w, to, weight, into)
		}
		w = max(to, w+1)
	}
}

// addRun adds the weighted scores of a rule for the rows in the words from from to to, none of them odd.
func (p *pair) addRun(r scoreRule, rows bitmap, from, to int, weight int64, into []int64) {
	if r.plugin() == pb.Plugin_PLUGIN_NODE_RESOURCES_FIT {
		p.addLeast(rows, from, to, weight, into)
	} else {
		p.addBalance(rows, from, to, weight, into)
	}
}

// addLeastGeneric adds the weighted score of LeastAllocated, with equal weights of the resources, for
// the rows in the words from from to to.
func (p *pair) addLeastGeneric(rows bitmap, from, to int, weight int64, into []int64) {
	for w, word := range rows[from:to] {
		for ; word != 0; word &= word - 1 {
			row := (from+w)*wordRows + bits.TrailingZeros64(word)
			sum := leastExact(p.usedA[row]+p.requestA, p.allA[row]) + leastExact(p.usedB[row]+p.requestB, p.allB[row])
			into[row] += weight * (sum / 2)
		}
	}
}

// leastExact is leastAllocated of a capacity from 1 to maxExact, by a division that machines are
// faster at. It is exact: n = (capacity-requested)·100 is, being at most 2⁵³, and where n/capacity is below
// an integer k ≤ 100, it is at most k - 1/capacity ≤ k - k·2⁻⁵³, which rounds to less than k.
func leastExact(requested, capacity int64) int64 {
	return int64(float64(max(capacity-requested, 0)) * maxNodeScore / float64(capacity))
}

// addBalanceGeneric adds the weighted score of NodeResourcesBalancedAllocation, of which the part
// without the pod is known, for the rows in the words from from to to.
func (p *pair) addBalanceGeneric(rows bitmap, from, to int, weight int64, into []int64) {
	for w, word := range rows[from:to] {
		for ; word != 0; word &= word - 1 {
			row := (from+w)*wordRows + bits.TrailingZeros64(word)
			with := deviationOfTwo(share(p.usedA[row]+p.requestA, p.allA[row]), share(p.usedB[row]+p.requestB, p.allB[row]))
			into[row] += weight * balanceOf(evenness(with), int64(p.evenness[row]))
		}
	}
}

// bar is the worst of the best rows so far: what is below has no chance.
type bar struct {
	score int64
	tie   uint64
}

// passes tells whether a row may be among the best.
func (b *bar) passes(score int64, tie uint64) bool {
	return score > b.score || score == b.score && tie <= b.tie
}

// passGeneric writes which rows of some words pass to into, others of the words too. Mostly all scores are
// about the same, so that branches would be mispredicted: score and tie are compared as one number of
// 128 bits.
func (b *bar) passGeneric(rows bitmap, scores []int64, ties []uint64, into bitmap) {
	const sign = 1 << 63
	for w, word := range rows {
		passed := uint64(0)
		for ; word != 0; word &= word - 1 {
			i := bits.TrailingZeros64(word)
			row := w*wordRows + i
			_, below := bits.Sub64(b.tie, ties[row], 0)
			_, below = bits.Sub64(uint64(scores[row])^sign, uint64(b.score)^sign, below)
			passed |= (1 - below) << i
		}
		into[w] = passed
	}
}
