package compile

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// DynamicResources is the plugin that allocates the devices of resource claims.
const DynamicResources = "DynamicResources"

// ClaimName is the name of the claim that an entry of a pod's resourceClaims is for; "": there is deliberately none. made tells
// whether the claim is made for the pod. The error is why there is no name yet, in upstream's words.
func ClaimName(p *v1.Pod, entry *v1.PodResourceClaim) (name string, made bool, err error) {
	switch {
	case entry.ResourceClaimName != nil:
		return *entry.ResourceClaimName, false, nil
	case entry.ResourceClaimTemplateName == nil:
		const text = "pod \"%s/%s\", spec.resourceClaim %q: none of the supported fields are set"
		return "", false, fmt.Errorf(text, p.Namespace, p.Name, entry.Name)
	}
	for i := range p.Status.ResourceClaimStatuses {
		s := &p.Status.ResourceClaimStatuses[i]
		switch {
		case s.Name != entry.Name:
		case s.ResourceClaimName == nil:
			return "", true, nil
		default:
			return *s.ResourceClaimName, true, nil
		}
	}
	return "", true, fmt.Errorf("pod \"%s/%s\": ResourceClaim not created yet", p.Namespace, p.Name)
}
