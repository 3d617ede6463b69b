package scorer

import (
	"cmp"
	"slices"
	"strings"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Snapshot yields the rows that hold a node, in order, without counters (Counters). What it yields depends on
// the rows alone, not on the deltas that led there, and is the receiver's to keep.
func (t *Table) Snapshot(yield func(*pb.SnapshotRow) bool) {
	w := podWriter{table: t}
	for row := range t.All() {
		if !yield(&pb.SnapshotRow{Row: row, Node: t.node(row), Totals: t.totals(row), Pods: w.pods(row)}) {
			return
		}
	}
}

func (t *Table) node(row uint32) *pb.Node {
	n := &pb.Node{
		Name:          t.names[row],
		Unschedulable: t.unschedulable.has(row),
		Labels:        t.labels.appendTo(row, nil),
		Annotations:   t.annotations.appendTo(row, nil),
		Allocatable:   t.amounts(row, allocatableOf),
		AllowedPods:   t.allowedPods[row],
	}
	for _, x := range t.taints.of(row) {
		n.Taints = append(n.Taints, &pb.Taint{Key: x.key, Value: x.value, Effect: x.effect})
	}
	for _, i := range t.images.ofRow[row] {
		n.Images = append(n.Images, t.images.images[i].name)
	}
	t.traits.appendTo(row, n)
	return n
}

func (t *Table) totals(row uint32) *pb.NodeTotals {
	s := &pb.NodeTotals{
		Pods:               t.pods[row],
		Requested:          t.amounts(row, requestedOf),
		NonZeroMilliCpu:    t.nonZero[cpu].dense[row],
		NonZeroMemoryBytes: t.nonZero[memory].dense[row],
		LastDecision:       t.lastDecision[row],
	}
	ports := slices.Clone(t.ports[row])
	slices.SortFunc(ports, func(a, b portUse) int { // as NodeTotals has them
		return cmp.Or(strings.Compare(a.ip, b.ip), comparePorts(&a.hostPort, &b.hostPort))
	})
	for _, p := range ports {
		s.Ports = append(s.Ports, &pb.PortUse{
			Port: &pb.HostPort{Ip: p.ip, Protocol: pb.Protocol(p.protocol), Port: uint32(p.port)},
			Pods: p.pods,
		})
	}
	return s
}

// amounts gathers one column of each resource; scalars that are 0 are left out.
func (t *Table) amounts(row uint32, column func(*resource) *amounts) *pb.Resources {
	out := &pb.Resources{
		MilliCpu:              column(t.fixed[cpu]).at(row),
		MemoryBytes:           column(t.fixed[memory]).at(row),
		EphemeralStorageBytes: column(t.fixed[ephemeralStorage]).at(row),
	}
	for _, r := range t.scalarsOf[row] {
		if v := column(r).at(row); v != 0 {
			out.Scalars = append(out.Scalars, &pb.ScalarResource{Name: r.name, Quantity: v})
		}
	}
	return out
}

// RowTotals is what the pods of one row add up to, apart from the table: to
// evaluate the row as it was, or as it would be. Its zero value is a row without
// pods.
type RowTotals struct {
	pods         int64
	nonZero      [2]int64
	lastDecision uint64
	requested    [fixedResources]int64
	scalars      []scalarAmount // requested, sorted by name
	ports        []portUse
	counters     []counterChange
	// devices are the row's, with what is in use of them; nil: none.
	devices *deviceState
}

// set makes r a copy of o in its own memory.
func (r *RowTotals) set(o *RowTotals) {
	*r = RowTotals{
		pods: o.pods, nonZero: o.nonZero, lastDecision: o.lastDecision, requested: o.requested,
		scalars: append(r.scalars[:0], o.scalars...), ports: append(r.ports[:0], o.ports...),
		counters: append(r.counters[:0], o.counters...), devices: o.devices,
	}
}

// LastDecision is the number of the last decision that had given the row a pod.
func (r *RowTotals) LastDecision() uint64 { return r.lastDecision }

// InUse is how many scalars and host ports a row has some of, or its pods use: what Totals copies.
func (t *Table) InUse(row uint32) int {
	if !t.HasNode(row) {
		return 0
	}
	return len(t.scalarsOf[row]) + len(t.ports[row])
}

// Totals copies what the pods of a row add up to into into, whose memory is used
// again. The copy holds for this table only.
func (t *Table) Totals(row uint32, into *RowTotals) {
	if !t.HasNode(row) {
		*into = RowTotals{scalars: into.scalars[:0], ports: into.ports[:0], counters: into.counters[:0]}
		return
	}
	into.counters = into.counters[:0]
	into.devices = t.deviceState(row)
	into.pods = t.pods[row]
	into.nonZero = [2]int64{t.nonZero[cpu].dense[row], t.nonZero[memory].dense[row]}
	into.lastDecision = t.lastDecision[row]
	for i, r := range t.fixed {
		into.requested[i] = r.requested.at(row)
	}
	into.scalars = into.scalars[:0]
	for _, r := range t.scalarsOf[row] {
		if v := r.requested.at(row); v != 0 {
			into.scalars = append(into.scalars, scalarAmount{r.name, v})
		}
	}
	into.ports = append(into.ports[:0], t.ports[row]...)
}

// AddPod makes the totals those of a row that holds one pod more.
func (r *RowTotals) AddPod(u *pb.PodUsage) {
	r.addRequests(u, 1)
	if len(u.GetHostPorts()) > 0 {
		var few [fewPorts]portUse
		r.ports = takePorts(r.ports, sortedPorts(u.GetHostPorts(), few[:0]))
	}
	r.AddCounters(u.GetCounters(), 1)
}

// RemoveRequests takes a pod and its requests off. Host ports, counters and devices stay.
func (r *RowTotals) RemoveRequests(u *pb.PodUsage) { r.addRequests(u, -1) }

// addRequests adds a pod and its requests, or takes them off with sign -1.
func (r *RowTotals) addRequests(u *pb.PodUsage, sign int64) {
	r.pods += sign
	r.nonZero[cpu] += sign * u.GetNonZeroMilliCpu()
	r.nonZero[memory] += sign * u.GetNonZeroMemoryBytes()
	used := u.GetRequests()
	r.requested[cpu] += sign * used.GetMilliCpu()
	r.requested[memory] += sign * used.GetMemoryBytes()
	r.requested[ephemeralStorage] += sign * used.GetEphemeralStorageBytes()
	for _, s := range used.GetScalars() {
		r.scalars = addAmount(r.scalars, s.GetName(), sign*s.GetQuantity())
	}
}
