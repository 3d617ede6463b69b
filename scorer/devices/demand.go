package devices

import (
	"iter"
	"slices"
	"strings"
)

// Demand is the unallocated claims of a pod, made ready for any number of searches. Nothing changes it.
type Demand struct {
	claims   []Claim
	features Features
	options  int
	// names are the alternatives' names in results, claim by claim and request by request.
	names [][][]string
	// applies says which options a constraint looks at, claim by claim and constraint by constraint.
	applies [][][]bool
}

// NewDemand makes claims ready. They must not change afterwards.
func NewDemand(claims []Claim, features Features) *Demand {
	d := &Demand{claims: claims, features: features, names: make([][][]string, len(claims)), applies: make([][][]bool, len(claims))}
	for c := range claims {
		d.names[c] = make([][]string, len(claims[c].Requests))
		d.applies[c] = make([][]bool, len(claims[c].Constraints))
		for r := range claims[c].Requests {
			request := &claims[c].Requests[r]
			for a := range request.Alternatives {
				name := request.Name
				if request.Prioritized {
					name += "/" + request.Alternatives[a].Name
				}
				d.options++
				d.names[c][r] = append(d.names[c][r], name)
				for i := range claims[c].Constraints {
					d.applies[c][i] = append(d.applies[c][i], claims[c].Constraints[i].concerns(request, &request.Alternatives[a]))
				}
			}
		}
	}
	return d
}

// Claims are the claims.
func (d *Demand) Claims() []Claim { return d.claims }

// Name is what a result for an alternative names as its request.
func (d *Demand) Name(claim, request, alternative int32) string {
	return d.names[claim][request][alternative]
}

// compiledNow is how many bytes of expressions Ready compiles at once: that takes up to 5 ms.
const compiledNow = 2 << 10

// Ready tells whether all selectors are compiled. If not, some short ones are compiled now, and the others beside: a later call may
// find them ready.
func (d *Demand) Ready() bool {
	ready, left := true, compiledNow
	for s := range d.selectors() {
		done, bytes := s.Ready(left)
		ready, left = ready && done, left-bytes
	}
	return ready
}

// Reads names the attributes that selectors and constraints look at, sorted, by qualified name; false: it may be any.
// Devices that differ in others alone are had for a demand alike.
func (d *Demand) Reads() ([]string, bool) {
	var names []string
	for c := range d.claims {
		for _, k := range d.claims[c].Constraints {
			names = append(names, k.Match+k.Distinct)
		}
	}
	for s := range d.selectors() {
		read, known := s.Reads()
		if !known {
			return nil, false
		}
		names = append(names, read...)
	}
	slices.SortFunc(names, strings.Compare)
	return slices.Compact(names), true
}

// selectors yields all selectors, in order.
func (d *Demand) selectors() iter.Seq[Selector] {
	return func(yield func(Selector) bool) {
		for c := range d.claims {
			for r := range d.claims[c].Requests {
				for a := range d.claims[c].Requests[r].Alternatives {
					alternative := &d.claims[c].Requests[r].Alternatives[a]
					for _, list := range [...][]Selector{alternative.ClassSelectors, alternative.Selectors} {
						for _, s := range list {
							if s != nil && !yield(s) {
								return
							}
						}
					}
				}
			}
		}
	}
}
