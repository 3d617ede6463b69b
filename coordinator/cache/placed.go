package cache

import (
	"fmt"
	"iter"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Departures says how counters would change if a pod left its node, beside what it adds to
// them: leaving is sorted by counter, shared by counter and token. The lists are shared:
// nobody writes to them.
type Departures interface {
	Departure(p *v1.Pod, nodeName string) (leaving []*pb.CounterValue, shared []*pb.SharedCount)
}

// UseDepartures makes known to preemption what else pods count for. It is called before any
// pod is put in.
func (c *Cache) UseDepartures(d Departures) { c.departures = d }

// SetBudgets makes known which budgets a pod's eviction counts against: ascending, from 1.
// It is called before any pod is put in. Where the answer changes for a pod that is known,
// Retell tells.
func (c *Cache) SetBudgets(of func(p *v1.Pod) []uint32) { c.budgets = of }

// PodNumbered returns the pod that victims of preemption name by number, and its node; nil
// where it is gone.
func (c *Cache) PodNumbered(number uint64) (object *v1.Pod, nodeName string) {
	p := c.numbered[number]
	if p == nil {
		return nil, ""
	}
	return p.object, p.node
}

// NumberOf is the number of a pod that is on a node or promised to it; 0: it is on none.
func (c *Cache) NumberOf(uid types.UID) uint64 {
	if p := c.pods[uid]; p != nil {
		return p.number
	}
	return 0
}

// PodsOn yields the pods that are on a node or promised to it, in no order.
func (c *Cache) PodsOn(nodeName string) iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		n := c.nodes[nodeName]
		if n == nil {
			return
		}
		for _, p := range n.pods {
			if !yield(p.object) {
				return
			}
		}
	}
}

// Retell tells the tables what has changed of a pod: its budgets, and what else it counts
// for. A pod that is not known is left alone.
func (c *Cache) Retell(uid types.UID) error {
	p := c.pods[uid]
	if p == nil {
		return nil
	}
	return c.tell(p)
}

// describe is what preemption looks at of a pod.
func (c *Cache) describe(p *pod) *pb.PlacedPod {
	out := &pb.PlacedPod{Number: p.number, Priority: compile.Priority(p.object)}
	if start := p.object.Status.StartTime; start != nil {
		// A pod that started before 1970 is as old as any.
		out.StartMicros = max(start.UnixMicro(), 1)
	}
	if c.budgets != nil {
		out.Budgets = c.budgets(p.object)
	}
	if c.departures != nil {
		out.Leaving, out.Shared = c.departures.Departure(p.object, p.node)
	}
	return out
}

// tell tells the tables what preemption looks at of a pod, if that has changed.
func (c *Cache) tell(p *pod) error {
	now := c.describe(p)
	if proto.Equal(now, p.told) {
		return nil
	}
	c.priorities.remove(p.told.GetPriority())
	c.priorities.add(now.GetPriority())
	p.told = now
	n := c.nodes[p.node]
	if n.object == nil {
		return nil
	}
	d := &pb.Delta{Row: n.row.Index, Change: &pb.Delta_ChangePod{ChangePod: now}}
	if err := c.shards[n.row.Shard].apply(d); err != nil {
		return fmt.Errorf("change pod %s/%s on node %s: %w", p.object.Namespace, p.object.Name, n.name, err)
	}
	return nil
}
