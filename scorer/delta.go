package scorer

import (
	"fmt"
	"math"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Apply makes one change and raises the generation by one. A change that is not
// valid, or that the row does not allow, is an error and leaves the table as it was.
// Adding or removing a pod allocates nothing, but for its first scalars and ports on
// a row, and for a pod of many ports.
func (t *Table) Apply(d *pb.Delta) error {
	if err := d.Validate(); err != nil {
		return fmt.Errorf("delta %d of shard %d: %w", t.generation+1, t.shard, err)
	}
	if err := t.change(d); err != nil {
		return fmt.Errorf("delta %d of shard %d: row %d: %w", t.generation+1, t.shard, d.GetRow(), err)
	}
	t.generation++
	if ofAllRows(d) {
		t.columns = t.generation
	} else {
		t.changed[d.GetRow()] = t.generation
		t.renew(d.GetRow())
	}
	return nil
}

// ofAllRows tells whether a delta is of no single row.
func ofAllRows(d *pb.Delta) bool {
	switch d.GetChange().(type) {
	case *pb.Delta_SetCounter, *pb.Delta_SetSharedSlice, *pb.Delta_RemoveSharedSlice, *pb.Delta_UseSharedDevices:
		return true
	}
	return false
}

// changeAllRows makes a change of no single row.
func (t *Table) changeAllRows(d *pb.Delta) error {
	switch c := d.GetChange().(type) {
	case *pb.Delta_SetSharedSlice:
		return t.changeSharedSlice(c.SetSharedSlice, false)
	case *pb.Delta_RemoveSharedSlice:
		return t.changeSharedSlice(c.RemoveSharedSlice, true)
	case *pb.Delta_UseSharedDevices:
		t.useSharedDevices(c.UseSharedDevices.GetUses())
		return nil
	}
	column := d.GetSetCounter()
	if err := t.checkColumn(column); err != nil {
		return err
	}
	if err := t.checkPodColumn(column); err != nil {
		return err
	}
	t.setCounter(column)
	t.setPodCounter(column)
	return nil
}

func (t *Table) change(d *pb.Delta) error {
	row := d.GetRow()
	if set, ok := d.GetChange().(*pb.Delta_SetNode); ok {
		if err := t.checkName(row, set.SetNode.GetName()); err != nil {
			return err
		}
		t.setNode(row, set.SetNode)
		return nil
	}
	if ofAllRows(d) {
		return t.changeAllRows(d)
	}
	if !t.HasNode(row) {
		return fmt.Errorf("holds no node")
	}
	return t.changeRow(row, d)
}

// changeRow makes a change of a row that holds a node.
func (t *Table) changeRow(row uint32, d *pb.Delta) error {
	switch c := d.GetChange().(type) {
	case *pb.Delta_RemoveNode:
		t.removeNode(row)
	case *pb.Delta_AddPod:
		if err := t.checkRoom(row, c.AddPod); err != nil {
			return err
		}
		if err := t.checkPlaced(row, d.GetPod(), false); err != nil {
			return fmt.Errorf("add_pod: %w", err)
		}
		t.addPod(row, c.AddPod)
		t.addPlaced(row, d.GetPod(), c.AddPod)
		if d.GetDecision() != 0 {
			t.lastDecision[row] = d.GetDecision()
		}
	case *pb.Delta_RemovePod:
		if err := t.checkHeld(row, c.RemovePod); err != nil {
			return err
		}
		if err := t.checkPlaced(row, d.GetPod(), true); err != nil {
			return fmt.Errorf("remove_pod: %w", err)
		}
		t.removePod(row, c.RemovePod)
		t.removePlaced(row, d.GetPod().GetNumber())
		if d.LastDecision != nil {
			t.lastDecision[row] = d.GetLastDecision()
		}
	case *pb.Delta_ChangePod:
		if err := t.checkPlaced(row, c.ChangePod, true); err != nil {
			return fmt.Errorf("change_pod: %w", err)
		}
		t.changePlaced(row, c.ChangePod)
	case *pb.Delta_ChangeCounters:
		list := c.ChangeCounters.GetCounters()
		if err := t.counters.check(row, list, 1); err != nil {
			return fmt.Errorf("change_counters: %w", err)
		}
		t.counters.add(row, list, 1, t.capacity)
	case *pb.Delta_SetSlice:
		return t.changeSlice(row, c.SetSlice, false)
	case *pb.Delta_RemoveSlice:
		return t.changeSlice(row, c.RemoveSlice, true)
	case *pb.Delta_UseDevices:
		t.useDevices(row, c.UseDevices.GetUses())
	}
	return nil
}

// maxSum leaves a sum room for one more pod's request, so that no score wraps around.
const maxSum = math.MaxInt64 / 2

// checkRoom refuses a pod with which a sum would leave the numbers that a message
// may carry.
//
// Differs from upstream: its sums wrap round. No amounts that a cluster can have get
// there.
func (t *Table) checkRoom(row uint32, u *pb.PodUsage) error {
	fits := func(have, more int64) bool { return have <= maxSum-more }
	r := u.GetRequests()
	ok := fits(t.pods[row], 1) &&
		fits(t.nonZero[cpu].dense[row], u.GetNonZeroMilliCpu()) &&
		fits(t.nonZero[memory].dense[row], u.GetNonZeroMemoryBytes()) &&
		fits(t.fixed[cpu].requested.at(row), r.GetMilliCpu()) &&
		fits(t.fixed[memory].requested.at(row), r.GetMemoryBytes()) &&
		fits(t.fixed[ephemeralStorage].requested.at(row), r.GetEphemeralStorageBytes())
	for _, s := range r.GetScalars() {
		ok = ok && fits(t.requestedScalar(row, s.GetName()), s.GetQuantity())
	}
	if !ok {
		return fmt.Errorf("add_pod: a sum is more than 62 bits hold")
	}
	if err := t.counters.check(row, u.GetCounters(), 1); err != nil {
		return fmt.Errorf("add_pod: %w", err)
	}
	return nil
}

// checkHeld refuses to take what the row's pods do not have.
func (t *Table) checkHeld(row uint32, u *pb.PodUsage) error {
	r := u.GetRequests()
	ok := t.pods[row] >= 1 &&
		t.nonZero[cpu].dense[row] >= u.GetNonZeroMilliCpu() &&
		t.nonZero[memory].dense[row] >= u.GetNonZeroMemoryBytes() &&
		t.fixed[cpu].requested.at(row) >= r.GetMilliCpu() &&
		t.fixed[memory].requested.at(row) >= r.GetMemoryBytes() &&
		t.fixed[ephemeralStorage].requested.at(row) >= r.GetEphemeralStorageBytes()
	for _, s := range r.GetScalars() {
		ok = ok && t.requestedScalar(row, s.GetName()) >= s.GetQuantity()
	}
	if len(u.GetHostPorts()) > 0 {
		var few [fewPorts]portUse
		ok = ok && areHeld(sortedPorts(u.GetHostPorts(), few[:0]), t.ports[row])
	}
	if !ok {
		return fmt.Errorf("remove_pod: the row's pods do not have that much")
	}
	if err := t.counters.check(row, u.GetCounters(), -1); err != nil {
		return fmt.Errorf("remove_pod: %w", err)
	}
	return nil
}

func (t *Table) requestedScalar(row uint32, name string) int64 {
	if r := t.scalars[name]; r != nil {
		return r.requested.at(row)
	}
	return 0
}

func (t *Table) addPod(row uint32, u *pb.PodUsage) {
	t.pods[row]++
	t.addUsage(row, u, 1)
	if len(u.GetHostPorts()) > 0 {
		var few [fewPorts]portUse
		t.ports[row] = takePorts(t.ports[row], sortedPorts(u.GetHostPorts(), few[:0]))
	}
}

func (t *Table) removePod(row uint32, u *pb.PodUsage) {
	t.pods[row]--
	t.addUsage(row, u, -1)
	if len(u.GetHostPorts()) > 0 {
		var few [fewPorts]portUse
		t.ports[row] = freePorts(t.ports[row], sortedPorts(u.GetHostPorts(), few[:0]))
	}
}

// addUsage adds a pod's amounts to a row, or takes them with sign -1.
func (t *Table) addUsage(row uint32, u *pb.PodUsage, sign int64) {
	t.counters.add(row, u.GetCounters(), sign, t.capacity)
	r := u.GetRequests()
	t.nonZero[cpu].dense[row] += sign * u.GetNonZeroMilliCpu()
	t.nonZero[memory].dense[row] += sign * u.GetNonZeroMemoryBytes()
	t.fixed[cpu].requested.dense[row] += sign * r.GetMilliCpu()
	t.fixed[memory].requested.dense[row] += sign * r.GetMemoryBytes()
	t.fixed[ephemeralStorage].requested.dense[row] += sign * r.GetEphemeralStorageBytes()
	if len(r.GetScalars()) == 0 {
		return
	}
	var x relisting
	for _, s := range r.GetScalars() {
		t.setScalar(row, s.GetName(), requestedOf, t.requestedScalar(row, s.GetName())+sign*s.GetQuantity(), &x)
	}
	t.relist(row, &x)
}
