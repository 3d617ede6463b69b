package scorer

import (
	"slices"

	"github.com/shardsched/shardsched/scorer/devices"
)

// Shortages diagnose why rows have no devices for one class. Rows of one state share a diagnosis, so a reader keeps its Shortages
// for as long as it reads. They are apart from what an evaluator remembers: whoever asks why changes nothing there.
type Shortages struct {
	searcher devices.Searcher
	known    map[deviceQuestion]*shortage
	demands  map[uint64]*devices.Demand
	pools    deviceMemory
	class    deviceClass
	// Steps are those that all diagnoses took so far.
	Steps int64
}

// shortage is the diagnosis of the rows of a state, with the pools that its numbers are of.
type shortage struct {
	devices.Diagnosis
	demand *devices.Demand
	gathered
}

// DeviceShortage is why a row has no devices for a class.
type DeviceShortage struct {
	*devices.Diagnosis
	Demand *devices.Demand
	// NoPools is why the pools of the row can't be told; "": they can.
	NoPools string
	// Pools are those that the diagnosis is of; some may have other names on the row.
	Pools *devices.Pools
	// names are the row's own names of pools, where they are others than those that the diagnosis was made with.
	names map[int32]string
}

// diagnosisBudget bounds a search of a diagnosis: a few of them are made for a row, between two turns of a loop.
const diagnosisBudget = devices.DefaultBudget / 4

// NewShortages makes Shortages that know of no row.
func NewShortages() *Shortages {
	return &Shortages{
		known: map[deviceQuestion]*shortage{}, demands: map[uint64]*devices.Demand{}, class: deviceClass{sums: map[*inventory]digest{}},
		pools: deviceMemory{searches: NewSearches(unlocked{})},
	}
}

// Find diagnoses a row that DynamicResources refuses for its devices; nil: it does not.
func (x *Shortages) Find(e *Evaluator, t *Table, row uint32, c *Class) *DeviceShortage {
	r := c.claims
	if r == nil || !t.HasNode(row) || r.query.GetExtended().GetStale() {
		return nil
	}
	served, ok := r.served(view{t: t, row: row, e: e})
	if !ok || len(r.claims) == 0 && served == 0 {
		return nil
	}
	s := t.deviceState(row)
	q := deviceQuestion{around: s.around, uses: s.used, served: served}
	if d := t.devices; d != nil {
		q.shared = d.shared.sum
	}
	if s.inventory != nil {
		q.inventory = x.pools.sumOf(&x.class, r, s.inventory)
	}
	found := x.known[q]
	if found == nil {
		if len(x.known) >= maxDeviceVerdicts {
			clear(x.known)
		}
		found = x.diagnose(r, t, s, q)
		x.known[q] = found
	}
	if found.why == "" && found.Verdict == devices.Allocated {
		return nil
	}
	return found.of(t, row)
}

func (x *Shortages) diagnose(r *dynamicResources, t *Table, s *deviceState, q deviceQuestion) *shortage {
	demand := x.demands[q.served]
	if demand == nil {
		demand, _ = r.demand(q.served)
		x.demands[q.served] = demand
	}
	out := &shortage{demand: demand, gathered: x.pools.gather(t, s, q.inventory, r.features)}
	if out.why != "" {
		return out
	}
	use := useOf(out.pools, t)
	for i := range s.uses {
		u := &s.uses[i]
		putInUse(&use, out.pools, &u.deviceUse, out.local[u.slice].Pool)
	}
	out.Diagnosis = x.searcher.Diagnose(out.pools, &use, demand, diagnosisBudget)
	x.Steps += out.Steps
	return out
}

// of is the shortage of a row of the state.
func (x *shortage) of(t *Table, row uint32) *DeviceShortage {
	out := &DeviceShortage{Diagnosis: &x.Diagnosis, Demand: x.demand, NoPools: x.why, Pools: x.pools}
	var own *rowDevices
	if t.devices != nil {
		own = t.devices.rows[row]
	}
	if own == nil {
		return out
	}
	rename := func(pool int32) {
		if pool < 0 {
			return
		}
		driver, name, _, _ := x.pools.Pool(pool)
		at := slices.IndexFunc(x.local, func(s *devices.Slice) bool { return s.Driver == driver && s.Pool == name })
		if at < 0 || at >= len(own.names) || own.names[at].pool == name {
			return
		}
		if out.names == nil {
			out.names = map[int32]string{}
		}
		out.names[pool] = own.names[at].pool
	}
	for i := range x.Lacks {
		for k := range x.Lacks[i].Nearest {
			rename(x.Lacks[i].Nearest[k].Pool)
		}
	}
	if x.Verdict == devices.Fatal {
		rename(x.Text.Pool)
	}
	return out
}

// Pool names a pool of the row.
func (d *DeviceShortage) Pool(i int32) (driver, pool string) {
	driver, pool, _, _ = d.Pools.Pool(i)
	if own, other := d.names[i]; other {
		pool = own
	}
	return driver, pool
}

// Content is what selectors read of the device of a number, and Device its name.
func (d *DeviceShortage) Device(number int32) (name string, content *devices.Content) {
	_, _, device := d.Pools.Device(number)
	return device.Name, device.Content
}

// UnavailableClaims are the allocated claims that are not for a row, by their numbers in the query.
func (e *Evaluator) UnavailableClaims(t *Table, row uint32, c *Class) (list []int) {
	if c.claims == nil || !t.HasNode(row) {
		return nil
	}
	for i := range c.claims.allocated {
		if c.claims.unavailable(i, view{t: t, row: row, e: e}) {
			list = append(list, i)
		}
	}
	return list
}
