package cache

import (
	"fmt"
	"iter"
	"slices"

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
	return p.object, p.node.name
}

// NumberOf is the number of a pod that is seen or assumed on a node; 0: it is on none.
func (c *Cache) NumberOf(uid types.UID) uint64 {
	if p := c.pods[uid]; p != nil {
		return p.number
	}
	return 0
}

// PodsOn yields the pods that are seen or assumed on a node, in no order.
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

// told is what preemption looks at of a pod, without number and usage.
type told struct {
	startMicros int64 // 0: not started
	priority    int32
	// more is what few pods have; nil: nothing.
	more *toldMore
}

// toldMore is what an eviction counts against, and what else falls where the pod leaves.
type toldMore struct {
	budgets []uint32
	leaving []*pb.CounterValue
	shared  []*pb.SharedCount
}

func (t told) equal(o told) bool {
	if t.startMicros != o.startMicros || t.priority != o.priority || (t.more == nil) != (o.more == nil) {
		return false
	}
	return t.more == nil || slices.Equal(t.more.budgets, o.more.budgets) && equalCounters(t.more.leaving, o.more.leaving) &&
		slices.EqualFunc(t.more.shared, o.more.shared, func(a, b *pb.SharedCount) bool {
			return a == b || a.GetCounter() == b.GetCounter() && a.GetToken() == b.GetToken()
		})
}

// describe is what preemption looks at of a pod.
func (c *Cache) describe(p *pod) (out told) {
	defer c.Untold(p.object, "what preemption looks at")
	out = told{priority: compile.Priority(p.object)}
	if start := p.object.Status.StartTime; start != nil {
		// A pod that started before 1970 is as old as any.
		out.startMicros = max(start.UnixMicro(), 1)
	}
	var more toldMore
	if c.budgets != nil {
		more.budgets = c.budgets(p.object)
	}
	if c.departures != nil {
		more.leaving, more.shared = c.departures.Departure(p.object, p.node.name)
	}
	if len(more.budgets)+len(more.leaving)+len(more.shared) > 0 {
		out.more = &toldMore{more.budgets, more.leaving, more.shared} // not &more: most pods have none
	}
	return out
}

// placed is the pod as a delta tells it.
func (p *pod) placed() *pb.PlacedPod {
	out := &pb.PlacedPod{Number: p.number, Priority: p.told.priority, StartMicros: p.told.startMicros}
	if m := p.told.more; m != nil {
		out.Budgets, out.Leaving, out.Shared = m.budgets, m.leaving, m.shared
	}
	return out
}

// tell tells the tables what preemption looks at of a pod, if that has changed.
func (c *Cache) tell(p *pod) error {
	before := p.told
	p.told = c.describe(p)
	if p.told.equal(before) {
		return nil
	}
	c.priorities.remove(before.priority)
	c.priorities.add(p.told.priority)
	n := p.node
	if n.object == nil {
		return nil
	}
	d := &pb.Delta{Row: n.row.Index, Change: &pb.Delta_ChangePod{ChangePod: p.placed()}}
	if err := c.shards[n.row.Shard].apply(d); err != nil {
		return fmt.Errorf("change pod %s/%s on node %s: %w", p.object.Namespace, p.object.Name, n.name, err)
	}
	return nil
}
