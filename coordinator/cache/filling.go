package cache

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/shardsched/shardsched/coordinator/count"
	"github.com/shardsched/shardsched/coordinator/selector"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// FillCounters brings counters into use: the pods of the namespaces, each named once, are
// asked anew what they add; all pods where all is true.
func (c *Cache) FillCounters(ids []uint32, all bool, namespaces []string) error {
	f := c.fill(ids)
	var pods []*pod
	if all {
		pods = slices.Clone(c.all)
	} else {
		for _, ns := range namespaces {
			if list := c.byNamespace[ns]; list != nil {
				pods = append(pods, *list...)
			}
		}
	}
	f.take(pods)
	return f.end(ids)
}

// FillTerms brings counters of affinity terms into use: only the pods of some namespaces, each named once, that carry
// them are asked.
func (c *Cache) FillTerms(ids []uint32, namespaces []string) error {
	f := c.fill(ids)
	adds := map[*count.Carried]bool{nil: false}
	var pods []*pod
	for _, ns := range namespaces {
		if list := c.byNamespace[ns]; list != nil {
			for _, p := range *list {
				is, known := adds[p.carried]
				if !known {
					is = p.carried.AddsTo(ids)
					adds[p.carried] = is
				}
				if is {
					pods = append(pods, p)
				}
			}
		}
	}
	f.take(pods)
	return f.end(ids)
}

// PodsIn is how many pods some namespaces have that are seen or assumed on a node; nil: all namespaces.
func (c *Cache) PodsIn(namespaces []string) int {
	if namespaces == nil {
		return len(c.pods)
	}
	n := 0
	for _, ns := range namespaces {
		if list := c.byNamespace[ns]; list != nil {
			n += len(*list)
		}
	}
	return n
}

// FillCounter brings a counter into use to which only pods of some namespaces, nil: of all, add that have
// all of some labels, where that takes no more than most steps, and tells in how many: kinds that are looked at, and pods that are
// counted. It is false where they are more, or are not found by themselves, or not yet, and FillCounters or Fill serves as
// well.
func (c *Cache) FillCounter(id uint32, demands []selector.Demand, namespaces []string, most int) (steps int, filled bool, err error) {
	kinds, pods, steps, by := c.demanded(demands, c.PodsIn(namespaces), most)
	if !by || pods > most-steps {
		return steps, false, nil
	}
	ids := []uint32{id}
	f := c.fill(ids)
	var list []*pod
	for _, k := range kinds {
		if len(f.ask(k.pods[0]).part) > 0 || f.isTold(k) {
			list = append(list, k.pods...)
		}
	}
	f.take(list)
	return steps + pods, true, f.end(ids)
}

// Filling is counters that come into use, or go out of it, row by row. Rows that come or go meanwhile count as they
// are to, and so do their pods: what has changed of those that are not reached yet is replaced.
type Filling struct {
	filling
	ids  []uint32
	goes bool
	// shard and row are what is next.
	shard int
	row   uint32
}

// Fill begins to bring counters into use that all pods may add to, or to take counters out of use. Some does it. The pods of
// some namespaces are told of as by Retell.
func (c *Cache) Fill(ids []uint32, goes bool, retold []string) *Filling {
	f := &Filling{filling: *c.fill(ids), ids: ids, goes: goes}
	f.retold = retold
	return f
}

// toTell counts the pods that tables are told of.
func (f *filling) toTell(pods []*pod) (n int) {
	for _, p := range pods {
		if f.isTold(p.kind) {
			n++
		}
	}
	return n
}

func (f *filling) isTold(k *kind) bool { return k.leaves || slices.Contains(f.retold, k.namespace) }

// rowSteps and podSteps are what a row, and a pod that is asked what it adds, take of the steps of Some. What a pod
// adds to a counter takes one. TellSteps is what a pod takes that the tables are told of.
const (
	rowSteps  = 1
	podSteps  = 8
	TellSteps = 100
)

// Some goes on for so many steps, those of one node, and what their pods add, and tells in how many. done says that nothing is left.
func (f *Filling) Some(most int) (steps int, done bool, err error) {
	for f.shard < len(f.c.shards) && steps < most {
		s, from := f.c.shards[f.shard], f.row
		var pods []*pod
		for ; f.row < s.next && steps < most; f.row++ {
			steps += rowSteps
			if s.table.HasNode(f.row) {
				on := f.c.nodes[s.table.Name(f.row)].pods
				steps += len(on)*podSteps + f.toTell(on)*TellSteps
				pods = append(pods, on...)
			}
		}
		values, err := f.replace(pods, from)
		if steps += values; err != nil {
			return steps, false, err
		}
		if f.row < s.next {
			return steps, false, nil
		}
		steps += rowSteps
		f.shard, f.row = f.shard+1, 0
	}
	if f.shard < len(f.c.shards) {
		return steps, false, nil
	}
	if f.goes {
		for _, id := range f.ids {
			delete(f.c.adding, id)
		}
	}
	return steps, true, nil
}

// replace writes what the pods of the rows from one on and before the next add, and tells how many values they are.
func (f *Filling) replace(pods []*pod, from uint32) (values int, err error) {
	clear(f.asked) // other counters may have come or gone since
	if f.goes {
		for _, p := range pods {
			if n := len(f.added(p.counters)); n > 0 {
				values += n
				f.renew(p, f.ask(p).list)
			}
		}
	} else {
		f.take(pods)
	}
	for _, id := range f.ids {
		column := f.columns[id][f.shard]
		if column == nil {
			column = &pb.CounterColumn{Counter: id}
		}
		f.columns[id][f.shard] = nil
		if whole := f.goes && f.row == f.c.shards[f.shard].next; !whole { // what goes leaves no column behind
			column.FromRow, column.ToRow = from, f.row
		}
		values += len(column.PodRows)
		if err := f.set(f.shard, column); err != nil {
			return values, err
		}
	}
	leaving := f.leaving
	f.leaving = nil
	return values, f.tell(leaving)
}

// Adding is how many pods added to a counter when it was filled.
func (c *Cache) Adding(id uint32) int { return c.adding[id] }

// Added is how much all pods add to counters: the length of all their lists.
func (c *Cache) Added() int { return c.added }

// filling is counters that come into use, or go out of it. Pods that count alike share what they add: what
// becomes of a list is found out once, however many pods and counters there are.
type filling struct {
	c *Cache
	// columns are by counter and shard.
	columns map[uint32][]*pb.CounterColumn
	// parts are of each list what adds to the counters at hand. asked is what pods add by their kinds.
	parts map[list][]*pb.CounterValue
	asked map[*kind]*adds
	room  int // of a column: about how many pods a shard has of those that are asked
	// leaving are pods that are being deleted, or of namespaces that are retold: they do not count, but may look as if
	// they did to who removes them.
	leaving []*pod
	retold  []string
}

// list is a list of contributions, by where it is: it is shared, and nobody writes to it.
type list struct {
	first **pb.CounterValue
	n     int
}

func listOf(l []*pb.CounterValue) list {
	if len(l) == 0 {
		return list{}
	}
	return list{&l[0], len(l)}
}

// fill begins to fill counters.
func (c *Cache) fill(ids []uint32) *filling {
	f := &filling{
		c: c, columns: make(map[uint32][]*pb.CounterColumn, len(ids)),
		parts: map[list][]*pb.CounterValue{}, asked: map[*kind]*adds{},
	}
	for _, id := range ids {
		f.columns[id] = make([]*pb.CounterColumn, len(c.shards))
	}
	return f
}

// take asks pods what they add, and counts that by row.
func (f *filling) take(pods []*pod) {
	places := make([]placeOf, len(pods))
	var of *kind
	var adds *adds
	for i, p := range pods {
		if of != p.kind || !adds.told {
			of, adds = p.kind, f.ask(p)
		}
		f.renew(p, adds.list)
		places[i] = placeOf{row: uint64(p.node.row.Shard)<<32 | uint64(p.node.row.Index), number: p.number, pod: p}
		if p.node.object != nil {
			places[i].part = adds.part
		}
	}
	if len(f.columns) == 1 { // each of the pods may be in it
		f.room = len(places)/len(f.c.shards)*9/8 + 1
	}
	for _, at := range inOrder(places) { // as a column is
		x := &places[at.index]
		if f.isTold(x.pod.kind) {
			f.leaving = append(f.leaving, x.pod)
		}
		for _, v := range x.part {
			f.count(x, v)
		}
	}
}

// placeOf is a pod with what counting needs of it. Pods lie in memory in the order that they came in, which is not that of rows: each is
// looked at once.
type placeOf struct {
	row, number uint64 // row: shard and index
	part        []*pb.CounterValue
	pod         *pod
}

// inOrder are places by row, then by the pods' numbers.
func inOrder(places []placeOf) []rowAt {
	out := make([]rowAt, len(places))
	for i := range places {
		out[i] = rowAt{places[i].row, i}
	}
	slices.SortFunc(out, func(a, b rowAt) int {
		if a.row != b.row {
			return cmp.Compare(a.row, b.row)
		}
		return cmp.Compare(places[a.index].number, places[b.index].number)
	})
	return out
}

type rowAt struct {
	row   uint64
	index int
}

// adds is what pods of a kind add to counters, and the part of it that is of the counters at hand. told: that can be told.
type adds struct {
	list, part []*pb.CounterValue
	told       bool
}

// ask asks a pod what it adds now, or another of its kind. Where that can not be told of a pod, each is asked.
func (f *filling) ask(p *pod) *adds {
	known := f.asked[p.kind]
	if known == nil {
		list, told := f.c.contributed(p.object)
		if known = (&adds{list, f.added(list), told}); told {
			f.asked[p.kind] = known
		}
	}
	return known
}

// renew has a pod add what it adds now. Pods are to share one list, also where it is equal to the one before.
func (f *filling) renew(p *pod, now []*pb.CounterValue) {
	if listOf(p.counters) != listOf(now) {
		f.c.added += len(now) - len(p.counters)
		p.counters = now
	}
}

// added is what a list adds to the counters at hand.
func (f *filling) added(l []*pb.CounterValue) []*pb.CounterValue {
	part, known := f.parts[listOf(l)]
	if known || len(l) == 0 {
		return part
	}
	for _, v := range l {
		if _, ours := f.columns[v.GetCounter()]; ours {
			part = append(part, v)
		}
	}
	f.parts[listOf(l)] = part
	return part
}

// count adds a pod's value to its row, which is the last one or behind it.
func (f *filling) count(p *placeOf, v *pb.CounterValue) {
	shard, row := p.row>>32, uint32(p.row)
	at := &f.columns[v.GetCounter()][shard]
	if *at == nil {
		*at = f.column(v.GetCounter())
	}
	x := *at
	if n := len(x.Rows); n > 0 && x.Rows[n-1] == row {
		x.Values[n-1] += v.GetValue()
	} else {
		x.Rows, x.Values = append(x.Rows, row), append(x.Values, v.GetValue())
	}
	if v.GetValue() != 1 && len(x.PodValues) == 0 { // all of them were 1
		x.PodValues = slices.Repeat([]int64{1}, len(x.PodRows))
	}
	if v.GetValue() != 1 || len(x.PodValues) > 0 {
		x.PodValues = append(x.PodValues, v.GetValue())
	}
	x.PodRows, x.PodNumbers = append(x.PodRows, row), append(x.PodNumbers, p.number)
}

// column is an empty column.
func (f *filling) column(id uint32) *pb.CounterColumn {
	return &pb.CounterColumn{
		Counter: id, Rows: make([]uint32, 0, f.room), Values: make([]int64, 0, f.room),
		PodRows: make([]uint32, 0, f.room), PodNumbers: make([]uint64, 0, f.room),
	}
}

// end writes what was counted.
func (f *filling) end(ids []uint32) error {
	for _, id := range ids {
		for i, column := range f.columns[id] {
			if column == nil {
				column = &pb.CounterColumn{Counter: id}
			}
			if err := f.set(i, column); err != nil {
				return err
			}
		}
	}
	return f.tell(f.leaving)
}

// set writes a counter in one shard, and takes note of how many pods add to it.
func (f *filling) set(shard int, column *pb.CounterColumn) error {
	if n := len(column.PodRows); n > 0 {
		f.c.adding[column.Counter] += n
	}
	if err := f.c.setCounter(shard, column); err != nil {
		return fmt.Errorf("fill counter %d: %w", column.Counter, err)
	}
	return nil
}

// tell has the tables know what else changes where pods leave.
func (f *filling) tell(leaving []*pod) error {
	for _, p := range leaving {
		if err := f.c.tell(p); err != nil {
			return err
		}
	}
	return nil
}

// setCounter replaces a counter in one shard, or a part of it, unless there is nothing in it and was
// nothing.
func (c *Cache) setCounter(shard int, column *pb.CounterColumn) error {
	dropNothing(column)
	if len(column.Rows)+len(column.PodRows) == 0 && !c.shards[shard].table.HasCounter(column.Counter, column.FromRow, column.ToRow) {
		return nil
	}
	return c.shards[shard].apply(&pb.Delta{Change: &pb.Delta_SetCounter{SetCounter: column}})
}

// dropNothing leaves rows out whose pods add up to 0.
func dropNothing(column *pb.CounterColumn) {
	n := 0
	for i, v := range column.Values {
		if v != 0 {
			column.Rows[n], column.Values[n] = column.Rows[i], v
			n++
		}
	}
	column.Rows, column.Values = column.Rows[:n], column.Values[:n]
}
