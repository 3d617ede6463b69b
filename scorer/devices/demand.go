package devices

// Demand is the unallocated claims of a pod, made ready for any number of searches. Nothing changes it.
type Demand struct {
	claims   []Claim
	features Features
	// names are the alternatives' names in results, claim by claim and request by request.
	names [][][]string
}

// NewDemand makes claims ready. They must not change afterwards.
func NewDemand(claims []Claim, features Features) *Demand {
	d := &Demand{claims: claims, features: features, names: make([][][]string, len(claims))}
	for c := range claims {
		d.names[c] = make([][]string, len(claims[c].Requests))
		for r := range claims[c].Requests {
			request := &claims[c].Requests[r]
			for a := range request.Alternatives {
				name := request.Name
				if request.Prioritized {
					name += "/" + request.Alternatives[a].Name
				}
				d.names[c][r] = append(d.names[c][r], name)
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
