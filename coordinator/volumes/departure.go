package volumes

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Departure is how counters would change if a pod left its node, for preemption: leaving
// are the uses of its volumes; shared are the volumes that would not be attached any more
// if no other pod there used them. A volume with a VolumeAttachment stays attached. Both
// are sorted.
func (c *Cache) Departure(pod *v1.Pod) (leaving []*pb.CounterValue, shared []*pb.SharedCount) {
	p := c.usage.pods[pod.UID]
	if p == nil {
		return nil, nil
	}
	for _, as := range p.attachments {
		if as == (compile.Attachment{}) {
			continue
		}
		a := c.usage.attached[as]
		if a.counter != 0 {
			leaving = append(leaving, &pb.CounterValue{Counter: a.counter, Value: 1})
		}
		if a.on[p.node].attachments == 0 {
			shared = append(shared, &pb.SharedCount{Counter: c.usage.drivers[as.Driver], Token: a.number})
		}
	}
	slices.SortFunc(leaving, func(a, b *pb.CounterValue) int { return cmp.Compare(a.Counter, b.Counter) })
	slices.SortFunc(shared, func(a, b *pb.SharedCount) int {
		return cmp.Or(cmp.Compare(a.Counter, b.Counter), cmp.Compare(a.Token, b.Token))
	})
	// Several volumes may attach the same.
	leaving = slices.CompactFunc(leaving, func(a, b *pb.CounterValue) bool { return a.Counter == b.Counter })
	shared = slices.CompactFunc(shared, func(a, b *pb.SharedCount) bool { return a.Counter == b.Counter && a.Token == b.Token })
	return leaving, shared
}

// TakeRetold returns the pods whose Departure may have changed since the last call, sorted.
// Some of them may be gone.
func (c *Cache) TakeRetold() []types.UID {
	if len(c.usage.retold) == 0 {
		return nil
	}
	out := make([]types.UID, 0, len(c.usage.retold))
	for uid := range c.usage.retold {
		out = append(out, uid)
	}
	clear(c.usage.retold)
	slices.Sort(out)
	return out
}

// retell notes the pods that use a volume on a node.
func (u *usage) retell(h held) {
	for p := range h.users {
		u.retold[p.pod.UID] = struct{}{}
	}
}
