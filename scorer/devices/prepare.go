package devices

import (
	"fmt"
	"slices"
)

// arena is memory that is given out piece by piece and taken back as a whole.
type arena[T any] struct {
	free []T
	all  []T
}

func (a *arena[T]) reset() {
	clear(a.all[:len(a.all)-len(a.free)])
	a.free = a.all
}

// take gives n zero elements. A piece that was given out stays good when the arena grows.
func (a *arena[T]) take(n int) []T {
	if n > len(a.free) {
		a.all = make([]T, 2*len(a.all)+n+16)
		a.free = a.all
	}
	out := a.free[:n:n]
	a.free = a.free[n:]
	return out
}

// resized is a slice of n zero elements, in the memory of another if it is large enough.
func resized[T any](list []T, n int) []T {
	if n > cap(list) {
		return make([]T, n)
	}
	list = list[:n]
	clear(list)
	return list
}

// kept is a slice of n elements that keep what they were, for their memory to be used again.
func kept[T any](list []T, n int) []T {
	if n > cap(list) {
		list = append(list[:cap(list)], make([]T, n-cap(list))...)
	}
	return list[:n]
}

// begin empties the searcher's memory for a search.
func (s *Searcher) begin(pools *Pools, use *Use, demand *Demand, budget int64) {
	s.pools, s.use, s.demand = pools, use, demand
	s.steps, s.budget, s.likeness = 0, budget, nil
	s.forget()
	s.marks = kept(s.marks, len(pools.devices))
	s.shares = kept(s.shares, len(pools.devices))
	s.granted = kept(s.granted, len(pools.devices))
	s.counters = kept(s.counters, len(pools.pools))
	s.amounts.reset()
	s.portions.reset()
	s.claims = kept(s.claims, len(demand.claims))
	s.firstOption = kept(s.firstOption, len(demand.claims))
	s.constraints = kept(s.constraints, len(demand.claims))
	s.seen = resized(s.seen, demand.options*len(pools.contents))
	s.options = kept(s.options, demand.options)
	next := 0
	for c := range demand.claims {
		claim := &demand.claims[c]
		s.claims[c].Results = s.claims[c].Results[:0]
		s.claims[c].Chosen = resized(s.claims[c].Chosen, len(claim.Requests))
		s.firstOption[c] = s.firstOption[c][:0]
		place := int32(0)
		for r := range claim.Requests {
			request := &claim.Requests[r]
			s.firstOption[c] = append(s.firstOption[c], int32(next))
			for a := range request.Alternatives {
				o := &s.options[next]
				n := len(pools.contents)
				*o = option{
					Alternative: &request.Alternatives[a], claim: int32(c), request: int32(r), alternative: int32(a),
					place: place, admin: request.Admin, name: request.Name, all: o.all[:0], seen: s.seen[next*n:][:n],
				}
				if request.Prioritized {
					o.name = o.Alternative.Name
				}
				next++
				place++
			}
		}
	}
}

// forget takes back what the last search left, device by device: pools may have thousands.
func (s *Searcher) forget() {
	for i := range s.takings {
		n := s.takings[i].device
		s.marks[n], s.shares[n] = 0, 0
	}
	for _, n := range s.grantees {
		s.granted[n] = nil
	}
	for _, p := range s.summedUp {
		s.counters[p] = poolCounters{}
	}
	s.takings, s.grantees, s.summedUp = s.takings[:0], s.grantees[:0], s.summedUp[:0]
}

// prepare checks the claims before anything is searched. It is found where the search may begin.
func (s *Searcher) prepare() step {
	s.alike, s.ordered = true, s.ordered[:0]
	for c := range s.demand.claims {
		accounted := int64(0)
		for r := range s.demand.claims[c].Requests {
			least, ended := s.prepareRequest(int32(c), int32(r))
			if ended != found {
				return ended
			}
			if least > MaxResults-accounted {
				return s.refuse(int32(c), ", request %s: adding %d devices exceeds the claim limit of %d, with %d already accounted for",
					s.demand.claims[c].Requests[r].Name, least, MaxResults, accounted)
			}
			accounted += least
		}
		if ended := s.prepareConstraints(int32(c)); ended != found {
			return ended
		}
	}
	return found
}

// refuse ends the search with a text about a claim.
func (s *Searcher) refuse(c int32, format string, args ...any) step {
	s.text = Text{Claim: c, Pool: -1, Parts: [3]string{"claim ", fmt.Sprintf(format, args...)}}
	return fatal
}

// prepareRequest gives the smallest number of devices that a request can do with.
func (s *Searcher) prepareRequest(c, r int32) (least int64, ended step) {
	request := &s.demand.claims[c].Requests[r]
	features := &s.demand.features
	if request.Prioritized && !features.PrioritizedList {
		return 0, s.refuse(c, ", request %s: has subrequests, but the DRAPrioritizedList feature is disabled", request.Name)
	}
	if !features.ConsumableCapacity {
		for a := range request.Alternatives {
			if !request.Alternatives[a].AsksCapacity {
				continue
			}
			what, name := "request", request.Name
			if request.Prioritized {
				what, name = "subrequest", request.Alternatives[a].Name
			}
			return 0, s.refuse(c, ", %s %s: has capacity requests, but the DRAConsumableCapacity feature is disabled", what, name)
		}
	}
	for a := range request.Alternatives {
		o := &s.options[s.firstOption[c][r]+int32(a)]
		if ended := s.prepareOption(o); ended != found {
			return 0, ended
		}
		if a == 0 || o.need < least {
			least = o.need
		}
	}
	return least, found
}

func (s *Searcher) prepareOption(o *option) step {
	for i, selector := range o.Selectors {
		if selector == nil {
			return s.refuse(o.claim, ", request %s, selector #%d: CEL expression empty (unsupported selector type?)", o.name, i)
		}
	}
	switch {
	case o.Class == "":
		return s.refuse(o.claim, ", request %s: missing device class name (unsupported request type?)", o.name)
	case o.NoClass:
		return s.refuse(o.claim, `, request %s: could not retrieve device class %s: deviceclass.resource.k8s.io "%s" not found`,
			o.name, o.Class, o.Class)
	case o.Mode == ExactCount:
		o.need = o.Count
		return found
	case o.Mode == AllDevices:
		return s.collect(o)
	}
	return s.refuse(o.claim, ", request %s: unsupported count mode %s", o.name, o.Mode)
}

// collect finds all devices that an option can select, in use or not.
func (s *Searcher) collect(o *option) step {
	for i := range s.pools.pools {
		p := &s.pools.pools[i]
		if p.state != PoolReady {
			why := " is currently being updated"
			if p.state == PoolInvalid {
				why = " is currently invalid"
			}
			s.text = Text{Claim: o.claim, Pool: int32(i), Parts: [3]string{
				"claim ", ", request " + o.name + ": asks for all devices, but resource pool ", why}}
			return fatal
		}
		for n := p.first; n < p.end; n++ {
			if !s.spend(1) {
				return fatal
			}
			switch s.selectable(o, n) {
			case fatal:
				return fatal
			case found:
				if s.enough(o, n) {
					o.all = append(o.all, n)
				}
			}
		}
	}
	o.need = int64(len(o.all))
	return found
}

func (s *Searcher) prepareConstraints(c int32) step {
	claim := &s.demand.claims[c]
	s.constraints[c] = kept(s.constraints[c], len(claim.Constraints))
	for i := range claim.Constraints {
		from := &claim.Constraints[i]
		if from.Match == "" && from.Distinct == "" {
			return s.refuse(c, ", constraint #%d: empty constraint (unsupported constraint type?)", i)
		}
		k := &s.constraints[c][i]
		*k = constraint{
			attribute: from.Match, distinct: from.Match == "", applies: s.demand.applies[c][i],
			values: k.values[:0], contents: len(s.pools.contents), last: k.last[:0],
		}
		if k.distinct {
			k.attribute = from.Distinct
			s.alike = false
		}
	}
	s.noteOrdered(c)
	return found
}

// noteOrdered notes the devices of a claim's ordered options, which take all devices under a constraint.
func (s *Searcher) noteOrdered(c int32) {
	for n := range s.options {
		o := &s.options[n]
		applies := func(k constraint) bool { return k.applies[o.place] }
		if o.claim == c && o.Mode == AllDevices && slices.ContainsFunc(s.constraints[c], applies) {
			for _, n := range o.all {
				s.ordered = set(s.ordered, n)
			}
		}
	}
}
