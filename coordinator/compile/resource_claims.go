package compile

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// DynamicResources is the plugin that allocates the devices of resource claims.
const DynamicResources = "DynamicResources"

// refuseClaims rejects a pod that has resource claims, under a profile that has DynamicResources at PreFilter.
//
// Differs from upstream: devices are not allocated yet, so the pod is refused. A pod that were placed without
// its devices would hold room on a node where it can not start.
func refuseClaims(p *v1.Pod, prof *Profile) *Rejection {
	if len(p.Spec.ResourceClaims) == 0 || !slices.Contains(prof.preFilters, DynamicResources) {
		return nil
	}
	return &Rejection{Plugins: []string{DynamicResources}, Message: "pods with resource claims are not supported yet", Unresolvable: true}
}
