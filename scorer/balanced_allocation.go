package scorer

import (
	"math"
	"math/bits"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// balancedAllocation is the plugin NodeResourcesBalancedAllocation: it prefers nodes
// whose resources the pod brings to more even shares. It counts real requests.
type balancedAllocation struct{ scored []scoredResource }

func newBalancedAllocation(q *pb.Query) *balancedAllocation {
	return &balancedAllocation{newScoredResources(q.GetBalanced().GetScored())}
}

func (r *balancedAllocation) plugin() pb.Plugin {
	return pb.Plugin_PLUGIN_NODE_RESOURCES_BALANCED_ALLOCATION
}

func (r *balancedAllocation) column(e *Evaluator, t *Table, rows bitmap, into []int64) {
	columns := e.bindColumns(t, r.scored, false)
	if len(columns) == 2 {
		e.columnOfTwo(&columns[0], &columns[1], rows, into)
		return
	}
	for row := range rows.all {
		into[row] = e.balanceAt(columns, row)
	}
}

// columnOfTwo is column for two resources, as nearly every profile has it.
func (e *Evaluator) columnOfTwo(a, b *scoredColumn, rows bitmap, into []int64) {
	for w, word := range rows {
		for ; word != 0; word &= word - 1 {
			row := w*wordRows + bits.TrailingZeros64(word)
			allA, allB := a.allocatable[row], b.allocatable[row]
			if allA == 0 || allB == 0 {
				into[row] = balance(0, 0) // one share, or none, is even with itself
				continue
			}
			usedA, usedB := a.used[row], b.used[row]
			with := deviationOfTwo(share(usedA+a.request, allA), share(usedB+b.request, allB))
			without := deviationOfTwo(share(usedA, allA), share(usedB, allB))
			into[row] = balance(with, without)
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
	return balance(deviation(e.with), deviation(e.without))
}

func (r *balancedAllocation) score(e *Evaluator, v view) int64 {
	e.with, e.without = e.with[:0], e.without[:0]
	for i := range r.scored {
		used, allocatable := v.scored(&r.scored[i], false)
		e.addShares(used, r.scored[i].request, allocatable)
	}
	return balance(deviation(e.with), deviation(e.without))
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

// balance is 1.36's formula, of the deviations with the pod and without it: 75 where
// the pod changes nothing, more where it evens the shares out.
func balance(with, without float64) int64 {
	return maxNodeScore/2 + (maxNodeScore/2+evenness(with)-evenness(without))/2
}

// evenness is 100 for equal shares, 50 for the least equal ones.
func evenness(deviation float64) int64 { return int64((1 - deviation) * maxNodeScore) }

// deviationOfTwo is the standard deviation of two shares.
func deviationOfTwo(a, b float64) float64 { return math.Abs((a - b) / 2) }

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
