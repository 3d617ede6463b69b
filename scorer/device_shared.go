package scorer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/devices"
)

// sharedDevices are the slices of pools that are no single node's, and what is in use of their devices. Each table has
// all of them.
type sharedDevices struct {
	// slices are sorted by driver, pool and name; held stands beside it.
	slices []*devices.Slice
	held   []heldSlice
	uses   []deviceUse // sorted by driver, pool and device
	// drivers are the pools of each driver, sorted.
	drivers map[string][]string
	// targets are the names and selectors that slices and devices name their nodes by: numbered, each once. byKey finds
	// them, ofName those that are a name.
	targets []reachTarget
	free    []int32
	byKey   map[string]int32
	ofName  map[string]int32
	// sum stands for slices and uses, slicesSum for the slices alone.
	sum, slicesSum digest
}

type heldSlice struct {
	contents []uint32
	digest   digest
}

// reachTarget is nodes: that of a name, those of a selector, or unknown ones.
type reachTarget struct {
	refs     int
	told     *pb.DeviceReach
	selector *selector // nil: it is no selector
	key      string
	digest   digest
}

func newSharedDevices() sharedDevices {
	return sharedDevices{drivers: map[string][]string{}, byKey: map[string]int32{}, ofName: map[string]int32{}}
}

// number takes hold of the nodes that a reach names.
func (x *sharedDevices) number(told *pb.DeviceReach) int32 {
	key, err := proto.MarshalOptions{Deterministic: true}.Marshal(told)
	if err != nil {
		panic(err) // what came as a message can be written as one
	}
	n, known := x.byKey[string(key)]
	if !known {
		n = int32(len(x.targets))
		if last := len(x.free) - 1; last >= 0 {
			n, x.free = x.free[last], x.free[:last]
		} else {
			x.targets = append(x.targets, reachTarget{})
		}
		x.targets[n] = reachTarget{told: told, selector: newSelector(told.GetSelector()), key: string(key), digest: digestOf(key)}
		x.byKey[string(key)] = n
		if name := told.GetNodeName(); name != "" {
			x.ofName[name] = n
		}
	}
	x.targets[n].refs++
	return n
}

// drop forgets nodes that no slice names any more.
func (x *sharedDevices) drop(n int32) {
	t := &x.targets[n]
	delete(x.byKey, t.key)
	delete(x.ofName, t.told.GetNodeName())
	*t = reachTarget{}
	x.free = append(x.free, n)
}

// targetsOf are the numbers that a slice holds, each as often as it does.
func targetsOf(s *devices.Slice, into []int32) []int32 {
	add := func(r devices.Reach) {
		if r.Kind == devices.ReachName || r.Kind == devices.ReachSelector {
			into = append(into, r.Index)
		}
	}
	add(s.Reach)
	for i := range s.Devices {
		add(s.Devices[i].Reach)
	}
	return into
}

// reachOf appends the numbers that a row is of, ascending.
func (x *sharedDevices) reachOf(v view, into []int32) []int32 {
	if n, ok := x.ofName[v.t.names[v.row]]; ok {
		into = append(into, n)
	}
	for n := range x.targets {
		if t := &x.targets[n]; t.selector != nil && t.selector.matches(v) {
			into = append(into, int32(n))
		}
	}
	slices.Sort(into)
	return into
}

// sumOf stands for the nodes of some numbers, whatever the numbers are.
func (x *sharedDevices) sumOf(reach []int32) (sum digest) {
	for _, n := range reach {
		sum.add(x.targets[n].digest)
	}
	return sum
}

// appendReach encodes a reach, whatever its number is.
func (x *sharedDevices) appendReach(b []byte, r devices.Reach) []byte {
	b = append(b, byte(r.Kind))
	if r.Kind == devices.ReachName || r.Kind == devices.ReachSelector {
		b = append(b, x.targets[r.Index].digest[:]...)
	}
	return b
}

// reachProto is the message that a reach was made of.
func (x *sharedDevices) reachProto(r devices.Reach) *pb.DeviceReach {
	switch r.Kind {
	case devices.ReachName, devices.ReachSelector:
		return x.targets[r.Index].told
	case devices.ReachAllNodes:
		return &pb.DeviceReach{Of: &pb.DeviceReach_AllNodes{AllNodes: true}}
	case devices.ReachEach:
		return &pb.DeviceReach{Of: &pb.DeviceReach_PerDevice{PerDevice: true}}
	}
	return &pb.DeviceReach{}
}

// reaches tells whether the row of a state is among the nodes of a reach.
func (x *sharedDevices) reaches(s *deviceState) func(devices.Reach) (bool, error) {
	return func(r devices.Reach) (bool, error) {
		if why := x.targets[r.Index].told.GetUnreadable(); why != "" {
			return false, errors.New(why)
		}
		_, found := slices.BinarySearch(s.reach, r.Index)
		return found, nil
	}
}

// find is where a slice stands, or would.
func (x *sharedDevices) find(driver, pool, name string) (int, bool) {
	key := &devices.Slice{Driver: driver, Pool: pool, Name: name}
	return slices.BinarySearchFunc(x.slices, key, compareSlices)
}

// pool are the slices of a pool.
func (x *sharedDevices) pool(driver, name string) []*devices.Slice {
	return poolOf(x.slices, driver, name)
}

// changeSharedSlice sets or removes a slice that no single row has.
func (t *Table) changeSharedSlice(p *pb.DeviceSlice, remove bool) error {
	if remove && t.devices == nil {
		return fmt.Errorf("there is no shared slice %s", p.GetName())
	}
	d := t.openDevices()
	x := &d.shared
	at, found := x.find(p.GetDriver(), p.GetPool(), p.GetName())
	if remove && !found {
		return fmt.Errorf("there is no shared slice %s of pool %s/%s", p.GetName(), p.GetDriver(), p.GetPool())
	}
	opens := len(x.pool(p.GetDriver(), p.GetPool())) == 0
	if row, local := d.localTo(p); opens && local {
		return fmt.Errorf("pool %s/%s is that of row %d", p.GetDriver(), p.GetPool(), row)
	}
	var gone, come []int32
	before := len(x.byKey)
	if !remove {
		s, contents := d.slice(p, nil)
		if len(x.byKey) > before {
			come = targetsOf(s, nil)
		}
		d.putShared(at, found, s, contents, &gone)
	} else {
		d.deleteShared(at, &gone)
	}
	if closes := len(x.pool(p.GetDriver(), p.GetPool())) == 0; opens || closes {
		x.setPool(p.GetDriver(), p.GetPool(), !closes)
		t.reorder(p.GetDriver())
	}
	t.retarget(come, gone)
	return nil
}

// localTo is a row that has a pool as its own.
func (d *deviceColumns) localTo(p *pb.DeviceSlice) (uint32, bool) {
	for row, r := range d.rows {
		for i, s := range d.inventoryOf(r).slices {
			if r.names[i].pool == p.GetPool() && s.Driver == p.GetDriver() {
				return row, true
			}
		}
	}
	return 0, false
}

// putShared puts a slice at its place. Numbers that nobody holds any more are appended to gone.
func (d *deviceColumns) putShared(at int, found bool, s *devices.Slice, contents []uint32, gone *[]int32) {
	if found {
		d.deleteShared(at, gone)
	}
	x := &d.shared
	b := appendText(appendText(nil, s.Pool), s.Name)
	sum := digestOf(d.appendSlice(b, s, true))
	x.slices = slices.Insert(x.slices, at, s)
	x.held = slices.Insert(x.held, at, heldSlice{contents, sum})
	x.sum.add(sum)
	x.slicesSum.add(sum)
}

func (d *deviceColumns) deleteShared(at int, gone *[]int32) {
	x := &d.shared
	for _, id := range x.held[at].contents {
		d.releaseContent(id)
	}
	x.sum.remove(x.held[at].digest)
	x.slicesSum.remove(x.held[at].digest)
	for _, n := range targetsOf(x.slices[at], nil) {
		if x.targets[n].refs--; x.targets[n].refs == 0 {
			*gone = append(*gone, n)
		}
	}
	x.slices = slices.Delete(x.slices, at, at+1)
	x.held = slices.Delete(x.held, at, at+1)
}

// setPool adds a pool to its driver's, or removes it.
func (x *sharedDevices) setPool(driver, pool string, there bool) {
	list := x.drivers[driver]
	at, found := slices.BinarySearch(list, pool)
	switch {
	case there && !found:
		list = slices.Insert(list, at, pool)
	case !there && found:
		list = slices.Delete(list, at, at+1)
	}
	if x.drivers[driver] = list; len(list) == 0 {
		delete(x.drivers, driver)
	}
}

// reorder restates the rows that have pools of a driver, of which the shared pools are others now.
func (t *Table) reorder(driver string) {
	for row, r := range t.devices.rows {
		if _, has := slices.BinarySearch(t.devices.inventoryOf(r).drivers, driver); has {
			t.restate(row)
		}
	}
}

// retarget restates the rows whose reach is another now. Numbers that nobody holds may be given out again afterwards.
func (t *Table) retarget(come, gone []int32) {
	d := t.devices
	x := &d.shared
	gone = slices.DeleteFunc(gone, func(n int32) bool { return x.targets[n].refs > 0 })
	if len(come)+len(gone) == 0 {
		return
	}
	for _, n := range gone {
		x.targets[n].selector = nil
		delete(x.ofName, x.targets[n].told.GetNodeName())
	}
	for row := range t.live.all {
		has := t.deviceState(row).reach
		leaves := func(n int32) bool { return slices.Contains(has, n) }
		comes := func(n int32) bool { return !slices.Contains(has, n) && x.is(n, view{t: t, row: row}) }
		if slices.ContainsFunc(gone, leaves) || slices.ContainsFunc(come, comes) {
			t.restate(row)
		}
	}
	for _, n := range gone {
		x.drop(n)
	}
}

// is tells whether a row is among the nodes of a number.
func (x *sharedDevices) is(n int32, v view) bool {
	if s := x.targets[n].selector; s != nil {
		return s.matches(v)
	}
	return x.targets[n].told.GetNodeName() == v.t.names[v.row]
}

// useSharedDevices replaces what is in use of shared devices.
func (t *Table) useSharedDevices(uses []*pb.DeviceUse) {
	x := &t.openDevices().shared
	for _, p := range uses {
		if at, found := findUse(x.uses, p); found {
			x.sum.remove(x.uses[at].digest())
		}
		x.uses = putUse(x.uses, p)
		if at, found := findUse(x.uses, p); found {
			x.sum.add(x.uses[at].digest())
		}
	}
}

func (u *deviceUse) digest() digest {
	b := appendText(appendText(appendText(binary.AppendUvarint(nil, 1), u.driver), u.pool), u.device)
	return digestOf(appendUse(b, u))
}
