package count

import (
	v1 "k8s.io/api/core/v1"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Departing is what a pod that is being deleted would add to counters if it were not:
// upstream's preemption takes that from what it counted for spreading once the pod leaves,
// though it had not counted the pod. Sorted by counter; nothing for other pods. The list
// is shared: nobody writes to it.
func (r *Registry) Departing(p *v1.Pod) []*pb.CounterValue {
	own := r.pods.spaces[p.Namespace]
	if p.DeletionTimestamp == nil || own == nil {
		return nil
	}
	var list []*pb.CounterValue
	own.index.Matching(p.Labels, func(c *Counter) {
		if c.what.(*matched).staying {
			list = append(list, &pb.CounterValue{Counter: c.id, Value: 1})
		}
	})
	return sum(list)
}
