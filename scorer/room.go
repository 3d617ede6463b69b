package scorer

import (
	"math"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Room is how many more pods that each ask for this much NodeResourcesFit would let a row
// take; 0 where there is no node. Scalar resources that the function names are passed over.
func (t *Table) Room(row uint32, requests *pb.Resources, ignored func(resource string) bool) int64 {
	if !t.HasNode(row) {
		return 0
	}
	room := t.allowedPods[row] - t.pods[row]
	limit := func(r *resource, want int64) {
		if want > 0 {
			room = min(room, (r.allocatable.at(row)-r.requested.at(row))/want)
		}
	}
	limit(t.fixed[cpu], requests.GetMilliCpu())
	limit(t.fixed[memory], requests.GetMemoryBytes())
	limit(t.fixed[ephemeralStorage], requests.GetEphemeralStorageBytes())
	for _, s := range requests.GetScalars() {
		if s.GetQuantity() <= 0 || ignored(s.GetName()) {
			continue
		}
		x := t.scalars[s.GetName()]
		if x == nil {
			return 0
		}
		limit(x, s.GetQuantity())
	}
	return min(max(room, 0), math.MaxInt32)
}
