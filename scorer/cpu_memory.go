package scorer

import (
	"math/bits"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// cpuMemory holds the columns of cpu and memory of a table, in the order in which a strategy scores them. Its
// loops are those of the default profile, which take most of the time of a pass over all rows. Each loop
// exists twice: for machines with AVX-512, and for all others.
type cpuMemory struct {
	usedA, allA, usedB, allB []int64
	requestA, requestB       int64
	balance                  []uint8 // derived.balance
}

// cpuMemoryOf finds the columns of cpu and memory.
func (t *Table) cpuMemoryOf(list []scoredResource, nonZero bool) cpuMemory {
	used := func(s *scoredResource) []int64 {
		if nonZero {
			return t.nonZero[s.fixed].dense
		}
		return t.fixed[s.fixed].requested.dense
	}
	a, b := &list[0], &list[1]
	return cpuMemory{
		usedA: used(a), allA: t.fixed[a.fixed].allocatable.dense, requestA: a.request,
		usedB: used(b), allB: t.fixed[b.fixed].allocatable.dense, requestB: b.request,
		balance: t.derived.balance,
	}
}

// regular tells whether the sum of the requests and of what a regular row has in use fits into an int64.
func (p *cpuMemory) regular() bool { return max(p.requestA, p.requestB) <= maxRegular }

// addScores adds the weighted scores of a rule: by its loop for words without an irregular row, row by row
// for the other words.
func (p *cpuMemory) addScores(e *Evaluator, t *Table, r scoreRule, rows bitmap, weight int64, into []int64) {
	irregular := t.derived.irregular
	for w := 0; w < len(rows); {
		if rows[w]&irregular[w] != 0 {
			for row := range rows[w : w+1].all {
				row += uint32(w * wordRows)
				into[row] += weight * r.score(e, view{t: t, row: row})
			}
		}
		to := w
		for to < len(rows) && rows[to] != 0 && rows[to]&irregular[to] == 0 {
			to++
		}
		if to > w {
			p.addRun(r, rows, w, to, weight, into)
		}
		w = max(to, w+1)
	}
}

// addRun adds the weighted scores of a rule for the words from … to-1, which hold regular rows only.
func (p *cpuMemory) addRun(r scoreRule, rows bitmap, from, to int, weight int64, into []int64) {
	if r.plugin() == pb.Plugin_PLUGIN_NODE_RESOURCES_FIT {
		p.addLeast(rows, from, to, weight, into)
	} else {
		p.addBalance(rows, from, to, weight, into)
	}
}

// addLeastGeneric adds the weighted score of LeastAllocated, with equal weights of the resources, for
// the rows in the words from … to-1.
func (p *cpuMemory) addLeastGeneric(rows bitmap, from, to int, weight int64, into []int64) {
	for w, word := range rows[from:to] {
		for ; word != 0; word &= word - 1 {
			row := (from+w)*wordRows + bits.TrailingZeros64(word)
			sum := leastExact(p.usedA[row]+p.requestA, p.allA[row]) + leastExact(p.usedB[row]+p.requestB, p.allB[row])
			into[row] += weight * (sum / 2)
		}
	}
}

// leastExact is leastAllocated of a capacity from 1 to maxExact, by a division of floating-point numbers,
// which is faster. It is exact: n = (capacity-requested)·100 is, being at most 2⁵³, and where n/capacity is below
// an integer k ≤ 100, it is at most k - 1/capacity ≤ k - k·2⁻⁵³, which rounds to less than k.
func leastExact(requested, capacity int64) int64 {
	return int64(float64(max(capacity-requested, 0)) * maxNodeScore / float64(capacity))
}

// addBalanceGeneric adds the weighted score of NodeResourcesBalancedAllocation for the rows in the words
// from … to-1. The balance without the pod is a column.
func (p *cpuMemory) addBalanceGeneric(rows bitmap, from, to int, weight int64, into []int64) {
	for w, word := range rows[from:to] {
		for ; word != 0; word &= word - 1 {
			row := (from+w)*wordRows + bits.TrailingZeros64(word)
			with := deviationOfTwo(share(p.usedA[row]+p.requestA, p.allA[row]), share(p.usedB[row]+p.requestB, p.allB[row]))
			into[row] += weight * scoreOfBalances(balanceOf(with), int64(p.balance[row]))
		}
	}
}

// bar is the worst of the best rows so far: a row below it can not be among the best.
type bar struct {
	score int64
	tie   uint64
}

// passes tells whether a row may be among the best.
func (b *bar) passes(score int64, tie uint64) bool {
	return score > b.score || score == b.score && tie <= b.tie
}

// passGeneric writes into the words of into which of rows pass. Most scores are about the same, so that the
// processor would mispredict branches: score and tie are compared as one number of 128 bits.
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
