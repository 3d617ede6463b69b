package devices

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Inventory is the slices that a node may reach.
type Inventory struct {
	// Local are tied to the node by name, and hold devices; Shared are all slices that are tied to no node by name, and
	// all that hold counter sets. A pool may be left out that is complete and valid, and of which the node reaches no
	// device: it has no say.
	Local, Shared []*Slice
	// All gives every slice of a pool in the cluster, whatever its reach. It is asked only for pools of which Local and
	// Shared have another number of slices than their Count says. Nil: there are no others than Local and Shared.
	All func(driver, pool string) []*Slice
}

// Gather finds the pools that a node reaches. reach tells whether the node is of a ReachName or ReachSelector; its error
// says why a selector can't be read. The error of Gather ends the pod's cycle.
func Gather(in Inventory, reach func(Reach) (bool, error), features Features) (*Pools, error) {
	g := gathering{
		in: in, reach: reach, byName: map[[2]string]int{}, contents: map[*Content]int32{}, rests: map[rest]int32{},
		out: &Pools{features: features},
	}
	for _, list := range [][]*Slice{in.Local, in.Shared} {
		for _, s := range list {
			near, err := g.relevant(s)
			if err != nil {
				return nil, fmt.Errorf("gather pool information: %w", err)
			}
			if near {
				g.add(s)
			}
		}
	}
	g.build()
	return g.out, nil
}

type gathering struct {
	in     Inventory
	reach  func(Reach) (bool, error)
	byName map[[2]string]int
	groups [][]*Slice
	// contents are the places of contents in Pools.contents, and rests the numbers of the rest.
	contents map[*Content]int32
	rests    map[rest]int32
	out      *Pools
}

// rest is all that tells one device from another in a search, beside its content.
type rest struct {
	reach int32
	// pool is -1 for a device that consumes no counters.
	pool        int32
	conditioned bool
	// more is its taints and consumption, as text.
	more string
}

// relevant tells whether a slice counts for the node.
func (g *gathering) relevant(s *Slice) (bool, error) {
	counters := len(s.CounterSets) > 0
	switch {
	case !g.out.features.PartitionableDevices && (counters || s.Reach.Kind == ReachEach):
		return false, nil
	case counters:
		return true, nil
	case s.Reach.Kind != ReachEach:
		near, err := g.reaches(s.Reach)
		if err != nil {
			return false, fmt.Errorf("failed to perform node selection for slice %s: %w", s.Name, err)
		}
		return near, nil
	}
	for i := range s.Devices {
		near, err := g.reaches(s.Devices[i].Reach)
		if err != nil {
			// Differs from upstream: the device's name, where upstream writes all of the device.
			return false, fmt.Errorf("failed to perform node selection for device %s in slice %s: %w", s.Devices[i].Name, s.Name, err)
		}
		if near {
			return true, nil
		}
	}
	return false, nil
}

func (g *gathering) reaches(r Reach) (bool, error) {
	switch r.Kind {
	case ReachThisNode, ReachAllNodes:
		return true, nil
	case ReachName, ReachSelector:
		return g.reach(r)
	}
	return false, nil
}

// add keeps a slice unless a newer generation of its pool is known.
func (g *gathering) add(s *Slice) {
	key := [2]string{s.Driver, s.Pool}
	i, ok := g.byName[key]
	switch {
	case !ok:
		g.byName[key] = len(g.groups)
		g.groups = append(g.groups, []*Slice{s})
	case s.Generation > g.groups[i][0].Generation:
		g.groups[i] = []*Slice{s}
	case s.Generation == g.groups[i][0].Generation:
		g.groups[i] = append(g.groups[i], s)
	}
}

// whole tells whether a pool has all its slices, and gives them where the node's are fewer. A pool is obsolete where
// some slice is of a newer generation.
func (g *gathering) whole(group []*Slice) (all []*Slice, complete, obsolete bool) {
	first := firstOf(group)
	if int64(len(group)) == first.Count {
		return nil, true, false
	}
	for _, s := range g.all(first.Driver, first.Pool) {
		if s.Driver != first.Driver || s.Pool != first.Pool {
			continue
		}
		if s.Generation > first.Generation {
			return nil, false, true
		}
		if s.Generation == first.Generation {
			all = append(all, s)
		}
	}
	return all, int64(len(all)) == first.Count, false
}

// firstOf is the slice of a pool that says how many there are: of those that hold devices and are tied to the node, or else of all,
// the first.
//
// Differs from upstream: where slices disagree, the first by name counts, and not whichever is listed first.
func firstOf(group []*Slice) *Slice {
	for _, s := range group {
		if (s.Reach.Kind == ReachThisNode || s.Reach.Kind == ReachName) && len(s.CounterSets) == 0 {
			return s
		}
	}
	return group[0]
}

func (g *gathering) all(driver, pool string) []*Slice {
	if g.in.All != nil {
		return g.in.All(driver, pool)
	}
	return slices.Concat(g.in.Local, g.in.Shared)
}

// build makes pools of the groups, and gives numbers to their devices.
func (g *gathering) build() {
	type found struct {
		pool
		group, all []*Slice
	}
	var list []found
	for _, group := range g.groups {
		all, complete, obsolete := g.whole(group)
		if obsolete {
			continue
		}
		f := found{pool: pool{driver: group[0].Driver, name: group[0].Pool}, group: group, all: all}
		slices.SortStableFunc(f.group, func(a, b *Slice) int { return strings.Compare(a.Name, b.Name) })
		if complete {
			f.check(f.group, f.all, g.out.features.PartitionableDevices)
		} else {
			f.state = PoolIncomplete
		}
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b found) int {
		if a.conditioned != b.conditioned {
			if b.conditioned {
				return -1
			}
			return 1
		}
		return compareNames(&a.pool, b.driver, b.name)
	})
	devices := 0
	for _, f := range list {
		devices += len(f.names)
	}
	g.out.devices = make([]device, 0, devices)
	for _, f := range list {
		g.out.pools = append(g.out.pools, f.pool)
		g.out.invalid = g.out.invalid || f.state == PoolInvalid
		if f.state == PoolReady {
			g.number(f.group)
		}
	}
	g.out.numbers = g.out.Devices()
	for i, f := range list {
		if p := &g.out.pools[i]; p.first < p.end {
			g.others(p, f.group, f.all)
		}
		g.out.byName = append(g.out.byName, int32(i))
	}
	slices.SortFunc(g.out.byName, func(a, b int32) int {
		return compareNames(&g.out.pools[a], g.out.pools[b].driver, g.out.pools[b].name)
	})
}

// check finds what makes a pool invalid, and otherwise its counters.
func (p *pool) check(group, all []*Slice, partitionable bool) {
	err := p.checkNames(group, partitionable)
	if err == nil && partitionable {
		err = cmp.Or(p.checkCounterSets(group), p.checkConsumption(group))
		if err == nil {
			err = p.checkConsumption(elsewhere(group, all))
		}
	}
	if err != nil {
		*p = pool{driver: p.driver, name: p.name, state: PoolInvalid, why: err.Error()}
	}
}

// holdsDevices tells whether a slice offers devices.
func holdsDevices(s *Slice, partitionable bool) bool {
	return !partitionable || len(s.CounterSets) == 0
}

// checkNames lists the devices by name, numbered from 0.
func (p *pool) checkNames(group []*Slice, partitionable bool) error {
	n := 0
	for _, s := range group {
		n += len(s.Devices)
	}
	p.names = make([]named, 0, n)
	for _, s := range group {
		if !holdsDevices(s, partitionable) {
			continue
		}
		for i := range s.Devices {
			p.names = append(p.names, named{s.Devices[i].Name, int32(len(p.names))})
			p.conditioned = p.conditioned || s.Devices[i].Conditioned
		}
	}
	slices.SortFunc(p.names, func(a, b named) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(p.names); i++ {
		if p.names[i].name == p.names[i-1].name {
			return errors.New("duplicate device name " + p.names[i].name)
		}
	}
	return nil
}

func (p *pool) checkCounterSets(group []*Slice) error {
	p.places = map[string]map[string]int32{}
	for _, s := range group {
		for _, set := range s.CounterSets {
			if p.places[set.Name] != nil {
				return errors.New("duplicate counter set name " + set.Name)
			}
			places := make(map[string]int32, len(set.Counters))
			for _, c := range set.Counters {
				places[c.Name] = int32(len(p.counters))
				p.counters = append(p.counters, poolCounter{set: set.Name, name: c.Name, value: c.Value})
			}
			p.places[set.Name] = places
		}
	}
	return nil
}

func (p *pool) checkConsumption(list []*Slice) error {
	for _, s := range list {
		for i := range s.Devices {
			for _, c := range s.Devices[i].Consumes {
				places := p.places[c.Set]
				if places == nil {
					return errors.New("counter set " + c.Set + " not found")
				}
				for _, one := range c.Counters {
					if _, there := places[one.Name]; !there {
						return fmt.Errorf("counter %s not found in counter set %s", one.Name, c.Set)
					}
				}
			}
		}
	}
	return nil
}

// elsewhere are the pool's slices that the node doesn't reach.
func elsewhere(group, all []*Slice) (out []*Slice) {
	near := make(map[string]bool, len(group))
	for _, s := range group {
		near[s.Name] = true
	}
	for _, s := range all {
		if !near[s.Name] {
			out = append(out, s)
		}
	}
	return out
}

// number appends the devices of the last pool.
func (g *gathering) number(group []*Slice) {
	out := g.out
	at := int32(len(out.pools) - 1)
	p := &out.pools[at]
	p.first = out.Devices()
	for _, s := range group {
		if !holdsDevices(s, out.features.PartitionableDevices) {
			continue
		}
		for i := range s.Devices {
			d := device{Device: &s.Devices[i], slice: s, pool: at, from: int32(len(out.consumed)), reach: reached}
			d.content = g.content(d.Content)
			if s.Reach.Kind == ReachEach {
				d.reach = g.deviceReach(d.Device.Reach)
			}
			out.consumed = p.consumption(out.consumed, d.Device)
			d.to = int32(len(out.consumed))
			d.rest = g.rest(&d)
			out.devices = append(out.devices, d)
		}
	}
	p.end = out.Devices()
	for i := range p.names {
		p.names[i].number += p.first
	}
}

// content is the place of a content in Pools.contents.
func (g *gathering) content(c *Content) int32 {
	n, ok := g.contents[c]
	if !ok {
		n = int32(len(g.out.contents))
		g.contents[c] = n
		g.out.contents = append(g.out.contents, c)
	}
	return n
}

func (g *gathering) rest(d *device) int32 {
	key := rest{reach: d.reach, pool: -1, conditioned: d.Conditioned}
	if len(d.Consumes) > 0 {
		key.pool = d.pool
	}
	if len(d.Consumes)+len(d.Taints) > 0 {
		key.more = d.more(g.out.consumed[d.from:d.to])
	}
	n, ok := g.rests[key]
	if !ok {
		n = int32(len(g.rests))
		g.rests[key] = n
	}
	return n
}

// more is a device's taints and what it consumes, as a text.
func (d *Device) more(consumed []consumption) string {
	b := make([]byte, 0, 128)
	for _, t := range d.Taints {
		b = strconv.AppendQuote(strconv.AppendQuote(strconv.AppendQuote(append(b, 't'), t.Key), t.Value), t.Effect)
	}
	if len(d.Consumes) > 0 {
		b = append(b, 'c')
	}
	for i := range consumed {
		b = strconv.AppendInt(append(b, ' '), int64(consumed[i].counter), 10)
		b = consumed[i].value.append(append(b, '='))
	}
	return string(b)
}

// deviceReach tells of a device whether the node reaches it. An error waits until the device is judged.
func (g *gathering) deviceReach(r Reach) int32 {
	near, err := g.reaches(r)
	switch {
	case err != nil:
		g.out.faults = append(g.out.faults, err.Error())
		return int32(len(g.out.faults) - 1)
	case near:
		return reached
	}
	return outOfReach
}

// consumption appends what a device takes of the pool's counters.
func (p *pool) consumption(list []consumption, d *Device) []consumption {
	if len(p.counters) == 0 {
		return list
	}
	for _, c := range d.Consumes {
		places := p.places[c.Set]
		for _, one := range c.Counters {
			list = append(list, consumption{counter: places[one.Name], value: one.Value})
		}
	}
	return list
}

// others gives numbers to the pool's devices that the node doesn't reach and that consume counters. Devices of one name
// have one number.
func (g *gathering) others(p *pool, group, all []*Slice) {
	numbers := map[string]int32{}
	for _, s := range elsewhere(group, all) {
		for i := range s.Devices {
			d := &s.Devices[i]
			consumes := p.consumption(nil, d)
			if len(consumes) == 0 {
				continue
			}
			number, ok := p.number(d.Name)
			if !ok {
				if number, ok = numbers[d.Name]; !ok {
					number = g.out.numbers
					numbers[d.Name] = number
					g.out.numbers++
				}
			}
			p.others = append(p.others, otherDevice{number: number, consumes: consumes})
		}
	}
	for name, number := range numbers {
		p.names = append(p.names, named{name, number})
	}
	if len(numbers) > 0 {
		slices.SortFunc(p.names, func(a, b named) int { return strings.Compare(a.name, b.name) })
	}
}
