package devices

import (
	"math"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
)

// tally is which counters slices of one generation of a pool have, and which of them devices consume. It is kept from slice to slice:
// a pool may have thousands, and each change of one is judged.
type tally struct {
	// slices is how many slices have counter sets, and counts how many of these say that the pool has so many slices.
	slices int
	counts map[int64]int
	// mixed is how many slices have both counter sets and devices, which the API refuses.
	mixed int
	// counters are those that there are, or that devices consume; a set is one without a name.
	counters map[counterName]counterTally
	// lacking is how many are consumed, and not there; repeated is how many sets are there more than once.
	lacking, repeated int
}

type counterName struct{ set, counter string }

// counterTally is how often a counter is there, and how often it is consumed.
type counterTally struct{ there, consumed int }

// tally adds a slice to its generation's, or takes it back.
func (p *pool) tally(s *resourcev1.ResourceSlice, by int) {
	consumes := func(d resourcev1.Device) bool { return len(d.ConsumesCounters) > 0 }
	if len(s.Spec.SharedCounters) == 0 && !slices.ContainsFunc(s.Spec.Devices, consumes) {
		return
	}
	generation := s.Spec.Pool.Generation
	t := p.tallies[generation]
	if t == nil {
		if p.tallies == nil {
			p.tallies = map[int64]*tally{}
		}
		t = &tally{counts: map[int64]int{}, counters: map[counterName]counterTally{}}
		p.tallies[generation] = t
	}
	if t.add(s, by); t.slices == 0 && len(t.counters) == 0 {
		delete(p.tallies, generation)
	}
}

func (t *tally) add(s *resourcev1.ResourceSlice, by int) {
	if len(s.Spec.SharedCounters) > 0 {
		t.slices += by
		count := s.Spec.Pool.ResourceSliceCount
		if t.counts[count] += by; t.counts[count] == 0 {
			delete(t.counts, count)
		}
		if len(s.Spec.Devices) > 0 {
			t.mixed += by
		}
	}
	for i := range s.Spec.SharedCounters {
		set := &s.Spec.SharedCounters[i]
		t.change(counterName{set: set.Name}, by, 0)
		for name := range set.Counters {
			t.change(counterName{set.Name, name}, by, 0)
		}
	}
	for i := range s.Spec.Devices {
		for _, of := range s.Spec.Devices[i].ConsumesCounters {
			t.change(counterName{set: of.CounterSet}, 0, by)
			for name := range of.Counters {
				t.change(counterName{of.CounterSet, name}, 0, by)
			}
		}
	}
}

func (t *tally) change(name counterName, there, consumed int) {
	x := t.counters[name]
	t.judge(name, x, -1)
	x.there += there
	x.consumed += consumed
	t.judge(name, x, 1)
	if x == (counterTally{}) {
		delete(t.counters, name)
	} else {
		t.counters[name] = x
	}
}

func (t *tally) judge(name counterName, x counterTally, by int) {
	if x.consumed > 0 && x.there == 0 {
		t.lacking += by
	}
	if name.counter == "" && x.there > 1 {
		t.repeated += by
	}
}

// troublesOthers tells whether a pool whose slices all name one node changes what other nodes answer. Those see its counter
// sets, and so they see that the pool is incomplete, or invalid, unless they hold it for obsolete. A pool of which that is hard to
// tell, for its slices contradict each other, may.
func (p *pool) troublesOthers() bool {
	var t *tally // of the newest generation that has counter sets
	newest, last, all := int64(math.MinInt64), int64(math.MinInt64), int64(0)
	for g, x := range p.tallies {
		if x.slices > 0 && g >= newest {
			newest, t = g, x
		}
	}
	if t == nil {
		return false
	}
	for _, s := range p.slices {
		g := s.Spec.Pool.Generation
		if last = max(last, g); g == newest {
			all++
		}
	}
	if len(t.counts) > 1 || t.mixed > 0 {
		return true
	}
	switch {
	case t.counts[int64(t.slices)] > 0: // all of its slices have counter sets
		return t.repeated > 0
	case last > newest:
		return false // obsolete
	}
	return t.counts[all] == 0 || t.repeated+t.lacking > 0
}
