package scorer

import (
	"math"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// interPodAffinityFilter is the required part of the plugin InterPodAffinity, the terms of
// the pods that are there included.
type interPodAffinityFilter struct {
	required, anti, existing []place
	// self tells that the pod matches its own required terms: then the first of its
	// kind may go anywhere.
	self bool
	why  []Reason
}

// The reasons of interPodAffinityFilter.
const (
	affinityUnmet = iota
	antiAffinityUnmet
	existingAntiAffinityUnmet
)

func newInterPodAffinityFilter(q *pb.Query) (groupFilter, *groupReads) {
	a := q.GetInterPodAffinity()
	n := &groupReads{}
	r := &interPodAffinityFilter{
		required: newPlaces(a.GetRequired(), n, true),
		anti:     newPlaces(a.GetAnti(), n, false),
		existing: newPlaces(a.GetExistingAnti(), n, false),
		self:     a.GetSelfMatch(),
	}
	if len(r.required)+len(r.anti)+len(r.existing) == 0 {
		return nil, n
	}
	plugin := PluginName(pb.Plugin_PLUGIN_INTER_POD_AFFINITY)
	r.why = []Reason{
		affinityUnmet:             {plugin, "node(s) didn't match pod affinity rules", true},
		antiAffinityUnmet:         {plugin, "node(s) didn't match pod anti-affinity rules", false},
		existingAntiAffinityUnmet: {plugin, "node(s) didn't satisfy existing pods anti-affinity rules", false},
	}
	return r, n
}

func newPlaces(list []*pb.Place, n *groupReads, measured bool) []place {
	var out []place
	for _, p := range list {
		x := newPlace(p)
		n.add(x, measured)
		out = append(out, x)
	}
	return out
}

func (r *interPodAffinityFilter) reasons() []Reason { return r.why }

// begin finds out whether the pod would be the first of its kind.
func (r *interPodAffinityFilter) begin(s *Standing) {
	s.first = r.self
	for i := range r.required {
		s.first = s.first && s.result.Measures[r.required[i].measure].total() == 0
	}
}

func (r *interPodAffinityFilter) refusal(s *Standing, group int) int {
	switch {
	case !r.attracted(s, group):
		return affinityUnmet
	case s.above(r.anti, group):
		return antiAffinityUnmet
	case s.above(r.existing, group):
		return existingAntiAffinityUnmet
	}
	return -1
}

// attracted tells whether the required terms hold.
func (r *interPodAffinityFilter) attracted(s *Standing, group int) bool {
	met := true
	for i := range r.required {
		n, has := s.count(&r.required[i], group)
		if !has {
			return false
		}
		met = met && n > 0
	}
	return met || s.first
}

// above tells whether one of the counts is above 0.
func (s *Standing) above(list []place, group int) bool {
	for i := range list {
		if n, has := s.count(&list[i], group); has && n > 0 {
			return true
		}
	}
	return false
}

// interPodAffinityScore is the preferred part of InterPodAffinity.
type interPodAffinityScore struct{ preferred []place }

func newInterPodAffinityScore(q *pb.Query) (groupScore, *groupReads) {
	n := &groupReads{}
	r := &interPodAffinityScore{newPlaces(q.GetInterPodAffinity().GetPreferred(), n, false)}
	if len(r.preferred) == 0 {
		return nil, n
	}
	return r, n
}

func (r *interPodAffinityScore) score(s *Standing, raw, normalised []int64) {
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for _, i := range s.counted {
		raw[i] = 0
		for k := range r.preferred {
			if n, has := s.count(&r.preferred[k], int(i)); has {
				raw[i] += n
			}
		}
		least, most = min(least, raw[i]), max(most, raw[i])
	}
	span := most - least
	for _, i := range s.counted {
		normalised[i] = 0
		if span > 0 {
			normalised[i] = int64(float64(maxNodeScore) * (float64(raw[i]-least) / float64(span)))
		}
	}
}
