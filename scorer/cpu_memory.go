package scorer

import (
	"math"
	"math/bits"
)

// cpuMemory computes the scores that a class gives for cpu and memory: LeastAllocated, and
// NodeResourcesBalancedAllocation. Its loops are those of the default profile, which take most of the time of a
// pass over all rows. Each loop exists twice: for machines with AVX-512, and for all others.
type cpuMemory struct {
	// all, nonZero and requested are columns of a table, of cpu and of memory.
	all, nonZero, requested [2][]int64
	balance                 []uint8 // derived.balance
	// leastRequest and balanceRequest are what the pod requests, as either rule counts it.
	leastRequest, balanceRequest [2]int64
	// The weights are 0 where the class does not have the rule.
	leastWeight, balanceWeight int64

	// What follows is for ceilings.
	shares                       *shares
	leastAmounts, balanceAmounts [2]float32 // the requests
	leastTimes, balanceTimes     int32      // the weights
}

// lookUp finds the columns in a table.
func (p *cpuMemory) lookUp(t *Table) {
	*p = cpuMemory{balance: t.derived.balance, shares: &t.derived.shares}
	for i := range p.all {
		p.all[i], p.requested[i] = t.fixed[i].allocatable.dense, t.fixed[i].requested.dense
		p.nonZero[i] = t.nonZero[i].dense
	}
}

// cpuMemoryRequests are the requests of cpu and memory of a strategy that scores just these two. ok is false
// where the sum of a request and of what a regular row has in use may not fit into an int64.
func cpuMemoryRequests(list []scoredResource) (requests [2]int64, ok bool) {
	if len(list) != 2 || list[0].fixed == list[1].fixed || !list[0].isCPUOrMemory() || !list[1].isCPUOrMemory() {
		return requests, false
	}
	for i := range list {
		requests[list[i].fixed] = list[i].request
	}
	return requests, max(requests[cpu], requests[memory]) <= maxRegular
}

// scoresGeneric writes the weighted scores of the rows in some words, of which from is the first; rows and into
// are of these words. All of the rows are regular.
func (p *cpuMemory) scoresGeneric(rows bitmap, from int, into []int64) {
	for w, word := range rows {
		for ; word != 0; word &= word - 1 {
			i := w*wordRows + bits.TrailingZeros64(word)
			into[i] = p.score(from*wordRows + i)
		}
	}
}

// score is the weighted score of a regular row. The balance without the pod is a column.
func (p *cpuMemory) score(row int) int64 {
	a, b := p.all[cpu][row], p.all[memory][row]
	sum := leastExact(p.nonZero[cpu][row]+p.leastRequest[cpu], a) + leastExact(p.nonZero[memory][row]+p.leastRequest[memory], b)
	with := deviationOfTwo(
		share(p.requested[cpu][row]+p.balanceRequest[cpu], a), share(p.requested[memory][row]+p.balanceRequest[memory], b))
	return p.leastWeight*(sum/2) + p.balanceWeight*scoreOfBalances(balanceOf(with), int64(p.balance[row]))
}

// maxTimes bounds the weights with which ceilings are computed, in an int32.
const maxTimes = 1 << 20

// makeReady tells whether ceilings can be computed of rows that have at least so much left of cpu and memory, and makes
// them ready: the share that is in use is at most 1 then, with the pod, too.
func (p *cpuMemory) makeReady(left [2]int64) bool {
	for i := range left {
		if p.balanceRequest[i] > 0 && p.balanceRequest[i] > left[i] && p.balanceWeight > 0 {
			return false
		}
		p.leastAmounts[i], p.balanceAmounts[i] = float32(p.leastRequest[i]), float32(p.balanceRequest[i])
	}
	p.leastTimes, p.balanceTimes = int32(min(p.leastWeight, maxTimes)), int32(min(p.balanceWeight, maxTimes))
	return max(p.leastWeight, p.balanceWeight) <= maxTimes
}

// slack is added to what is rounded down, hundredths of an amount: the float32s that it is computed from are wrong by less.
const slack = 1.0 / 1024

// ceilingsGeneric is scoresGeneric that may write more than a score, by less than what rounding to hundredths makes
// of slack: mostly it writes the score.
func (p *cpuMemory) ceilingsGeneric(rows bitmap, from int, into []int64) {
	for w, word := range rows {
		for ; word != 0; word &= word - 1 {
			i := w*wordRows + bits.TrailingZeros64(word)
			into[i] = p.ceiling(from*wordRows + i)
		}
	}
}

// ceiling is at least the score of a regular row.
func (p *cpuMemory) ceiling(row int) int64 {
	a, b := p.shares.inverse[cpu][row], p.shares.inverse[memory][row]
	least := hundredths(max(p.shares.free[cpu][row]-a*p.leastAmounts[cpu], 0)) +
		hundredths(max(p.shares.free[memory][row]-b*p.leastAmounts[memory], 0))
	skew := p.shares.skew[row] + a*p.balanceAmounts[cpu] - b*p.balanceAmounts[memory]
	with := hundredths(1 - max(skew, -skew)/2)
	return int64(p.leastTimes*(least/2)) + int64(p.balanceTimes)*scoreOfBalances(int64(with), int64(p.balance[row]))
}

// hundredths rounds a share down, but for what is within slack.
func hundredths(share float32) int32 { return int32(share*maxNodeScore + slack) }

// leastExact is leastAllocated of a capacity from 1 to maxExact, by a division of floating-point numbers,
// which is faster. It is exact: n = (capacity-requested)·100 is, being at most 2⁵³, and where n/capacity is below
// an integer k ≤ 100, it is at most k - 1/capacity ≤ k - k·2⁻⁵³, which rounds to less than k.
func leastExact(requested, capacity int64) int64 {
	return int64(float64(max(capacity-requested, 0)) * maxNodeScore / float64(capacity))
}

// bar is the worst of the best rows so far: a row below it can not be among the best.
type bar struct {
	score int64
	tie   uint64
}

// lowest is a bar that all rows pass.
func lowest() bar { return bar{math.MinInt64, math.MaxUint64} }

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
