package scorer

import (
	"slices"

	"github.com/shardsched/shardsched/scorer/devices"
)

// This file counts devices for scores: those of a class that serves an extended resource, where a row has none of the resource
// to allocate. As upstream, a score counts all devices that reach the row and that the class selects, whatever else keeps them
// from a pod: generations, taints, counters. A device that is in use by a share is in use.
//
// Differs from upstream: NodeResourcesBalancedAllocation counts as NodeResourcesFit does, where upstream's fails on a class with
// selectors; and nothing is remembered of a device or a node that has changed.

// countedDevices are those that serve one extended resource.
type countedDevices struct {
	rule *dynamicResources
	// resource is its index in the rule, selectors are the class's.
	resource  int
	selectors []devices.Selector
}

// deviceCount is how many devices there are, and how many of them are in use.
type deviceCount struct{ all, used int64 }

// counted has those scored resources count devices that devices serve.
func (r *dynamicResources) counted(scored []scoredResource) {
	for i := range scored {
		for k, m := range r.query.GetExtended().GetResources() {
			if m.GetName() == scored[i].name && m.GetClass() != "" {
				scored[i].devices = &countedDevices{r, k, compiledSelectors(m.GetScoredSelectors(), r.compiler)}
			}
		}
	}
}

// countDevices counts the devices that serve a resource on a row. There is none where a selector fails on a device that reaches
// the row, or where it can't be read which nodes one reaches.
func (e *Evaluator) countDevices(x *countedDevices, v view) deviceCount {
	c := e.devices.class(x.rule)
	q := c.question(&e.devices, x.rule, v, 1<<x.resource)
	if n, known := c.counts[q]; known {
		return n
	}
	count := deviceCounting{countedDevices: x, state: v.devices()}
	if v.t.devices != nil {
		count.shared = &v.t.devices.shared
	}
	n := count.run()
	e.devices.makeRoom()
	e.devices.class(x.rule).counts[q] = n
	return n
}

// deviceCounting is one count.
type deviceCounting struct {
	*countedDevices
	state  *deviceState
	shared *sharedDevices // nil: there are none
	count  deviceCount
}

func (c *deviceCounting) run() deviceCount {
	if x := c.state.inventory; x != nil {
		for i, s := range x.slices {
			first := i
			for first > 0 && samePool(x.slices[first-1], s) {
				first--
			}
			inUse := func(device string) bool {
				return slices.ContainsFunc(c.state.uses, func(u stateUse) bool { return u.slice == first && u.device == device })
			}
			if !c.add(s, inUse) {
				return deviceCount{}
			}
		}
	}
	if c.shared == nil {
		return c.count
	}
	for _, s := range c.shared.slices {
		inUse := func(device string) bool {
			_, found := slices.BinarySearchFunc(c.shared.uses, device, func(u deviceUse, device string) int {
				return u.compare(s.Driver, s.Pool, device)
			})
			return found
		}
		if !c.add(s, inUse) {
			return deviceCount{}
		}
	}
	return c.count
}

// add counts the devices of a slice; false: nothing can be counted.
func (c *deviceCounting) add(s *devices.Slice, inUse func(device string) bool) bool {
	near, ok := c.reaches(s.Reach)
	if !near || !ok {
		return ok
	}
	for i := range s.Devices {
		d := &s.Devices[i]
		if s.Reach.Kind == devices.ReachEach {
			if near, ok = c.reaches(d.Reach); !ok {
				return false
			} else if !near {
				continue
			}
		}
		selected, ok := c.selects(d.Content)
		if !ok {
			return false
		}
		if selected {
			c.count.all++
			c.count.used += int64(asInt(inUse(d.Name)))
		}
	}
	return true
}

// reaches tells whether a slice or device reaches the row, a slice whose devices tell it by themselves too.
func (c *deviceCounting) reaches(r devices.Reach) (near, ok bool) {
	switch r.Kind {
	case devices.ReachThisNode, devices.ReachAllNodes, devices.ReachEach:
		return true, true
	case devices.ReachName, devices.ReachSelector:
		near, err := c.shared.reaches(c.state)(r)
		return near, err == nil
	}
	return false, true
}

// selects tells whether the class selects a device. As upstream's, expressions of scores see no device that allows multiple
// allocations.
func (c *deviceCounting) selects(content *devices.Content) (selected, ok bool) {
	if content.Multiple {
		single := *content
		single.Multiple = false
		content = &single
	}
	for _, s := range c.selectors {
		if s == nil {
			continue
		}
		if j := s.Judge(content); j.Error != "" || !j.Match {
			return false, j.Error == ""
		}
	}
	return true, true
}
