package scorer

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/shardsched/shardsched/scorer/devices"
)

// deviceVerdict is what a search says of a row.
type deviceVerdict struct {
	// reason is one of dynamicResources, or letsThrough.
	reason int8
	// searched tells that devices were searched for, and steps what that took.
	searched bool
	steps    int32
	// exhausted tells that it took more than devices.DefaultBudget.
	exhausted bool
	// score is what the alternatives that were taken count.
	score int64
}

const letsThrough = -1

// What an evaluator remembers of searches. A verdict takes some 130 bytes, pools some kilobytes.
const (
	maxDeviceClasses  = 256
	maxDeviceVerdicts = 1 << 14 // and sums
	maxDevicePools    = 1 << 10
)

// firstAlternative is what the first alternative of a request counts; each that follows counts one less.
const firstAlternative = 8

// deviceMemory is what an evaluator remembers of searches, over tables and batches: contents that stand for each other
// have one verdict. What it has forgotten it finds in searches.
type deviceMemory struct {
	searcher devices.Searcher
	searches *Searches
	// left is how many steps searches may still take; nil: any number.
	left     Allowance
	classes  map[*dynamicResources]*deviceClass
	verdicts int // and counts and sums, of all classes
	pools    map[devicePools]gathered
	number   int // of devices in pools
	encoded  []byte
}

// deviceClass is what is remembered of a class.
type deviceClass struct {
	demands  map[uint64]*devices.Demand
	verdicts map[deviceQuestion]deviceVerdict
	// reads are the attributes that the class looks at; nil: that was not asked yet.
	reads *deviceReads
	// counts are asked for one resource each.
	counts map[deviceQuestion]deviceCount
	// sums stand for inventories without the attributes that the class does not look at.
	sums map[*inventory]digest
}

// deviceReads are attributes of devices, unless they are all.
type deviceReads struct {
	names []string
	sum   digest
	all   bool
}

// deviceQuestion is all that a verdict rests on.
type deviceQuestion struct {
	inventory, around, uses, shared digest
	served                          uint64
}

// devicePools is all that pools rest on.
type devicePools struct {
	inventory, around, shared digest
	features                  devices.Features
}

// gathered are the pools of an inventory.
type gathered struct {
	pools *devices.Pools
	// local are the slices of the inventory, under the names that they were gathered by.
	local []*devices.Slice
	why   string // there are none
}

// searchDevices is the verdict of a row whose extended resources of some bits are served by devices.
func (e *Evaluator) searchDevices(r *dynamicResources, v view, served uint64) deviceVerdict {
	m := &e.devices
	c := m.class(r)
	s := v.devices()
	q := c.question(m, r, v, served)
	if verdict, known := c.verdicts[q]; known {
		return verdict
	}
	verdict, known := m.searches.verdict(r.asks, q)
	if !known {
		demand := c.demands[served]
		if demand == nil {
			demand, _ = r.demand(served)
			c.demands[served] = demand
		}
		verdict = m.search(r, v.t, s, q.inventory, demand)
		m.searches.keep(r.asks, q, verdict)
	}
	m.makeRoom()
	m.class(r).verdicts[q] = verdict
	return verdict
}

// makeRoom makes room for one more verdict, count or sum.
func (m *deviceMemory) makeRoom() {
	if m.verdicts >= maxDeviceVerdicts {
		m.classes, m.verdicts = map[*dynamicResources]*deviceClass{}, 0
	}
	m.verdicts++
}

// question is all that a search rests on, or a count.
func (c *deviceClass) question(m *deviceMemory, r *dynamicResources, v view, served uint64) deviceQuestion {
	s := v.devices()
	q := deviceQuestion{around: s.around, uses: s.used, served: served}
	if d := v.t.devices; d != nil {
		q.shared = d.shared.sum
	}
	if s.inventory != nil {
		q.inventory = m.sumOf(c, r, s.inventory)
	}
	return q
}

func (m *deviceMemory) class(r *dynamicResources) *deviceClass {
	if c := m.classes[r]; c != nil {
		return c
	}
	if m.classes == nil || len(m.classes) >= maxDeviceClasses {
		m.classes, m.verdicts = map[*dynamicResources]*deviceClass{}, 0
	}
	if m.searches == nil {
		m.searches = NewSearches(unlocked{})
	}
	c := &deviceClass{demands: map[uint64]*devices.Demand{}, verdicts: map[deviceQuestion]deviceVerdict{},
		counts: map[deviceQuestion]deviceCount{}, sums: map[*inventory]digest{}}
	m.classes[r] = c
	return c
}

// readsOf are the attributes that a class looks at, whichever of its extended resources are served by devices.
func (m *deviceMemory) readsOf(r *dynamicResources) *deviceReads {
	all, _ := r.demand(1<<len(r.resources) - 1)
	m.await(all)
	names, known := all.Reads()
	for _, e := range r.query.GetExtended().GetResources() {
		for _, s := range compiledSelectors(e.GetScoredSelectors(), r.compiler) {
			if s != nil {
				read, knows := s.Reads()
				names, known = slices.Concat(names, read), known && knows
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return &deviceReads{names: names, all: !known, sum: digestOf([]byte(strings.Join(names, "\x00")))}
}

// await has a search come to its end another time where expressions are not compiled yet: that is no work of its steps. Where any
// number of steps may be taken, they are compiled now.
func (m *deviceMemory) await(demand *devices.Demand) {
	if m.left != nil && !demand.Ready() {
		panic(ErrUnfinished)
	}
}

// sumOf stands for an inventory as far as a class looks at it.
func (m *deviceMemory) sumOf(c *deviceClass, r *dynamicResources, x *inventory) digest {
	if c.reads == nil {
		c.reads = m.readsOf(r)
	}
	if c.reads.all {
		return x.digest
	}
	sum, known := c.sums[x]
	if known {
		return sum
	}
	if sum, known = m.searches.sum(r.asks, x.digest); !known {
		m.budget()
		m.spend(int64(len(x.contents)) * sumSteps)
		m.encoded = append(m.encoded[:0], c.reads.sum[:]...) // another class may see more of what is equal for this one
		m.encoded = x.appendOnly(m.encoded, c.reads.names)
		sum = digestOf(m.encoded)
		m.searches.keepSum(r.asks, x.digest, sum)
	}
	m.makeRoom()
	c.sums[x] = sum
	return sum
}

// search searches for a class on the rows of a state.
func (m *deviceMemory) search(r *dynamicResources, t *Table, s *deviceState, sum digest, demand *devices.Demand) deviceVerdict {
	m.await(demand)
	g := m.gather(t, s, sum, r.features)
	if g.why != "" {
		return deviceVerdict{reason: failsPod, searched: true}
	}
	use := useOf(g.pools, t)
	for i := range s.uses {
		u := &s.uses[i]
		putInUse(&use, g.pools, &u.deviceUse, g.local[u.slice].Pool)
	}
	budget := m.budget()
	out := m.searcher.Search(g.pools, &use, demand, budget)
	m.spend(out.Steps)
	if out.Exhausted && budget < devices.DefaultBudget {
		panic(ErrUnfinished)
	}
	v := verdictOf(out, demand)
	v.searched, v.steps, v.exhausted = true, int32(out.Steps), out.Exhausted
	return v
}

func verdictOf(out devices.Outcome, demand *devices.Demand) deviceVerdict {
	switch out.Verdict {
	case devices.Allocated:
		return deviceVerdict{reason: letsThrough, score: alternativesScore(out.Claims, demand)}
	case devices.InvalidPools:
		return deviceVerdict{reason: invalidPools}
	case devices.Fatal:
		return deviceVerdict{reason: failsPod}
	}
	return deviceVerdict{reason: noDevicesLeft}
}

// alternativesScore adds up what the alternatives count that have got devices.
func alternativesScore(claims []devices.Allocation, demand *devices.Demand) (score int64) {
	for c := range claims {
		last := int32(-1) // results of one request stand together
		for _, x := range claims[c].Results {
			if x.Request != last && demand.Claims()[c].Requests[x.Request].Prioritized {
				score += firstAlternative - int64(x.Alternative)
			}
			last = x.Request
		}
	}
	return score
}

// gather finds the pools of a state.
func (m *deviceMemory) gather(t *Table, s *deviceState, sum digest, features devices.Features) gathered {
	key := devicePools{inventory: sum, around: s.around, features: features}
	if t.devices != nil {
		key.shared = t.devices.shared.slicesSum
	}
	if g, known := m.pools[key]; known {
		return g
	}
	if m.pools == nil || len(m.pools) >= maxDevicePools || m.number > maxDevicesInPools {
		m.pools, m.number = map[devicePools]gathered{}, 0
	}
	g := gathered{local: t.localSlices(s)}
	var err error
	if g.pools, err = gatherPools(t, s, g.local, features); err != nil {
		g.why = err.Error()
	} else {
		m.number += int(g.pools.Numbers())
	}
	m.pools[key] = g
	return g
}

// localSlices are the slices of a state's inventory. The names of their pools are those of any row that has or had the inventory, and
// only their order matters. Where shared pools have the driver, too, the pools get names of no other pool, that stand among the
// shared ones where the names of the state's rows do.
func (t *Table) localSlices(s *deviceState) []*devices.Slice {
	if s.inventory == nil {
		return nil
	}
	if len(s.among) == 0 {
		return s.inventory.slices
	}
	out := make([]*devices.Slice, 0, len(s.inventory.slices))
	pool := -1 // in among
	for i, from := range s.inventory.slices {
		own := *from
		if shared := t.devices.shared.drivers[from.Driver]; len(shared) > 0 {
			if i == 0 || !samePool(s.inventory.slices[i-1], from) {
				pool++
			}
			own.Pool = fmt.Sprintf("\x00%09d", pool) // no name has such a character, and it is less than any that a name has
			if n := s.among[pool]; n > 0 {
				own.Pool = shared[n-1] + own.Pool
			}
		}
		out = append(out, &own)
	}
	return out
}

// maxDevicesInPools bounds the devices of all pools that are remembered, of some 100 bytes each.
const maxDevicesInPools = 1 << 18

// gatherPools finds the pools of a row of a state with these slices of its own.
func gatherPools(t *Table, s *deviceState, local []*devices.Slice, features devices.Features) (*devices.Pools, error) {
	in := devices.Inventory{Local: local}
	if t.devices == nil {
		return devices.Gather(in, nil, features)
	}
	x := &t.devices.shared
	in.Shared = x.slices
	in.All = func(driver, pool string) []*devices.Slice {
		if list := x.pool(driver, pool); len(list) > 0 {
			return list
		}
		return poolOf(local, driver, pool)
	}
	return devices.Gather(in, x.reaches(s), features)
}

// poolOf are the slices of a pool in a sorted list.
func poolOf(list []*devices.Slice, driver, pool string) []*devices.Slice {
	key := &devices.Slice{Driver: driver, Pool: pool}
	from, _ := slices.BinarySearchFunc(list, key, compareSlices)
	to := from
	for to < len(list) && samePool(list[to], key) {
		to++
	}
	return list[from:to]
}

// useOf is what is in use of shared devices.
func useOf(pools *devices.Pools, t *Table) (use devices.Use) {
	if t.devices == nil {
		return use
	}
	for i := range t.devices.shared.uses {
		u := &t.devices.shared.uses[i]
		putInUse(&use, pools, u, u.pool)
	}
	return use
}

// putInUse adds the use of a device of a pool of that name.
func putInUse(use *devices.Use, pools *devices.Pools, u *deviceUse, pool string) {
	n, ok := pools.Number(u.driver, pool, u.device)
	if !ok {
		return
	}
	if u.dedicated {
		use.Take(n)
	}
	if u.shared {
		use.Share(n)
	}
	if u.held {
		use.Hold(n, u.consumed)
	}
}

// appendOnly encodes an inventory with the attributes alone that a class looks at.
func (x *inventory) appendOnly(b []byte, reads []string) []byte {
	b = append(b, x.frame[:]...)
	for _, s := range x.slices {
		for i := range s.Devices {
			c := s.Devices[i].Content.Only(reads)
			b = binary.AppendUvarint(b, uint64(len(c.Attributes)))
			for _, a := range c.Attributes {
				b = append(appendText(b, a.Name), byte(a.Value.Kind))
				b = appendText(binary.AppendVarint(b, a.Value.Int), a.Value.Text)
			}
		}
	}
	return b
}

// DeviceResult is one device for one request of a claim.
type DeviceResult struct {
	// Request and Alternative are indexes: of the request in the claim, and of what was chosen of the request.
	Request, Alternative int
	Driver, Pool, Device string
	// Slice is the name of the slice that has the device: slices of several generations may have one of the name.
	Slice string
	Admin bool
	// Share says that the device allows several allocations: the result needs a share id. Consumed are then its
	// capacities, by name, with what the share takes of them.
	Share    bool
	Consumed []devices.Counter
}

// DeviceAllocation is what a row gives the claims of a class.
type DeviceAllocation struct {
	// Claims are in the order of ResourceClaimsQuery.claims, the special claim last; none: devices are not to be had.
	Claims [][]DeviceResult
	// Special are the requests of the special claim, and Mappings who has them.
	Special  []devices.Request
	Mappings []ResourceMapping
	// Fatal is why the row fails the pod; nil: it does not. Its claims count as in Claims.
	Fatal *FatalText
}

// FatalText is why a row fails the pod, with places for the names of claims.
type FatalText struct {
	node string
	text devices.Text
	pool [2]string
}

// In writes the text with a claim's namespace and name.
func (f *FatalText) In(claim func(i int32) (namespace, name string)) string {
	text := f.text.In(claim, func(int32) (string, string) { return f.pool[0], f.pool[1] })
	if f.node != "" {
		return "node " + f.node + ": " + text
	}
	return text
}

// Allocate searches for a class on one row, as the table has it now, by the names that the row's pools have. It panics as
// Afford does.
func (e *Evaluator) Allocate(t *Table, row uint32, c *Class) (out DeviceAllocation) {
	r := c.claims
	if r == nil || !t.HasNode(row) {
		return out
	}
	v := view{t: t, row: row, e: e}
	served, ok := r.served(v)
	if !ok || len(r.claims) == 0 && served == 0 {
		return out
	}
	if r.judge(v).exhausted { // it would be again
		return DeviceAllocation{Fatal: &FatalText{node: t.names[row], text: devices.TimedOut(devices.DefaultBudget)}}
	}
	e.Afford(t, row, c)
	demand, mappings := r.demand(served)
	s := t.deviceState(row)
	var own rowDevices
	var local []*devices.Slice
	if t.devices != nil && t.devices.rows[row] != nil {
		own = *t.devices.rows[row]
		local = own.slices(t.devices)
	}
	pools, err := gatherPools(t, s, local, r.features)
	if err != nil {
		return DeviceAllocation{Fatal: &FatalText{text: devices.Text{Claim: -1, Pool: -1, Parts: [3]string{err.Error()}}}}
	}
	use := useOf(pools, t)
	for i := range own.uses {
		putInUse(&use, pools, &own.uses[i], own.uses[i].pool)
	}
	found := e.devices.searcher.Search(pools, &use, demand, devices.DefaultBudget)
	switch found.Verdict {
	case devices.Fatal:
		out.Fatal = newFatalText(found, pools, t.names[row])
	case devices.Allocated:
		out.Claims = resultsOf(found.Claims, pools)
		if r.query.GetExtended() != nil {
			out.Special, out.Mappings = demand.Claims()[len(r.claims)].Requests, mappings
		}
	}
	return out
}

func newFatalText(out devices.Outcome, pools *devices.Pools, node string) *FatalText {
	f := &FatalText{text: out.Text}
	if out.Exhausted {
		f.node = node
	}
	if out.Text.Pool >= 0 {
		f.pool[0], f.pool[1], _, _ = pools.Pool(out.Text.Pool)
	}
	return f
}

// resultsOf names what was found.
func resultsOf(claims []devices.Allocation, pools *devices.Pools) [][]DeviceResult {
	out := make([][]DeviceResult, len(claims))
	for c := range claims {
		for _, x := range claims[c].Results {
			pool, slice, device := pools.Device(x.Device)
			driver, name, _, _ := pools.Pool(pool)
			out[c] = append(out[c], DeviceResult{
				Request: int(x.Request), Alternative: int(x.Alternative), Driver: driver, Pool: name, Device: device.Name,
				Slice: slice.Name, Admin: x.Admin, Share: x.Share, Consumed: slices.Clone(x.Consumed), // they are the searcher's
			})
		}
	}
	return out
}
