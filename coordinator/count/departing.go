package count

import (
	v1 "k8s.io/api/core/v1"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Departing is what Spread counters leave out of a pod: upstream's preemption takes that from
// what it counted for spreading once the pod leaves, though it had not counted the pod. Sorted by
// counter; mostly nothing for pods that are not being deleted. The list is shared: nobody writes
// to it.
func (r *Registry) Departing(p *v1.Pod) []*pb.CounterValue {
	own := r.pods.spaces[p.Namespace]
	if own == nil || p.DeletionTimestamp == nil && own.unselected == 0 {
		return nil
	}
	var list []*pb.CounterValue
	own.index.Matching(p.Labels, func(c *Counter) {
		if c.what.(*matched).passes(p) {
			list = append(list, &pb.CounterValue{Counter: c.id, Value: 1})
		}
	})
	return sum(list)
}
