package placement

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// maxScore is the highest score of a plugin, before its weight.
const maxScore = 100

// The plugins that score placements, by upstream's names.
const (
	podsCountPlugin = "PodGroupPodsCount"
	fitPlugin       = "NodeResourcesFit"
)

// Resource is a resource that NodeResourcesFit scores, in one domain. Allocatable is the sum over all of its nodes that have any of the
// resource, whether a member fits on them or not. Requested is the sum over the pods on these nodes and the members proposed. Both are in
// units of the resource: millicores for cpu, bytes for memory.
//
// A scalar resource that no member asks for is left out by the caller, as upstream does.
type Resource struct {
	Weight, Allocatable, Requested int64
}

// MostAllocated is NodeResourcesFit's score of a domain, from 0 to 100: always by MostAllocated, whatever strategy scores nodes.
func MostAllocated(resources []Resource) int64 {
	var scores, weights int64
	for _, r := range resources {
		if r.Allocatable <= 0 {
			continue
		}
		scores += percent(max(r.Requested, 0), r.Allocatable) * r.Weight
		weights += r.Weight
	}
	if weights <= 0 {
		return 0
	}
	return scores / weights
}

// percent is part·100/whole, cut; 100 where part is more than the whole. Neither is less than 0, and the whole is more.
func percent(part, whole int64) int64 {
	high, low := bits.Mul64(uint64(min(part, whole)), maxScore)
	quotient, _ := bits.Div64(high, low, uint64(whole))
	return int64(quotient)
}

// PodsCount turns numbers of members (scheduled and proposed) into PodGroupPodsCount's scores, in place.
func PodsCount(members []int64) error {
	var most int64
	for _, n := range members {
		most = max(most, n)
	}
	if most == 0 {
		return errors.New("no pods from pod group are assigned to any of the candidate placements")
	}
	for i, n := range members {
		members[i] = percent(max(n, 0), most)
	}
	return nil
}

// Weights are those of a profile's plugins at the extension point PlacementScore; 0: the plugin is not enabled there.
type Weights struct {
	PodsCount, Fit int64
}

// Candidate is a domain that takes enough of a gang.
type Candidate struct {
	Value string
	// Members is how many are there already and would go there.
	Members int64
	// Fit is the domain's MostAllocated with them.
	Fit int64
	// Left is how many further members the domain would take.
	Left int64
}

// Best is the place of the candidate with the highest total; of the only one without a score, as upstream does. The error is the
// status of upstream's group.
//
// Differs from upstream: equal totals go to the domain with the least room left, then to the smaller hash of its value. Upstream draws.
func Best(candidates []Candidate, w Weights) (int, error) {
	if len(candidates) == 1 {
		return 0, nil
	}
	totals := make([]int64, len(candidates))
	if w.PodsCount != 0 {
		for i := range candidates {
			totals[i] = candidates[i].Members
		}
		if err := PodsCount(totals); err != nil {
			return 0, fmt.Errorf("running NormalizePlacementScore on PlacementScore plugins: plugin %q failed with: %w", podsCountPlugin, err)
		}
	}
	best := 0
	for i := range candidates {
		c := &candidates[i]
		if w.Fit != 0 && (c.Fit < 0 || c.Fit > maxScore) {
			return 0, fmt.Errorf("applying score defaultWeights on PlacementScore plugins: plugin %q returns an invalid score %v, "+
				"it should in the range of [%v, %v] after normalizing", fitPlugin, c.Fit, 0, maxScore)
		}
		totals[i] = totals[i]*w.PodsCount + c.Fit*w.Fit
		if totals[i] > totals[best] || totals[i] == totals[best] && before(c.Left, c.Value, candidates[best].Left, candidates[best].Value) {
			best = i
		}
	}
	return best, nil
}

// before orders domains that are equally good: less room left comes first, then the smaller hash of the value, then the value.
func before(left int64, value string, otherLeft int64, other string) bool {
	return cmp.Or(cmp.Compare(left, otherLeft), CompareValues(value, other)) < 0
}

// CompareValues orders values of a key by their hashes, so that gangs with equal choices do not all begin with the first name.
func CompareValues(a, b string) int {
	return cmp.Or(cmp.Compare(xxhash.Sum64String(a), xxhash.Sum64String(b)), cmp.Compare(a, b))
}

// Sum adds what is not less than 0, and ends at the largest number.
func Sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
