package scorer

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/devices"
)

// deviceColumns are the devices of a table's rows. A table has none until a slice or a use comes.
//
// Nodes of one kind publish the same devices under other names of pools and slices, and fill up in much the same order.
// So what a search looks at of a row, its state, is interned without these names: rows of one state have one verdict.
type deviceColumns struct {
	// states is the state of each row; 0: no slice reaches it but those that reach all.
	states   ids
	interned interned[*deviceState]
	// rows are those with slices or uses of their own.
	rows        map[uint32]*rowDevices
	inventories interned[*inventory]
	contents    interned[*devices.Content]
	// known finds contents that are held.
	known   map[*devices.Content]heldContent
	shared  sharedDevices
	encoded []byte // scratch
}

// heldContent is a content's number, and what stands for it, and for its capacities alone.
type heldContent struct {
	id              uint32
	sum, capacities digest
}

// inventory is the slices of a row, sorted by driver, pool and name. Names of pools and slices, and generations, are those
// of the row that came first with it; of generations only the order matters.
type inventory struct {
	slices   []*devices.Slice
	contents []uint32 // that the slices hold
	digest   digest
	// frame stands for all but the attributes of devices.
	frame digest
	// drivers are the drivers, sorted.
	drivers []string
}

// rowDevices are the devices of one row.
type rowDevices struct {
	inventory uint32
	// names are the row's own names of the inventory's slices.
	names []sliceName
	// uses are sorted by driver, pool and device.
	uses []deviceUse
}

type sliceName struct {
	pool, name string
	generation int64
}

// deviceUse is what is in use of a device.
type deviceUse struct {
	driver, pool, device string
	dedicated, shared    bool
	shares               uint32
	held                 bool
	consumed             []devices.Counter
}

func (u *deviceUse) compare(driver, pool, device string) int {
	return cmp.Or(strings.Compare(u.driver, driver), strings.Compare(u.pool, pool), strings.Compare(u.device, device))
}

// stateUse is a use of a device of an inventory. The pool is that of a slice, by number.
type stateUse struct {
	deviceUse
	slice int
}

// deviceState is what a search looks at of a row, beside what all rows share. It is immutable.
type deviceState struct {
	inventory *inventory // nil: none
	// uses are those of devices of the inventory's pools.
	uses []stateUse
	// reach are the numbers of names and selectors that the row is of, ascending.
	reach []int32
	// among tells of each local pool whose driver has shared pools how many of these stand before it.
	among []int32
	// around stands for reach and among, used for the uses, digest for everything.
	around, used, digest digest
}

var noDevices = &deviceState{}

// deviceState is a row's.
func (t *Table) deviceState(row uint32) *deviceState {
	if t.devices == nil {
		return noDevices
	}
	if id := t.devices.states.at(row); id != 0 {
		return t.devices.interned.contents[id]
	}
	return noDevices
}

func (t *Table) openDevices() *deviceColumns {
	if t.devices == nil {
		t.devices = &deviceColumns{
			interned: newInterned[*deviceState](), rows: map[uint32]*rowDevices{},
			inventories: newInterned[*inventory](), contents: newInterned[*devices.Content](), known: map[*devices.Content]heldContent{},
			shared: newSharedDevices(),
		}
	}
	return t.devices
}

// ofRow opens a row.
func (d *deviceColumns) ofRow(row uint32) *rowDevices {
	r := d.rows[row]
	if r == nil {
		r = &rowDevices{}
		d.rows[row] = r
	}
	return r
}

// changeSlice sets or removes a slice of a row.
func (t *Table) changeSlice(row uint32, p *pb.DeviceSlice, remove bool) error {
	if t.devices != nil && len(t.devices.shared.pool(p.GetDriver(), p.GetPool())) > 0 {
		return fmt.Errorf("pool %s/%s is shared", p.GetDriver(), p.GetPool())
	}
	if remove && !t.hasSlice(row, p) {
		return fmt.Errorf("has no slice %s of pool %s/%s", p.GetName(), p.GetDriver(), p.GetPool())
	}
	d := t.openDevices()
	r := d.ofRow(row)
	list := r.slices(d)
	list = slices.DeleteFunc(list, func(s *devices.Slice) bool {
		return s.Name == p.GetName() && s.Pool == p.GetPool() && s.Driver == p.GetDriver()
	})
	var held []uint32
	if !remove {
		var s *devices.Slice
		s, held = d.slice(p, nil)
		list = append(list, s)
	}
	d.replace(r, list)
	for _, id := range held {
		d.releaseContent(id) // the inventory holds its own
	}
	d.dropIfEmpty(row)
	t.restate(row)
	return nil
}

func (t *Table) hasSlice(row uint32, p *pb.DeviceSlice) bool {
	if t.devices == nil || t.devices.rows[row] == nil {
		return false
	}
	r := t.devices.rows[row]
	for i, s := range t.devices.inventoryOf(r).slices {
		if r.names[i].name == p.GetName() && r.names[i].pool == p.GetPool() && s.Driver == p.GetDriver() {
			return true
		}
	}
	return false
}

var noInventory = &inventory{}

// inventoryOf is a row's, empty where it has none.
func (d *deviceColumns) inventoryOf(r *rowDevices) *inventory {
	if r.inventory == 0 {
		return noInventory
	}
	return d.inventories.contents[r.inventory]
}

// slices are copies of the row's slices under their own names.
func (r *rowDevices) slices(d *deviceColumns) []*devices.Slice {
	from := d.inventoryOf(r).slices
	out := make([]*devices.Slice, 0, len(from)+1)
	for i, s := range from {
		own := *s
		own.Name, own.Pool, own.Generation = r.names[i].name, r.names[i].pool, r.names[i].generation
		out = append(out, &own)
	}
	return out
}

// replace gives a row other slices.
func (d *deviceColumns) replace(r *rowDevices, list []*devices.Slice) {
	slices.SortFunc(list, compareSlices)
	before := r.inventory
	r.names = r.names[:0]
	for _, s := range list {
		r.names = append(r.names, sliceName{s.Pool, s.Name, s.Generation})
	}
	d.rank(list)
	var key []byte
	sum := d.sumOf(list, true)
	if len(list) > 0 {
		key = sum[:]
	}
	r.inventory = d.inventories.acquire(key, func() *inventory { return d.newInventory(list, sum) })
	d.releaseInventory(before)
}

// sumOf stands for slices, with attributes of devices or without.
func (d *deviceColumns) sumOf(list []*devices.Slice, attributes bool) digest {
	d.encoded = d.encoded[:0]
	for i, s := range list {
		d.encoded = append(d.encoded, byte(asInt(i > 0 && samePool(list[i-1], s))))
		d.encoded = d.appendSlice(d.encoded, s, attributes)
	}
	return digestOf(d.encoded)
}

func compareSlices(a, b *devices.Slice) int {
	return cmp.Or(strings.Compare(a.Driver, b.Driver), strings.Compare(a.Pool, b.Pool), strings.Compare(a.Name, b.Name))
}

func samePool(a, b *devices.Slice) bool { return a.Pool == b.Pool && a.Driver == b.Driver }

// rank replaces generations by their ranks in each pool.
func (d *deviceColumns) rank(list []*devices.Slice) {
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && samePool(list[from], list[to]) {
			to++
		}
		var all []int64
		for _, s := range list[from:to] {
			all = append(all, s.Generation)
		}
		slices.Sort(all)
		all = slices.Compact(all)
		for _, s := range list[from:to] {
			at, _ := slices.BinarySearch(all, s.Generation)
			s.Generation = int64(at)
		}
		from = to
	}
}

func (d *deviceColumns) newInventory(list []*devices.Slice, sum digest) *inventory {
	x := &inventory{slices: list, digest: sum, frame: d.sumOf(list, false)}
	for i, s := range list {
		if i == 0 || list[i-1].Driver != s.Driver {
			x.drivers = append(x.drivers, s.Driver)
		}
		for k := range s.Devices {
			id := d.known[s.Devices[k].Content].id
			d.contents.hold(id)
			x.contents = append(x.contents, id)
		}
	}
	return x
}

func (d *deviceColumns) releaseInventory(id uint32) {
	if id != 0 && d.inventories.refs[id] == 1 {
		for _, c := range d.inventories.contents[id].contents {
			d.releaseContent(c)
		}
	}
	d.inventories.release(id)
}

// dropIfEmpty forgets a row without slices and uses.
func (d *deviceColumns) dropIfEmpty(row uint32) {
	if r := d.rows[row]; r != nil && r.inventory == 0 && len(r.uses) == 0 {
		delete(d.rows, row)
	}
}

// useDevices replaces what is in use of devices.
func (t *Table) useDevices(row uint32, uses []*pb.DeviceUse) {
	d := t.openDevices()
	r := d.ofRow(row)
	for _, p := range uses {
		r.uses = putUse(r.uses, p)
	}
	d.dropIfEmpty(row)
	t.restate(row)
}

// putUse replaces a use in a sorted list.
func putUse(list []deviceUse, p *pb.DeviceUse) []deviceUse {
	at, found := findUse(list, p)
	u := deviceUse{
		driver: p.GetDriver(), pool: p.GetPool(), device: p.GetDevice(), dedicated: p.GetDedicated(),
		shared: p.GetShares() > 0, shares: p.GetShares(), held: p.GetConsumed() != nil, consumed: countersOfDevice(p.GetConsumed().GetAmounts()),
	}
	switch none := !u.dedicated && !u.shared && !u.held; {
	case none && found:
		return slices.Delete(list, at, at+1)
	case none:
		return list
	case found:
		list[at] = u
		return list
	}
	return slices.Insert(list, at, u)
}

func findUse(list []deviceUse, p *pb.DeviceUse) (int, bool) {
	return slices.BinarySearchFunc(list, p, func(u deviceUse, p *pb.DeviceUse) int {
		return u.compare(p.GetDriver(), p.GetPool(), p.GetDevice())
	})
}

func useProto(u *deviceUse) *pb.DeviceUse {
	out := &pb.DeviceUse{Driver: u.driver, Pool: u.pool, Device: u.device, Dedicated: u.dedicated, Shares: u.shares}
	if u.held {
		out.Consumed = &pb.DeviceAmounts{Amounts: countersProto(u.consumed)}
	}
	return out
}

// clearDevices empties a row.
func (t *Table) clearDevices(row uint32) {
	d := t.devices
	if d == nil {
		return
	}
	if r := d.rows[row]; r != nil {
		d.releaseInventory(r.inventory)
		delete(d.rows, row)
	}
	d.interned.release(d.states.set(row, 0, t.capacity))
}

// restate finds a row's state anew.
func (t *Table) restate(row uint32) {
	d := t.devices
	if d == nil {
		return
	}
	s := d.newState(view{t: t, row: row})
	var key []byte
	if s.inventory != nil || len(s.reach) > 0 {
		key = s.digest[:]
	}
	id := d.interned.acquire(key, func() *deviceState {
		if s.used != (digest{}) {
			d.usesOf(d.rows[row], s.inventory, func(u *deviceUse, slice int) { s.uses = append(s.uses, stateUse{*u, slice}) })
		}
		return s
	})
	d.interned.release(d.states.set(row, id, t.capacity))
}

// newState makes the state of a row, but for its uses.
func (d *deviceColumns) newState(v view) *deviceState {
	s := &deviceState{reach: d.shared.reachOf(v, nil)}
	r := d.rows[v.row]
	if r != nil && r.inventory != 0 {
		s.inventory = d.inventoryOf(r)
		s.among = d.among(r, s.inventory)
		d.encoded = d.encoded[:0]
		d.usesOf(r, s.inventory, func(u *deviceUse, slice int) {
			d.encoded = appendUse(appendText(binary.AppendUvarint(d.encoded, uint64(slice)), u.device), u)
		})
		if len(d.encoded) > 0 {
			s.used = digestOf(d.encoded)
		}
	}
	if len(s.reach)+len(s.among) > 0 {
		reach := d.shared.sumOf(s.reach)
		b := append(d.encoded[:0], reach[:]...)
		for _, n := range s.among {
			b = binary.AppendUvarint(b, uint64(n))
		}
		s.around = digestOf(b)
	}
	b := append(append(d.encoded[:0], s.around[:]...), s.used[:]...)
	if s.inventory != nil {
		b = append(b, s.inventory.digest[:]...)
	}
	s.digest = digestOf(b)
	d.encoded = b
	return s
}

// usesOf yields a row's uses of devices of its pools, with the first slice of the pool, by number.
func (d *deviceColumns) usesOf(r *rowDevices, x *inventory, yield func(u *deviceUse, slice int)) {
	at := 0 // the first slice of a pool
	for i := range r.uses {
		u := &r.uses[i]
		for at < len(x.slices) && u.compare(x.slices[at].Driver, r.names[at].pool, u.device) > 0 {
			at++
		}
		if at == len(x.slices) {
			return
		}
		if x.slices[at].Driver == u.driver && r.names[at].pool == u.pool {
			yield(u, at)
		}
	}
}

// appendUse encodes what a search sees of a use, without the device.
func appendUse(b []byte, u *deviceUse) []byte {
	b = append(b, byte(asInt(u.dedicated)|asInt(u.shared)<<1|asInt(u.held)<<2))
	return appendDeviceCounters(b, u.consumed)
}

// among tells where local pools stand among shared ones of the same driver.
func (d *deviceColumns) among(r *rowDevices, x *inventory) (out []int32) {
	for i, s := range x.slices {
		if i > 0 && samePool(x.slices[i-1], s) {
			continue
		}
		if shared := d.shared.drivers[s.Driver]; len(shared) > 0 {
			at, _ := slices.BinarySearch(shared, r.names[i].pool)
			out = append(out, int32(at))
		}
	}
	return out
}

// appendSlice encodes all that a search sees of a slice but the names of pool and slice.
func (d *deviceColumns) appendSlice(b []byte, s *devices.Slice, attributes bool) []byte {
	b = appendText(b, s.Driver)
	b = binary.AppendVarint(binary.AppendVarint(b, s.Generation), s.Count)
	b = d.shared.appendReach(b, s.Reach)
	b = binary.AppendUvarint(b, uint64(len(s.Devices)))
	for i := range s.Devices {
		x := &s.Devices[i]
		b = append(appendText(b, x.Name), byte(asInt(x.BindsToNode)|asInt(x.Conditioned)<<1))
		content := d.known[x.Content]
		if attributes {
			b = append(b, content.sum[:]...)
		} else {
			b = append(b, content.capacities[:]...)
		}
		b = binary.AppendUvarint(b, uint64(len(x.Taints)))
		for _, t := range x.Taints {
			b = appendText(appendText(appendText(b, t.Key), t.Value), t.Effect)
		}
		b = binary.AppendUvarint(b, uint64(len(x.Consumes)))
		for _, c := range x.Consumes {
			b = appendDeviceCounters(appendText(b, c.Set), c.Counters)
		}
		b = d.shared.appendReach(b, x.Reach)
	}
	b = binary.AppendUvarint(b, uint64(len(s.CounterSets)))
	for _, c := range s.CounterSets {
		b = appendDeviceCounters(appendText(b, c.Name), c.Counters)
	}
	return b
}

func appendDeviceCounters(b []byte, list []devices.Counter) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, c := range list {
		b = appendText(b, c.Name)
		b = append(binary.AppendUvarint(binary.AppendVarint(b, c.Value.High), c.Value.Low), byte(c.Value.Format))
	}
	return b
}

// Devices yields the devices of all rows for a snapshot: shared ones first, then row by row, a slice or the uses of one
// row at a time. What it yields is the receiver's to keep, but not to change.
func (t *Table) Devices(yield func(*pb.RowDevices) bool) {
	d := t.devices
	if d == nil {
		return
	}
	x := &d.shared
	for _, s := range x.slices {
		p := sliceProto(s, s.Pool, s.Name, s.Generation, x.reachProto)
		if !yield(&pb.RowDevices{Shared: true, Slices: []*pb.DeviceSlice{p}}) {
			return
		}
	}
	if len(x.uses) > 0 && !yield(&pb.RowDevices{Shared: true, Uses: usesProto(x.uses)}) {
		return
	}
	made := map[*devices.Slice]*pb.DeviceSlice{} // rows of an inventory share the messages of its devices
	for _, row := range slices.Sorted(maps.Keys(d.rows)) {
		r := d.rows[row]
		for i, s := range d.inventoryOf(r).slices {
			first := made[s]
			if first == nil {
				first = sliceProto(s, "", "", 0, x.reachProto)
				made[s] = first
			}
			p := &pb.DeviceSlice{
				Name: r.names[i].name, Driver: first.Driver, Pool: r.names[i].pool, Generation: r.names[i].generation,
				SliceCount: first.SliceCount, Reach: first.Reach, Devices: first.Devices, CounterSets: first.CounterSets,
			}
			if !yield(&pb.RowDevices{Row: row, Slices: []*pb.DeviceSlice{p}}) {
				return
			}
		}
		if len(r.uses) > 0 && !yield(&pb.RowDevices{Row: row, Uses: usesProto(r.uses)}) {
			return
		}
	}
}

func usesProto(list []deviceUse) *pb.DeviceUses {
	out := &pb.DeviceUses{}
	for i := range list {
		out.Uses = append(out.Uses, useProto(&list[i]))
	}
	return out
}

// loadDevices takes in a part of a snapshot.
func (t *Table) loadDevices(p *pb.RowDevices) error {
	if !p.GetShared() && !t.HasNode(p.GetRow()) {
		return fmt.Errorf("row %d holds no node", p.GetRow())
	}
	for _, s := range p.GetSlices() {
		var err error
		if p.GetShared() {
			err = t.changeSharedSlice(s, false)
		} else {
			err = t.changeSlice(p.GetRow(), s, false)
		}
		if err != nil {
			return err
		}
	}
	switch uses := p.GetUses().GetUses(); {
	case len(uses) == 0:
	case p.GetShared():
		t.useSharedDevices(uses)
	default:
		t.useDevices(p.GetRow(), uses)
	}
	return nil
}

// memory estimates what the devices take.
func (d *deviceColumns) memory() int64 {
	if d == nil {
		return 0
	}
	const (
		rowBytes, nameBytes, useBytes = 150, 80, 150
		// sliceBytes is a slice without its devices, which take deviceBytes each.
		sliceBytes, deviceBytes, stateBytes, targetBytes = 200, 200, 200, 500
	)
	n := d.states.memory() + d.contents.memory() + int64(len(d.known))*mapEntryBytes
	n += stateBytes*int64(len(d.interned.refs)) + targetBytes*int64(len(d.shared.targets)) + rowBytes*int64(len(d.rows))
	n += int64(len(d.shared.slices))*sliceBytes + int64(len(d.shared.uses))*useBytes
	for _, x := range d.inventories.contents {
		if x != nil {
			n += int64(len(x.slices))*sliceBytes + int64(len(x.contents))*deviceBytes
		}
	}
	for _, x := range d.shared.held {
		n += int64(len(x.contents)) * deviceBytes
	}
	for _, r := range d.rows {
		n += int64(len(r.names))*nameBytes + int64(len(r.uses))*useBytes
	}
	return n
}
