package cache

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/selector"
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

// FillCounters brings counters into use: the pods of the namespaces, each named once, are
// asked anew what they add; all pods where all is true.
func (c *Cache) FillCounters(ids []uint32, all bool, namespaces []string) error {
	f := c.fill(ids)
	if all {
		f.take(c, maps.Values(c.pods))
	} else {
		for _, ns := range namespaces {
			if list := c.byNamespace[ns]; list != nil {
				f.take(c, slices.Values(*list))
			}
		}
	}
	return f.end(c, ids)
}

// FillCounter brings a counter into use to which only pods of some namespaces, nil: of all, add that have
// all of some labels; false where those are not found by themselves, and FillCounters serves as well.
func (c *Cache) FillCounter(id uint32, demands []selector.Demand, namespaces []string) (bool, error) {
	all := len(c.pods)
	if namespaces != nil {
		all = 0
		for _, ns := range namespaces {
			if list := c.byNamespace[ns]; list != nil {
				all += len(*list)
			}
		}
	}
	pods := c.demanded(demands, all)
	if pods == nil {
		return false, nil
	}
	ids := []uint32{id}
	f := c.fill(ids)
	f.take(c, pods)
	return true, f.end(c, ids)
}

// fill begins to fill counters.
func (c *Cache) fill(ids []uint32) *filling {
	f := &filling{columns: make(map[uint32][]column, len(ids))}
	for _, id := range ids {
		f.columns[id] = make([]column, len(c.shards))
	}
	return f
}

// end writes what was counted.
func (f *filling) end(c *Cache, ids []uint32) error {
	for _, id := range ids {
		for i, column := range f.columns[id] {
			if err := c.setCounter(i, id, column); err != nil {
				return fmt.Errorf("fill counter %d: %w", id, err)
			}
		}
	}
	for _, p := range f.leaving {
		if err := c.tell(p); err != nil {
			return err
		}
	}
	return nil
}

// filling is counters that come into use: by counter and shard.
type filling struct {
	columns map[uint32][]column
	// leaving are pods that are being deleted: they do not count, but may look as if they did
	// to who removes them.
	leaving []*pod
}

// column is what is counted in one shard: the rows' values, and those of their pods.
type column struct {
	values map[uint32]int64
	pods   []counted
}

type counted struct {
	row    uint32
	number uint64
	value  int64
}

// take asks pods what they add.
func (f *filling) take(c *Cache, pods iter.Seq[*pod]) {
	for p := range pods {
		n := p.node
		if now := c.contributions(p.object); !equalCounters(p.counters, now) {
			p.counters = now
			if n.object != nil {
				p.counted = withCounters(p.counted, now)
			}
		}
		if p.object.DeletionTimestamp != nil {
			f.leaving = append(f.leaving, p)
		}
		if n.object == nil {
			continue
		}
		for _, v := range p.counters {
			columns, ok := f.columns[v.GetCounter()]
			if !ok {
				continue
			}
			x := &columns[n.row.Shard]
			if x.values == nil {
				x.values = map[uint32]int64{}
			}
			x.values[n.row.Index] += v.GetValue()
			x.pods = append(x.pods, counted{n.row.Index, p.number, v.GetValue()})
		}
	}
}

// writeTo writes the pods of a column in order.
func (x *column) writeTo(out *pb.CounterColumn) {
	slices.SortFunc(x.pods, func(a, b counted) int { return cmp.Or(cmp.Compare(a.row, b.row), cmp.Compare(a.number, b.number)) })
	ones := !slices.ContainsFunc(x.pods, func(p counted) bool { return p.value != 1 })
	for _, p := range x.pods {
		out.PodRows, out.PodNumbers = append(out.PodRows, p.row), append(out.PodNumbers, p.number)
		if !ones {
			out.PodValues = append(out.PodValues, p.value)
		}
	}
}

// setCounter replaces a counter in one shard, unless there is nothing in it and was
// nothing.
func (c *Cache) setCounter(shard int, id uint32, of column) error {
	values, column := of.values, &pb.CounterColumn{Counter: id}
	of.writeTo(column)
	for row, v := range values {
		if v != 0 {
			column.Rows = append(column.Rows, row)
		}
	}
	slices.Sort(column.Rows)
	for _, row := range column.Rows {
		column.Values = append(column.Values, values[row])
	}
	if len(column.Rows)+len(column.PodRows) == 0 && !c.shards[shard].table.HasCounter(id) {
		return nil
	}
	return c.shards[shard].apply(&pb.Delta{Change: &pb.Delta_SetCounter{SetCounter: column}})
}

// DropCounters takes counters out of use: no pod adds to them any more.
func (c *Cache) DropCounters(ids []uint32) error {
	for _, p := range c.pods {
		if now := c.contributions(p.object); !equalCounters(p.counters, now) {
			p.counters = now
			if p.counted != nil {
				p.counted = withCounters(p.counted, now)
			}
		}
	}
	for _, id := range ids {
		for i := range c.shards {
			if err := c.setCounter(i, id, column{}); err != nil {
				return fmt.Errorf("drop counter %d: %w", id, err)
			}
		}
	}
	return nil
}

// HeldCounters yields what each pod adds to counters.
func (c *Cache) HeldCounters(yield func([]*pb.CounterValue) bool) {
	for _, p := range c.pods {
		if len(p.counters) > 0 && !yield(p.counters) {
			return
		}
	}
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
		return p.counted
	}
	return nil
}

func equalCounters(a, b []*pb.CounterValue) bool {
	return slices.EqualFunc(a, b, func(x, y *pb.CounterValue) bool {
		return x == y || x.GetCounter() == y.GetCounter() && x.GetValue() == y.GetValue()
	})
}
