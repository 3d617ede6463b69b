package cache

import (
	"fmt"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/count"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/scan"
)

// Counters says what a pod adds to the counters in use: sorted by counter. The
// list is shared: nobody writes to it.
type Counters interface {
	Contributions(p *v1.Pod) []*pb.CounterValue
	// Carry has a pod's affinity terms count, before its Contributions are asked, until Release.
	Carry(p *v1.Pod) *count.Carried
	Release(c *count.Carried)
}

// UseCounters makes pods count. It is called before any pod is put in.
func (c *Cache) UseCounters(counters Counters) { c.counters = counters }

// carry has a pod's terms count from before it is put in until release.
func (c *Cache) carry(p *v1.Pod) *count.Carried {
	if c.counters == nil {
		return nil
	}
	defer c.Untold(p, "its affinity terms")
	return c.counters.Carry(p)
}

func (c *Cache) release(carried *count.Carried) {
	if carried != nil {
		c.counters.Release(carried)
	}
}

// contributions is what a pod adds to counters.
func (c *Cache) contributions(p *v1.Pod) []*pb.CounterValue {
	list, _ := c.contributed(p)
	return list
}

// contributed is contributions; false: that can not be told.
func (c *Cache) contributed(p *v1.Pod) (list []*pb.CounterValue, told bool) {
	if c.counters == nil {
		return nil, true
	}
	defer c.Untold(p, "what it counts for")
	return c.counters.Contributions(p), true
}

// OnUntold has a pod known without what can not be told of it, for the tables refuse it or it meets a bug, and has
// untold know. Without what it takes of a node no pod is known. It is called before any pod is put in.
func (c *Cache) OnUntold(untold func(p *v1.Pod, what string, why error)) { c.untold = untold }

// Untold recovers from a panic. It is deferred where something is found out about a pod that it may be known without.
func (c *Cache) Untold(p *v1.Pod, what string) {
	if c.untold == nil {
		return
	}
	if v := recover(); v != nil {
		c.untold(p, what, scan.Recovered(v))
	}
}

// renew has a pod, whose node comes, add what it would now: a Filling does not ask pods without a node.
func (c *Cache) renew(p *pod) {
	c.added -= len(p.counters)
	p.counters, p.told = c.contributions(p.object), c.describe(p)
	c.added += len(p.counters)
}

// withCounters is a usage with what the pod adds to counters.
func withCounters(u *pb.PodUsage, counters []*pb.CounterValue) *pb.PodUsage {
	if len(counters) == 0 && len(u.GetCounters()) == 0 {
		return u
	}
	return &pb.PodUsage{
		Requests:           u.GetRequests(),
		NonZeroMilliCpu:    u.GetNonZeroMilliCpu(),
		NonZeroMemoryBytes: u.GetNonZeroMemoryBytes(),
		HostPorts:          u.GetHostPorts(),
		Counters:           counters,
	}
}

// DropCounters takes counters out of use: no pod adds to them any more.
func (c *Cache) DropCounters(ids []uint32) error {
	_, _, err := c.Fill(ids, true, nil).Some(math.MaxInt)
	return err
}

// ChangeCounters adds to a node's counters what no pod of its own accounts for. It is kept
// for a node that is not known, or no longer, until the node comes.
func (c *Cache) ChangeCounters(nodeName string, changes []*pb.CounterValue) error {
	if len(changes) == 0 {
		return nil
	}
	n := c.node(nodeName)
	defer c.dropIfEmpty(n)
	for _, v := range changes {
		if n.own == nil {
			n.own = map[uint32]int64{}
		}
		if n.own[v.GetCounter()] += v.GetValue(); n.own[v.GetCounter()] == 0 {
			delete(n.own, v.GetCounter())
		}
	}
	if n.object == nil {
		return nil
	}
	return c.changeRow(n, changes)
}

func (c *Cache) changeRow(n *node, changes []*pb.CounterValue) error {
	d := &pb.Delta{Row: n.row.Index, Change: &pb.Delta_ChangeCounters{ChangeCounters: &pb.CounterChange{Counters: changes}}}
	if err := c.shards[n.row.Shard].apply(d); err != nil {
		return fmt.Errorf("change counters of node %s: %w", n.name, err)
	}
	return nil
}

// restoreOwn gives a node that has come the counters of its own.
func (c *Cache) restoreOwn(n *node) error {
	if len(n.own) == 0 {
		return nil
	}
	changes := make([]*pb.CounterValue, 0, len(n.own))
	for id, v := range n.own {
		changes = append(changes, &pb.CounterValue{Counter: id, Value: v})
	}
	slices.SortFunc(changes, func(a, b *pb.CounterValue) int { return int(a.Counter) - int(b.Counter) })
	return c.changeRow(n, changes)
}

// UsageOf is what a pod would be counted with on any node.
func (c *Cache) UsageOf(p *v1.Pod) *pb.PodUsage {
	return withCounters(compile.Usage(p), c.contributions(p))
}

// Counted is what a pod was counted with on its node's row, nil where there is none.
func (c *Cache) Counted(uid types.UID) *pb.PodUsage {
	if p := c.pods[uid]; p != nil {
		return p.counted()
	}
	return nil
}

func equalCounters(a, b []*pb.CounterValue) bool {
	return slices.EqualFunc(a, b, func(x, y *pb.CounterValue) bool {
		return x == y || x.GetCounter() == y.GetCounter() && x.GetValue() == y.GetValue()
	})
}
