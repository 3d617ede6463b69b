package shardschedv1

// With is a query with other requests, and without an id. All else it shares with x.
func (x *Query) With(fit *FitQuery, balanced *BalancedQuery) *Query {
	return &Query{
		Filters:            x.Filters,
		Scores:             x.Scores,
		Narrowed:           x.Narrowed,
		NodeName:           x.NodeName,
		Tolerations:        x.Tolerations,
		NodeAffinity:       x.NodeAffinity,
		HostPorts:          x.HostPorts,
		Fit:                fit,
		Balanced:           balanced,
		Images:             x.Images,
		DomainKeys:         x.DomainKeys,
		RowValues:          x.RowValues,
		Measures:           x.Measures,
		Spread:             x.Spread,
		InterPodAffinity:   x.InterPodAffinity,
		VolumeRestrictions: x.VolumeRestrictions,
		VolumeLimits:       x.VolumeLimits,
		VolumeBinding:      x.VolumeBinding,
		VolumeZones:        x.VolumeZones,
		RequiredFeatures:   x.RequiredFeatures,
		Cel:                x.Cel,
		ResourceClaims:     x.ResourceClaims,
		Within:             x.Within,
	}
}

// CanVary tells whether x with these requests can be told as a Variant of x: both score the same resources.
func (x *Query) CanVary(fit *FitQuery, balanced *BalancedQuery) bool {
	return (x.Fit == nil) == (fit == nil) && (x.Balanced == nil) == (balanced == nil) &&
		x.GetFit().GetBestEffort() == fit.GetBestEffort() &&
		sameNames(x.GetFit().GetScored(), fit.GetScored()) && sameNames(x.GetBalanced().GetScored(), balanced.GetScored())
}

func sameNames(a, b []*ScoredResource) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Name != b[i].Name {
			return false
		}
	}
	return true
}

// Variant is the definition of x by the class of another query, its original, whose CanVary is true of x.
func (x *Query) Variant(original uint64) *Variant {
	return &Variant{ClassId: x.ClassId, Original: original, Requests: x.GetFit().GetRequests(),
		FitScored: requestsOf(x.GetFit().GetScored()), BalancedScored: requestsOf(x.GetBalanced().GetScored())}
}

func requestsOf(scored []*ScoredResource) []int64 {
	out := make([]int64, len(scored))
	for i, s := range scored {
		out[i] = s.Request
	}
	return out
}

// Vary is the query that a valid variant of x defines. It errs where the two do not score as many resources.
func (x *Query) Vary(v *Variant) (*Query, error) {
	fit, balanced := x.Fit, x.Balanced
	if fit != nil {
		scored, err := withRequests("fit_scored", fit.Scored, v.FitScored)
		if err != nil {
			return nil, err
		}
		fit = &FitQuery{Requests: v.Requests, BestEffort: fit.BestEffort, ScoringType: fit.ScoringType, Scored: scored, Shape: fit.Shape}
	}
	if balanced != nil {
		scored, err := withRequests("balanced_scored", balanced.Scored, v.BalancedScored)
		if err != nil {
			return nil, err
		}
		balanced = &BalancedQuery{Scored: scored}
	}
	q := x.With(fit, balanced)
	q.ClassId = v.ClassId
	return q, nil
}

// withRequests are scored resources with other requests.
func withRequests(field string, list []*ScoredResource, requests []int64) ([]*ScoredResource, error) {
	if len(list) != len(requests) {
		return nil, wrong(field, "expected one for each of %d resources, got %d", len(list), len(requests))
	}
	out, store := make([]*ScoredResource, len(list)), make([]ScoredResource, len(list))
	for i, s := range list {
		out[i] = &store[i]
		out[i].Name, out[i].Weight, out[i].Request = s.Name, s.Weight, requests[i]
	}
	return out, nil
}

// Validate checks ids and amounts.
func (x *Variant) Validate() error {
	if x.GetClassId() == 0 {
		return wrong("class_id", "expected an id, got 0")
	}
	if x.GetOriginal() == 0 || x.GetOriginal() == x.GetClassId() {
		return wrong("original", "expected the id of another class, got %d", x.GetOriginal())
	}
	if err := x.GetRequests().Validate(); err != nil {
		return in("requests", err)
	}
	for i, n := range x.GetFitScored() {
		if err := natural("", n); err != nil {
			return at("fit_scored", i, err)
		}
	}
	for i, n := range x.GetBalancedScored() {
		if err := natural("", n); err != nil {
			return at("balanced_scored", i, err)
		}
	}
	return nil
}
