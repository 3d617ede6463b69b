package cache

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Counters says what a pod adds to the counters in use: sorted by counter. The
// list is shared: nobody writes to it.
type Counters interface {
	Contributions(p *v1.Pod) []*pb.CounterValue
}

// UseCounters makes pods count. It is called before any pod is put in.
func (c *Cache) UseCounters(counters Counters) { c.counters = counters }

// contributions is what a pod adds to counters.
func (c *Cache) contributions(p *v1.Pod) []*pb.CounterValue {
	if c.counters == nil {
		return nil
	}
	return c.counters.Contributions(p)
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

// FillCounter brings a counter into use: every pod of the namespaces (nil: all) is
// asked once what it adds.
func (c *Cache) FillCounter(id uint32, namespaces []string, value func(*v1.Pod) int64) error {
	columns := make([]map[uint32]int64, len(c.shards))
	visit := func(pods map[types.UID]*pod) {
		for _, p := range pods {
			v := value(p.object)
			p.counters = replaceCounter(p.counters, id, v)
			n := c.nodes[p.node]
			if n.object == nil {
				continue
			}
			p.counted = withCounters(p.counted, p.counters)
			if v == 0 {
				continue
			}
			if columns[n.row.Shard] == nil {
				columns[n.row.Shard] = map[uint32]int64{}
			}
			columns[n.row.Shard][n.row.Index] += v
		}
	}
	if namespaces == nil {
		visit(c.pods)
	}
	for _, ns := range namespaces {
		visit(c.byNamespace[ns])
	}
	for i, column := range columns {
		if err := c.setCounter(i, id, column); err != nil {
			return fmt.Errorf("fill counter %d: %w", id, err)
		}
	}
	return nil
}

// setCounter replaces a counter in one shard, unless there is nothing in it and was
// nothing.
func (c *Cache) setCounter(shard int, id uint32, values map[uint32]int64) error {
	column := &pb.CounterColumn{Counter: id}
	for row, v := range values {
		if v != 0 {
			column.Rows = append(column.Rows, row)
		}
	}
	slices.Sort(column.Rows)
	for _, row := range column.Rows {
		column.Values = append(column.Values, values[row])
	}
	if len(column.Rows) == 0 && !c.shards[shard].table.HasCounter(id) {
		return nil
	}
	return c.shards[shard].apply(&pb.Delta{Change: &pb.Delta_SetCounter{SetCounter: column}})
}

// replaceCounter is a list with a counter's value exchanged; the list itself stays
// as it is.
func replaceCounter(list []*pb.CounterValue, id uint32, value int64) []*pb.CounterValue {
	i, found := slices.BinarySearchFunc(list, id, func(v *pb.CounterValue, id uint32) int { return int(v.GetCounter()) - int(id) })
	switch {
	case found && list[i].GetValue() == value, !found && value == 0:
		return list
	case found && value == 0:
		return slices.Concat(list[:i], list[i+1:])
	case found:
		return slices.Concat(list[:i], []*pb.CounterValue{{Counter: id, Value: value}}, list[i+1:])
	}
	return slices.Concat(list[:i], []*pb.CounterValue{{Counter: id, Value: value}}, list[i:])
}

// DropCounter takes a counter out of use.
func (c *Cache) DropCounter(id uint32) error {
	for _, p := range c.pods {
		if now := replaceCounter(p.counters, id, 0); len(now) != len(p.counters) {
			p.counters = now
			if p.counted != nil {
				p.counted = withCounters(p.counted, now)
			}
		}
	}
	for i := range c.shards {
		if err := c.setCounter(i, id, nil); err != nil {
			return fmt.Errorf("drop counter %d: %w", id, err)
		}
	}
	return nil
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

// Counted is what a pod was counted with on its node's row, nil where there is none.
func (c *Cache) Counted(uid types.UID) *pb.PodUsage {
	if p := c.pods[uid]; p != nil {
		return p.counted
	}
	return nil
}

// Recount takes in that pods of these UIDs add something else to counters than before.
func (c *Cache) Recount(uids []types.UID) error {
	for _, uid := range uids {
		p := c.pods[uid]
		if p == nil {
			continue
		}
		now := c.contributions(p.object)
		if equalCounters(p.counters, now) {
			continue
		}
		if err := c.remove(p); err != nil {
			return err
		}
		p.counters = now
		if err := c.put(p, 0); err != nil {
			return err
		}
	}
	return nil
}

func equalCounters(a, b []*pb.CounterValue) bool {
	return slices.EqualFunc(a, b, func(x, y *pb.CounterValue) bool {
		return x == y || x.GetCounter() == y.GetCounter() && x.GetValue() == y.GetValue()
	})
}
