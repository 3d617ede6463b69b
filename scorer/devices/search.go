package devices

import "fmt"

// DefaultBudget is what a search may cost, in steps: about 7 ms of work. Upstream gives each node 10 s.
//
// Differs from upstream: steps are counted, where upstream looks at the clock.
const DefaultBudget = 1 << 17

// MaxResults is how many devices one claim may get.
const MaxResults = 32

// evaluationSteps is what an evaluation of a selector costs beside its own cost: the device is converted for it.
const evaluationSteps = 100

// Searcher searches. It keeps memory from one search to the next, for one goroutine.
type Searcher struct {
	pools         *Pools
	use           *Use
	demand        *Demand
	steps, budget int64
	text          Text
	// watch follows a search that is made for a diagnosis; nil: it is an ordinary one.
	watch *watch

	options []option
	// firstOption is the place of a request's first option, by claim and request.
	firstOption [][]int32
	constraints [][]constraint
	// alike says that equal devices fail alike, but for ordered, those of ordered options. likeness tells which contents are
	// equal for the demand, once that is asked for.
	alike                bool
	ordered              []uint64
	likeness, likenesses []int32
	claims               []Allocation

	// marks count the claims that took a device, by number.
	marks []uint16
	// shares count the shares of a device in this search, and granted is what they hold of its capacities.
	shares  []uint16
	granted [][]Amount
	// counters are those of pools that have been asked for.
	counters []poolCounters
	// grantees and summedUp are the devices and pools of which granted and counters know something.
	grantees, summedUp []int32
	takings            []taking
	seen               []seen
	amounts            arena[Amount]
	portions           arena[Counter]
}

// option is one alternative of one request.
type option struct {
	*Alternative
	claim, request, alternative int32
	// place is the option's place among those of its claim.
	place int32
	admin bool
	// name is how texts name it.
	name string
	// need is how many devices it takes, and all are these where it takes all.
	need int64
	all  []int32
	// seen are the verdicts on contents.
	seen []seen
}

// seen is what is known of a content for an option.
type seen uint8

const (
	unseen seen = iota
	// refused by a selector.
	refused
	// short of capacity, even if nobody used the device.
	short
	// fit: an unused device will do.
	fit
)

// step is how a part of the search ended.
type step uint8

const (
	failed step = iota
	found
	// tooMany: what follows needs more devices than a claim may get.
	tooMany
	fatal
)

// Search finds devices for all claims of a demand on a node.
func (s *Searcher) Search(pools *Pools, use *Use, demand *Demand, budget int64) Outcome {
	s.begin(pools, use, demand, budget)
	ended := s.prepare()
	if ended == found {
		ended = s.claim(0)
	}
	if ended == found {
		ended = s.checkSelectors()
	}
	out := Outcome{Steps: s.steps}
	switch {
	case ended == fatal:
		out.Verdict, out.Text, out.Exhausted = Fatal, s.text, s.steps > s.budget
	case ended == found:
		s.tellPortions()
		out.Verdict, out.Claims = Allocated, s.claims
	case pools.invalid:
		out.Verdict = InvalidPools
	}
	return out
}

// spend counts steps, and tells whether there are some left.
func (s *Searcher) spend(steps int64) bool {
	s.steps += steps
	if s.steps <= s.budget {
		return true
	}
	s.text = TimedOut(s.budget)
	return false
}

// TimedOut is the text of an outcome that is exhausted.
func TimedOut(budget int64) Text {
	return plain(fmt.Sprintf("timed out trying to allocate devices: more than %d steps", budget))
}

// claim searches for a claim and all that follow.
func (s *Searcher) claim(c int32) step {
	if int(c) == len(s.claims) {
		return found
	}
	return s.request(c, 0)
}

// request searches for a request of a claim and all that follow.
func (s *Searcher) request(c, r int32) step {
	if int(r) == len(s.firstOption[c]) {
		ended := s.claim(c + 1)
		if ended == tooMany {
			return failed // an earlier claim may leave more room with another alternative
		}
		return ended
	}
	first := s.firstOption[c][r]
	request := &s.demand.claims[c].Requests[r]
	if !request.Prioritized {
		return s.device(&s.options[first], 0, 0)
	}
	ended := tooMany
	for a := range request.Alternatives {
		switch s.device(&s.options[first+int32(a)], 0, 0) {
		case found:
			s.claims[c].Chosen[r] = int32(a)
			return found
		case fatal:
			return fatal
		case failed:
			ended = failed
		}
	}
	return ended
}

// device searches for what an option needs beyond the devices that it has, from a number on, and all that follows.
func (s *Searcher) device(o *option, has int64, from int32) step {
	if !s.spend(1) {
		return fatal
	}
	if s.watch != nil && s.watch.sees(o, has, len(s.demand.claims[o.claim].Requests[o.request].Alternatives)) {
		return found
	}
	all := o.Mode == AllDevices
	switch {
	case all && len(o.all) == 0:
		return failed
	case has >= o.need:
		return s.request(o.claim, o.request+1)
	case o.need-has > int64(MaxResults-len(s.claims[o.claim].Results)):
		return tooMany
	case all:
		return s.next(o, has)
	}
	return s.first(o, has, from)
}

// first takes the first device of a number or above that can be had with all that follows.
func (s *Searcher) first(o *option, has int64, from int32) step {
	var tried failures
	for n := from; n < int32(len(s.pools.devices)); n++ {
		if !s.spend(1) {
			return fatal
		}
		if s.busy(o, n) {
			continue
		}
		like, comparable := s.kind(n)
		if comparable && tried.have(like) {
			continue
		}
		if ended := s.selectable(o, n); ended == fatal {
			return fatal
		} else if ended == failed || !s.enough(o, n) {
			continue
		}
		if s.take(o, n) != taken {
			continue
		}
		ended := s.device(o, has+1, n+1)
		switch ended {
		case found, fatal:
			return ended
		}
		s.giveBack()
		if ended == tooMany {
			return tooMany
		}
		if comparable {
			tried.add(like)
		}
	}
	return failed
}

// next takes the next of all devices: there is no other to try.
func (s *Searcher) next(o *option, has int64) step {
	n := o.all[has]
	if s.busy(o, n) {
		return failed
	}
	switch s.take(o, n) {
	case contradicted:
		return s.contradiction(o, n)
	case notTaken:
		return failed
	}
	ended := s.device(o, has+1, 0)
	if ended == failed || ended == tooMany {
		s.giveBack()
	}
	return ended
}
