package devices

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	resourcehelper "k8s.io/component-helpers/resource"
)

// extended is what a pod asks for of extended resources that devices may serve.
type extended struct {
	// names are all extended resources that the pod asks for, sorted, mapped to a class or not.
	names []v1.ResourceName
	// stale is the claim that an attempt before has left behind; nil: none has.
	stale *resourcev1.ResourceClaim
}

// extendedOf finds the extended resources of a pod; nil: none of them is mapped to a class.
//
// Differs from upstream: a claim that an attempt before has left behind is always deleted, also one without
// requests, which could not be allocated.
func (c *Cache) extendedOf(pod *v1.Pod) *extended {
	if len(c.mapping) == 0 || !c.mayAskMapped(&pod.Spec) {
		return nil
	}
	x := &extended{}
	mapped := false
	for name, q := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		if q.IsZero() || !isExtended(name) {
			continue
		}
		x.names = append(x.names, name)
		mapped = mapped || c.mapping[name] != nil
	}
	if !mapped {
		return nil
	}
	slices.Sort(x.names)
	if left := c.special[podKeyOf(pod)]; len(left) > 0 {
		x.stale = c.Claim(pod.Namespace, left[0])
	}
	return x
}

// mayAskMapped tells whether a resource of the pod's own lists is mapped to a class. It is asked for each pod of a cluster
// with classes.
func (c *Cache) mayAskMapped(s *v1.PodSpec) bool {
	asks := func(list v1.ResourceList) bool {
		for name := range list {
			if c.mapping[name] != nil {
				return true
			}
		}
		return false
	}
	for i := range s.InitContainers {
		if asks(s.InitContainers[i].Resources.Requests) {
			return true
		}
	}
	for i := range s.Containers {
		if asks(s.Containers[i].Resources.Requests) {
			return true
		}
	}
	return asks(s.Overhead)
}

// isExtended tells whether a resource is an extended one, or is named after a class.
func isExtended(name v1.ResourceName) bool {
	n := string(name)
	switch {
	case strings.HasPrefix(n, resourcev1.ResourceDeviceClassPrefix):
		return true
	case !strings.Contains(n, "/"), strings.Contains(n, v1.ResourceDefaultNamespacePrefix),
		strings.HasPrefix(n, v1.DefaultResourceRequestsPrefix):
		return false
	}
	return len(validation.IsQualifiedName(v1.DefaultResourceRequestsPrefix+n)) == 0
}

// memoryClaim is the claim for extended resources as it is until PreBind makes it.
func memoryClaim(pod *v1.Pod, uid types.UID) *resourcev1.ResourceClaim {
	yes := true
	return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: specialName, UID: uid, GenerateName: pod.Name + "-extended-resources-",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: &yes}},
		Annotations:     map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"},
	}}
}

// nodeClaim is the claim for extended resources as the chosen node needs it, and which container's resource each
// of its requests serves.
func nodeClaim(pod *v1.Pod, uid types.UID, f *FoundExtended) (*resourcev1.ResourceClaim, []v1.ContainerExtendedResourceRequest) {
	claim := memoryClaim(pod, uid)
	for _, a := range f.Requests {
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourcev1.DeviceRequest{
			Name: a.Name,
			Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: a.Class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: a.Count,
			},
		})
	}
	containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	var mappings []v1.ContainerExtendedResourceRequest
	for _, m := range f.Mappings {
		mappings = append(mappings, v1.ContainerExtendedResourceRequest{
			ContainerName: containers[m.Container].Name, ResourceName: m.Resource, RequestName: m.Request,
		})
	}
	return claim, mappings
}

// ClaimNames are the claims that texts about a query's claims are about, as namespace and name: those without
// devices, then the one for extended resources.
func (c *Cache) ClaimNames(pod *v1.Pod) (out []types.NamespacedName) {
	r, err := c.resolve(pod)
	if err != nil {
		return nil
	}
	out = r.namesOf(false)
	if r.extended != nil {
		out = append(out, types.NamespacedName{Namespace: pod.Namespace, Name: specialName})
	}
	return out
}

// AllocatedNames are a pod's claims that have their devices, in the order of its query.
func (c *Cache) AllocatedNames(pod *v1.Pod) []types.NamespacedName {
	r, err := c.resolve(pod)
	if err != nil {
		return nil
	}
	return r.namesOf(true)
}

// namesOf are the claims that have their devices, or those that have none.
func (r *resolved) namesOf(allocated bool) (out []types.NamespacedName) {
	for _, claim := range r.claims {
		if (claim.Status.Allocation != nil) == allocated {
			out = append(out, keyOf(claim))
		}
	}
	return out
}
