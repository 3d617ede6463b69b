package scorer

import (
	"math"
	"math/bits"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// This file is the Score of the plugin NodeResourcesFit: how full a node gets, by one
// of three strategies. cpu and memory count with defaults for pods that name none.

func (r *nodeResourcesFit) column(e *Evaluator, t *Table, rows bitmap, into []int64) (some bitmap) {
	columns := e.scoredColumns(t, r.scored, true, rows)
	e.sums = scratch(e.sums, len(into))
	clear(e.sums)
	for i := range columns {
		r.addColumn(&columns[i], rows, e.sums)
	}
	for w, word := range rows {
		for ; word != 0; word &= word - 1 {
			row := w*wordRows + bits.TrailingZeros64(word)
			into[row] = r.mean(e.sums[row])
		}
	}
	return rows
}

// addTo is for LeastAllocated over cpu and memory of equal weight, the default: the mean is then half
// the sum.
func (r *nodeResourcesFit) addTo(into *localScores, weight int64) bool {
	requests, ok := cpuMemoryRequests(r.scored)
	if !ok || r.strategy != pb.ScoringType_SCORING_TYPE_LEAST_ALLOCATED || r.scored[0].weight != r.scored[1].weight {
		return false
	}
	into.least, into.pair.leastRequest, into.pair.leastWeight = r, requests, weight
	return true
}

// addColumn adds the scores of one resource for all rows. LeastAllocated, the
// default, has a loop of its own, into which its formula is inlined.
func (r *nodeResourcesFit) addColumn(c *scoredColumn, rows bitmap, sums []weighted) {
	least := r.strategy == pb.ScoringType_SCORING_TYPE_LEAST_ALLOCATED
	for w, word := range rows {
		for ; word != 0; word &= word - 1 {
			row := w*wordRows + bits.TrailingZeros64(word)
			capacity, requested := c.allocatable[row], c.used[row]+c.request
			if !least {
				r.count(&sums[row], c.weight, requested, capacity)
			} else if capacity != 0 {
				sums[row].add(leastAllocated(requested, capacity), c.weight)
			}
		}
	}
}

func (r *nodeResourcesFit) score(_ *Evaluator, v view) int64 {
	var sum weighted
	for i := range r.scored {
		s := &r.scored[i]
		used, capacity := v.scored(s, true)
		r.count(&sum, s.weight, used+s.request, capacity)
	}
	return r.mean(sum)
}

// weighted is a sum of scores with their weights.
type weighted struct{ scores, weights int64 }

// count adds the score of one resource. A resource that the row does not have is left out.
func (r *nodeResourcesFit) count(sum *weighted, weight, requested, capacity int64) {
	if capacity == 0 {
		return
	}
	var score int64
	switch r.strategy {
	case pb.ScoringType_SCORING_TYPE_LEAST_ALLOCATED:
		score = leastAllocated(requested, capacity)
	case pb.ScoringType_SCORING_TYPE_MOST_ALLOCATED:
		score = mostAllocated(requested, capacity)
	default:
		score = r.requestedToCapacity(requested, capacity)
		if score <= 0 {
			return // upstream lets a resource that scores nothing carry no weight
		}
	}
	sum.add(score, weight)
}

func (s *weighted) add(score, weight int64) {
	s.scores += score * weight
	s.weights += weight
}

// mean is the weighted mean: rounded for RequestedToCapacityRatio, else cut.
func (r *nodeResourcesFit) mean(sum weighted) int64 {
	switch {
	case sum.weights == 0:
		return 0
	case r.strategy == pb.ScoringType_SCORING_TYPE_REQUESTED_TO_CAPACITY_RATIO:
		return int64(math.Round(float64(sum.scores) / float64(sum.weights)))
	}
	return sum.scores / sum.weights
}

func leastAllocated(requested, capacity int64) int64 {
	if requested > capacity {
		return 0
	}
	return (capacity - requested) * maxNodeScore / capacity
}

func mostAllocated(requested, capacity int64) int64 {
	return min(requested, capacity) * maxNodeScore / capacity
}

// requestedToCapacity is the value of the broken line at the utilization.
func (r *nodeResourcesFit) requestedToCapacity(requested, capacity int64) int64 {
	utilization := int64(100)
	if requested <= capacity {
		utilization = requested * 100 / capacity
	}
	// Only amounts so large that the product overflows lead outside the line.
	return r.points[min(max(utilization, 0), 100)]
}

// brokenLine tabulates the line through the points, flat outside of them.
func brokenLine(shape []*pb.ShapePoint) []int64 {
	points := make([]int64, 101)
	k := 0
	for u := range points {
		for k < len(shape) && shape[k].GetUtilization() < int64(u) {
			k++
		}
		switch {
		case k == len(shape):
			points[u] = shape[k-1].GetScore()
		case k == 0:
			points[u] = shape[0].GetScore()
		default:
			a, b := shape[k-1], shape[k]
			points[u] = a.GetScore() + (b.GetScore()-a.GetScore())*(int64(u)-a.GetUtilization())/(b.GetUtilization()-a.GetUtilization())
		}
	}
	return points
}
