package devices

import (
	"cmp"
	"slices"
	"strings"
)

// Pools are the pools that a node reaches, in the order of search. Nothing changes them once gathered.
//
// Numbers 0 to Devices()-1 are devices that can be had. Numbers from there to Numbers()-1 are devices that only other
// nodes can use, and that consume counters of a pool: a Use has to say whether they are allocated.
type Pools struct {
	pools   []pool
	devices []device
	// byName are all pools in the order of driver and name.
	byName []int32
	// contents are the distinct contents of the devices.
	contents []*Content
	// consumed is what devices consume, device by device; faults are the errors of devices' reach.
	consumed []consumption
	faults   []string
	numbers  int32
	features Features
	invalid  bool
}

// PoolState says whether devices of a pool can be had.
type PoolState uint8

const (
	PoolReady PoolState = iota
	// PoolIncomplete: not all slices of its generation are there.
	PoolIncomplete
	// PoolInvalid: its slices contradict each other.
	PoolInvalid
)

type pool struct {
	driver, name string
	state        PoolState
	why          string
	conditioned  bool
	// first to end are the numbers of its devices.
	first, end int32
	// names are its devices, those of other nodes included, by name.
	names    []named
	counters []poolCounter
	// places are those of counters in counters, by set and name.
	places map[string]map[string]int32
	others []otherDevice
}

type named struct {
	name   string
	number int32
}

// poolCounter is one counter of a pool's counter sets.
type poolCounter struct {
	set, name string
	value     Amount
}

// consumption is what a device takes of its pool's counter.
type consumption struct {
	counter int32
	value   Amount
}

// otherDevice is a device that only other nodes can use.
type otherDevice struct {
	number   int32
	consumes []consumption
}

type device struct {
	*Device
	slice *Slice
	pool  int32
	// content is the content's place in Pools.contents.
	content int32
	// rest is a number for all that tells devices apart beside their contents.
	rest int32
	// from and to delimit Pools.consumed.
	from, to int32
	// reach is reached, or out of reach, or the place of a fault.
	reach int32
}

const (
	reached    = -1
	outOfReach = -2
)

// Pools is how many pools there are.
func (p *Pools) Pools() int { return len(p.pools) }

// Pool tells a pool's names, its state, and why it is invalid.
func (p *Pools) Pool(i int32) (driver, name string, state PoolState, why string) {
	x := &p.pools[i]
	return x.driver, x.name, x.state, x.why
}

// Devices is how many devices can be had.
func (p *Pools) Devices() int32 { return int32(len(p.devices)) }

// Numbers is how many devices have a number.
func (p *Pools) Numbers() int32 { return p.numbers }

// Device is the device of a number below Devices().
func (p *Pools) Device(number int32) (pool int32, slice *Slice, device *Device) {
	d := &p.devices[number]
	return d.pool, d.slice, d.Device
}

// Number finds a device by name. There is none for a device out of reach that consumes no counter, nor in a pool that is
// incomplete or invalid.
func (p *Pools) Number(driver, pool, device string) (int32, bool) {
	i, ok := slices.BinarySearchFunc(p.byName, 0, func(i, _ int32) int {
		return compareNames(&p.pools[i], driver, pool)
	})
	if !ok {
		return 0, false
	}
	return p.pools[p.byName[i]].number(device)
}

// number finds a device of the pool by name.
func (p *pool) number(device string) (int32, bool) {
	at, ok := slices.BinarySearchFunc(p.names, device, func(n named, name string) int { return strings.Compare(n.name, name) })
	if !ok {
		return 0, false
	}
	return p.names[at].number, true
}

func compareNames(p *pool, driver, name string) int {
	return cmp.Or(strings.Compare(p.driver, driver), strings.Compare(p.name, name))
}
