package compile

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// compileFit is NodeResourcesFit's PreFilter and PreScore; nil: the profile does without.
func compileFit(asked requests, prof *Profile) *pb.FitQuery {
	if !prof.uses(pb.Plugin_PLUGIN_NODE_RESOURCES_FIT) {
		return nil
	}
	filtered := resources(asked.filtered, prof.ignores)
	return &pb.FitQuery{
		Requests:    filtered,
		BestEffort:  empty(filtered),
		ScoringType: prof.scoring,
		Scored:      scored(prof.fitResources, asked.scored),
		Shape:       prof.shape,
	}
}

// compileBalanced is NodeResourcesBalancedAllocation's PreScore; nil where it
// skips, because the pod asks nothing of any scored resource.
func compileBalanced(asked requests, prof *Profile) *pb.BalancedQuery {
	if !prof.scoresBy(pb.Plugin_PLUGIN_NODE_RESOURCES_BALANCED_ALLOCATION) {
		return nil
	}
	q := &pb.BalancedQuery{Scored: scored(prof.balancedResources, asked.held)}
	for _, r := range q.Scored {
		if r.Request != 0 {
			return q
		}
	}
	return nil
}

// scored lists what a pod asks of the resources of a scoring strategy. A scalar of
// which it asks nothing is not scored, nor is what is no resource to a scheduler.
func scored(resources []*pb.ScoredResource, requests v1.ResourceList) []*pb.ScoredResource {
	out, store := make([]*pb.ScoredResource, 0, len(resources)), make([]pb.ScoredResource, len(resources))
	for i, r := range resources {
		name := v1.ResourceName(r.Name)
		request := amount(requests[name], unit(name))
		switch name {
		case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage:
		default:
			if request == 0 || !isScalar(name) {
				continue
			}
		}
		s := &store[i]
		s.Name, s.Weight, s.Request = r.Name, r.Weight, request
		out = append(out, s)
	}
	return out
}

// IgnoresResource is ignores for those who look for room themselves.
func (p *Profile) IgnoresResource(name string) bool { return p.ignores(v1.ResourceName(name)) }

// ignores tells whether the profile has NodeResourcesFit's filter pass over a
// resource. Only extended resources can be passed over.
func (p *Profile) ignores(name v1.ResourceName) bool {
	if len(p.ignored) == 0 && len(p.ignoredGroups) == 0 || !isExtended(name) {
		return false
	}
	group, _, _ := strings.Cut(string(name), "/")
	return p.ignored.Has(string(name)) || p.ignoredGroups.Has(group)
}
