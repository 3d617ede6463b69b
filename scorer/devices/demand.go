package devices

import (
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
	// reads are the attributes that the demand looks at, if known.
	reads []string
	known bool
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
	d.reads, d.known = d.findReads()
	return d
}

// Claims are the claims.
func (d *Demand) Claims() []Claim { return d.claims }

// Name is what a result for an alternative names as its request.
func (d *Demand) Name(claim, request, alternative int32) string {
	return d.names[claim][request][alternative]
}

// Reads names the attributes that selectors and constraints look at, sorted, by qualified name; false: it may be any.
// Devices that differ in others alone are had for a demand alike.
func (d *Demand) Reads() ([]string, bool) { return d.reads, d.known }

func (d *Demand) findReads() ([]string, bool) {
	var names []string
	for c := range d.claims {
		for _, k := range d.claims[c].Constraints {
			names = append(names, k.Match+k.Distinct)
		}
		for r := range d.claims[c].Requests {
			for a := range d.claims[c].Requests[r].Alternatives {
				alternative := &d.claims[c].Requests[r].Alternatives[a]
				for _, selector := range slices.Concat(alternative.ClassSelectors, alternative.Selectors) {
					if selector == nil {
						continue
					}
					read, known := selector.Reads()
					if !known {
						return nil, false
					}
					names = append(names, read...)
				}
			}
		}
	}
	slices.SortFunc(names, strings.Compare)
	return slices.Compact(names), true
}
