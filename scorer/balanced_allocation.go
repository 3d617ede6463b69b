package scorer

import (
	"math"
	"math/bits"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// balancedAllocation is the plugin NodeResourcesBalancedAllocation: it prefers nodes
// whose resources the pod brings to more even shares. It counts real requests.
type balancedAllocation struct {
	scored []scoredResource
	usual  [2]scoredResource // memory for scored
}

func (r *balancedAllocation) make(q *pb.Query) *balancedAllocation {
	*r = balancedAllocation{}
	r.scored = appendScored(r.usual[:0], q.GetBalanced().GetScored())
	return r
}

func (r *balancedAllocation) plugin() pb.Plugin {
	return pb.Plugin_PLUGIN_NODE_RESOURCES_BALANCED_ALLOCATION
}

func (r *balancedAllocation) column(e *Evaluator, t *Table, rows bitmap, into []int64) (some bitmap) {
	columns := e.scoredColumns(t, r.scored, false, rows)
	if len(columns) == 2 {
		e.columnOfTwo(&columns[0], &columns[1], rows, into)
		return rows
	}
	for row := range rows.all {
		into[row] = e.balanceAt(columns, row)
	}
	return rows
}

// addTo is for cpu and memory, which nearly every profile scores: their balance without the pod is kept
// as a column.
func (r *balancedAllocation) addTo(into *localScores, weight int64) bool {
	requests, ok := cpuMemoryRequests(r.scored)
	if ok {
		into.balance, into.pair.balanceRequest, into.pair.balanceWeight = r, requests, weight
	}
	return ok
}

// columnOfTwo is column for two resources.
func (e *Evaluator) columnOfTwo(a, b *scoredColumn, rows bitmap, into []int64) {
	for w, word := range rows {
		for ; word != 0; word &= word - 1 {
			row := w*wordRows + bits.TrailingZeros64(word)
			with := deviationOf(a.used[row]+a.request, a.allocatable[row], b.used[row]+b.request, b.allocatable[row])
			without := deviationOf(a.used[row], a.allocatable[row], b.used[row], b.allocatable[row])
			into[row] = balanceScore(with, without)
		}
	}
}

// balanceAt is the score of one row with any number of resources.
func (e *Evaluator) balanceAt(columns []scoredColumn, row uint32) int64 {
	e.with, e.without = e.with[:0], e.without[:0]
	for i := range columns {
		c := &columns[i]
		e.addShares(c.used[row], c.request, c.allocatable[row])
	}
	return balanceScore(deviation(e.with), deviation(e.without))
}

func (r *balancedAllocation) score(e *Evaluator, v view) int64 {
	e.with, e.without = e.with[:0], e.without[:0]
	for i := range r.scored {
		used, allocatable := v.scored(&r.scored[i], false)
		e.addShares(used, r.scored[i].request, allocatable)
	}
	return balanceScore(deviation(e.with), deviation(e.without))
}

// addShares adds a resource's share in use to e.with and e.without, the pod counted and
// not. A resource that the row does not have is left out.
func (e *Evaluator) addShares(used, request, allocatable int64) {
	if allocatable == 0 {
		return
	}
	e.with = append(e.with, share(used+request, allocatable))
	e.without = append(e.without, share(used, allocatable))
}

func share(requested, allocatable int64) float64 {
	f := float64(requested) / float64(allocatable)
	if f > 1 {
		return 1
	}
	return f
}

// balanceScore is 1.36's formula, of the deviations with the pod and without it: 75 where
// the pod changes nothing, more where it evens the shares out.
func balanceScore(with, without float64) int64 {
	return scoreOfBalances(balanceOf(with), balanceOf(without))
}

// scoreOfBalances is the score of a balance with the pod and a balance without it.
func scoreOfBalances(with, without int64) int64 {
	return maxNodeScore/2 + (maxNodeScore/2+with-without)/2
}

// balanceOf turns a deviation into a balance: 100 for equal shares, 50 for the least equal ones.
func balanceOf(deviation float64) int64 { return int64((1 - deviation) * maxNodeScore) }

// deviationOfTwo is the standard deviation of two shares.
func deviationOfTwo(a, b float64) float64 { return math.Abs((a - b) / 2) }

// deviationOf is the deviation of the shares of two resources. It is 0 where the node lacks one of the
// resources: a single share does not deviate.
func deviationOf(usedA, allA, usedB, allB int64) float64 {
	if allA == 0 || allB == 0 {
		return 0
	}
	return deviationOfTwo(share(usedA, allA), share(usedB, allB))
}

// deviation is the shares' population standard deviation, operation for operation
// as upstream computes it, for the result is cut to an integer.
func deviation(shares []float64) float64 {
	switch n := len(shares); {
	case n < 2:
		return 0
	case n == 2:
		return deviationOfTwo(shares[0], shares[1])
	default:
		total := 0.0
		for _, f := range shares {
			total += f
		}
		mean := total / float64(n)
		sum := 0.0
		for _, f := range shares {
			// The conversion keeps machines that could from fusing product and sum, so
			// that all workers agree.
			sum += float64((f - mean) * (f - mean))
		}
		return math.Sqrt(sum / float64(n))
	}
}
