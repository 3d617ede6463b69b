package scorer

import (
	"math"

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
	columns := e.bind(t, r.scored, false)
	for row := range rows.all {
		e.with, e.without = e.with[:0], e.without[:0]
		for i := range columns {
			c := &columns[i]
			e.addShares(c, c.used.at(row), c.resource.allocatable.at(row))
		}
		into[row] = balance(e.with, e.without)
	}
}

func (r *balancedAllocation) score(e *Evaluator, v view) int64 {
	columns := e.bind(v.t, r.scored, false)
	e.with, e.without = e.with[:0], e.without[:0]
	for i := range columns {
		c := &columns[i]
		e.addShares(c, v.used(c), c.resource.allocatable.at(v.row))
	}
	return balance(e.with, e.without)
}

// addShares adds a resource's share in use to e.with and e.without, the pod counted and
// not. A resource that the row does not have is left out.
func (e *Evaluator) addShares(c *scoredColumn, used, allocatable int64) {
	if allocatable == 0 {
		return
	}
	e.with = append(e.with, share(used+c.request, allocatable))
	e.without = append(e.without, share(used, allocatable))
}

func share(requested, allocatable int64) float64 {
	f := float64(requested) / float64(allocatable)
	if f > 1 {
		return 1
	}
	return f
}

// balance is 1.36's formula: 75 where the pod changes nothing, more where it evens the
// shares out.
func balance(with, without []float64) int64 {
	return maxNodeScore/2 + (maxNodeScore/2+evenness(with)-evenness(without))/2
}

// evenness is 100 for equal shares, 50 for the least equal ones.
func evenness(shares []float64) int64 {
	return int64((1 - deviation(shares)) * maxNodeScore)
}

// deviation is the shares' population standard deviation, operation for operation
// as upstream computes it, for the result is cut to an integer.
func deviation(shares []float64) float64 {
	switch n := len(shares); {
	case n < 2:
		return 0
	case n == 2:
		return math.Abs((shares[0] - shares[1]) / 2)
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
