package scorer

import (
	"slices"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// podReads is what the filters of a class look at of the pods that are there.
type podReads struct {
	// fit is the index of NodeResourcesFit in Class.filters, -1: it does not filter.
	fit int
	// grouped is the index of the first filter with a group part; len(filters): there is none.
	grouped int
	// counters are the counters that filters look at, sorted.
	counters []uint32
	// ports are the host ports that NodePorts asks for.
	ports []portUse
	// moving tells of each filter, by a bit, whether it looks at pods at all; seeing are the filters that look at
	// more of pods than their requests.
	moving uint64
	seeing []int
	// others tells that a rule looks at more than the above of what pods add up to.
	others bool
}

// totalsReader is a filter rule other than the resource, port and counter rules that looks
// at what the pods of a row add up to.
type totalsReader interface{ readsTotals() bool }

// newPodReads looks through the filters of a class.
func newPodReads(c *Class) podReads {
	r := podReads{fit: -1, grouped: len(c.filters)}
	for i := range c.filters {
		f := &c.filters[i]
		_, reader := f.rule.(totalsReader)
		switch rule := f.rule.(type) {
		case *nodeResourcesFit:
			r.fit = i
			r.moving |= 1 << i
		case *nodePorts:
			r.ports, reader = rule.wanted, true
		case *volumeRestrictions:
			r.counters, reader = append(r.counters, rule.disks...), true
		case *nodeVolumeLimits:
			reader = true
			for _, d := range rule.drivers {
				r.counters = append(append(r.counters, d.GetShared()...), d.GetAttached())
			}
		case totalsReader:
			r.others = r.others || rule.readsTotals()
		}
		if reader || f.group != nil {
			r.moving, r.seeing = r.moving|1<<i, append(r.seeing, i)
		}
		if rule, ok := f.group.(*readWriteOncePod); ok {
			r.counters = append(r.counters, rule.named...)
		}
		if f.group != nil {
			r.grouped = min(r.grouped, i)
			for _, k := range f.reads.values {
				r.reads(c.group.sums[c.group.values[k].sum])
				for _, p := range c.group.values[k].pinned.all {
					r.reads(p.terms)
				}
			}
			for _, k := range f.reads.measures {
				r.reads(c.group.sums[c.group.measures[k].sum])
			}
		}
	}
	slices.Sort(r.counters)
	r.counters = slices.Compact(r.counters)
	return r
}

func (r *podReads) reads(terms []*pb.CounterTerm) {
	for _, t := range terms {
		r.counters = append(r.counters, t.GetCounter())
	}
}

// plain tells that of pods only the resources matter, and their number.
func (r *podReads) plain() bool { return len(r.counters) == 0 && len(r.ports) == 0 && !r.others }

// counts tells whether the filters look at a counter.
func (r *podReads) counts(id uint32) bool {
	_, found := slices.BinarySearch(r.counters, id)
	return found
}

// readsTotals tells whether an expression looks at what pods add up to.
func (r *celFilter) readsTotals() bool {
	return slices.ContainsFunc(r.list, func(x celTerm) bool { return readsPods(x.residual.Reads()) })
}
