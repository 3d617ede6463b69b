package devices

import (
	"fmt"
	"slices"
)

// busy tells whether an option can't have a device whatever it asks for, since somebody else has the device.
func (s *Searcher) busy(o *option, n int32) bool {
	if !o.admin {
		return s.marks[n] > 0 || has(s.use.whole, n)
	}
	return s.marks[n] > 0 && slices.ContainsFunc(s.claims[o.claim].Results, func(r Result) bool { return r.Device == n })
}

// multiple tells whether a device allows multiple allocations.
func (s *Searcher) multiple(n int32) bool {
	return s.demand.features.ConsumableCapacity && s.content(n).Multiple
}

func (s *Searcher) content(n int32) *Content { return s.pools.contents[s.pools.devices[n].content] }

// selectable tells whether the selectors of an option match a device that the node reaches: found, failed, or fatal.
func (s *Searcher) selectable(o *option, n int32) step {
	d := &s.pools.devices[n]
	if d.Conditioned && !s.demand.features.BindingConditions {
		return failed
	}
	if o.seen[d.content] == unseen {
		if ended := s.judge(o, d.content); ended == fatal {
			return fatal
		}
	}
	switch {
	case o.seen[d.content] == refused, d.reach == outOfReach:
		return failed
	case d.reach >= 0:
		s.text = plain(s.pools.faults[d.reach])
		return fatal
	}
	return found
}

// judge has the selectors of an option judge a content.
func (s *Searcher) judge(o *option, number int32) step {
	content := s.pools.contents[number]
	for i, selector := range o.ClassSelectors {
		j := selector.Judge(content)
		if !s.spend(j.Steps + evaluationSteps) {
			return fatal
		}
		if j.Error != "" {
			s.text = plain(fmt.Sprintf("class %s: selector #%d: %s", o.Class, i, j.Error))
			return fatal
		}
		if !j.Match {
			o.seen[number] = refused
			return failed
		}
	}
	for i, selector := range o.Selectors {
		j := selector.Judge(content)
		if !s.spend(j.Steps + evaluationSteps) {
			return fatal
		}
		if j.Error != "" {
			return s.refuse(o.claim, ": selector #%d: %s", i, j.Error)
		}
		if !j.Match {
			o.seen[number] = refused
			return failed
		}
	}
	o.seen[number] = short
	if o.enough(content, nil, nil) {
		o.seen[number] = fit
	}
	return found
}

// enough tells whether a selectable device has the capacities that an option takes.
func (s *Searcher) enough(o *option, n int32) bool {
	if !s.demand.features.ConsumableCapacity {
		return true
	}
	held := has(s.use.holds, n)
	if !held && s.granted[n] == nil {
		return o.seen[s.pools.devices[n].content] == fit
	}
	var amounts []Counter
	if held {
		amounts = s.use.held[n]
	}
	return o.enough(s.content(n), amounts, s.granted[n])
}

// kind tells devices apart, in a search: any device of a kind does for an option as well as the others.
type kind struct {
	content, rest int32
	whole         bool
}

// kind gives a device's kind; there is none for a device that has a past in this search, or holds shares, nor where a
// constraint by distinct values stands: what it remembers depends on what was tried before. Nor is there one for a device
// of an ordered option, which takes all devices under a constraint: whether the option comes first to a device that is
// taken, and fails, or to a device that contradicts the constraint, and ends the search, depends on which one is taken.
func (s *Searcher) kind(n int32) (kind, bool) {
	if !s.alike || s.marks[n] > 0 || s.shares[n] > 0 || has(s.use.holds, n) || has(s.ordered, n) {
		return kind{}, false
	}
	d := &s.pools.devices[n]
	content := d.content
	if s.steps > longSearch {
		content = s.representative(content)
	}
	return kind{content: content, rest: d.rest, whole: has(s.use.whole, n)}, true
}

// longSearch is the number of steps from which on it pays to find out which contents differ in nothing that the demand
// looks at.
const longSearch = 1000

// representative is the first of the contents that are like a content for the demand.
func (s *Searcher) representative(content int32) int32 {
	if s.likeness == nil {
		s.likeness = kept(s.likenesses, len(s.pools.contents))
		s.likenesses = s.likeness
		reads, known := s.demand.Reads()
		first := map[string]int32{}
		for i, c := range s.pools.contents {
			if s.likeness[i] = int32(i); !known {
				continue
			}
			only := c.Only(reads)
			key := only.Key()
			if _, ok := first[key]; !ok {
				first[key] = int32(i)
			}
			s.likeness[i] = first[key]
		}
	}
	return s.likeness[content]
}

// failures are the kinds that failed at one place of the search, the last few of them.
type failures struct {
	kinds [6]kind
	n     int
}

func (f *failures) have(k kind) bool { return slices.Contains(f.kinds[:min(f.n, len(f.kinds))], k) }

func (f *failures) add(k kind) {
	f.kinds[f.n%len(f.kinds)] = k
	f.n++
}
