package compile

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"
)

// What a container that names no request counts as, where defaults apply.
const (
	defaultMilliCPU    = 100
	defaultMemoryBytes = 200 << 20
)

// defaults are the requests of a container that names none.
func defaults() v1.ResourceList {
	return v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(defaultMilliCPU, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(defaultMemoryBytes, resource.BinarySI),
	}
}

// fitScoreRequests is what NodeResourcesFit scores with. Upstream's scorer never
// receives the flag for pod-level resources, so it counts the containers.
func fitScoreRequests(p *v1.Pod) v1.ResourceList {
	return podRequests(p, helper.PodResourcesOptions{
		SkipPodLevelResources:       true,
		NonMissingContainerRequests: defaults(),
	})
}

// heldRequests is what a pod holds of its node, resizes in place included. It is
// also what NodeResourcesBalancedAllocation scores with. It may be the pod's own list, and is not to be changed.
func heldRequests(p *v1.Pod) v1.ResourceList {
	if len(p.Spec.Containers) == 1 && len(p.Spec.InitContainers) == 0 && onlyContainers(p) {
		return p.Spec.Containers[0].Resources.Requests // there is nothing to add up
	}
	return podRequests(p, helper.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
}

// heldNonZero is heldRequests with the defaults; held is heldRequests' answer. A
// pod with requests of its own, at the level of the pod, takes a default only for
// what it asks nothing of at either level.
func heldNonZero(p *v1.Pod, held v1.ResourceList) v1.ResourceList {
	if namesDefaults(p) {
		return held
	}
	missing := missingDefaults(p, held)
	if len(missing) == 0 {
		return held
	}
	return podRequests(p, helper.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
		NonMissingContainerRequests:                    missing,
	})
}

// requests are what a pod asks for, counted in upstream's four ways. Ways that come to the same are counted once.
type requests struct{ filtered, scored, held, nonZero v1.ResourceList }

// requestsOf counts what a tamed pod asks for.
func requestsOf(p *v1.Pod) requests {
	held := heldRequests(p)
	s := requests{held: held, filtered: held, nonZero: heldNonZero(p, held)}
	s.scored = s.nonZero
	told := hasStatusResources(p)
	if told {
		s.filtered = Requests(p)
	}
	if told || helper.IsPodLevelRequestsSet(p) {
		s.scored = fitScoreRequests(p)
	}
	return s
}

// missingDefaults are the defaults that containers of a pod take, which holds so much.
func missingDefaults(p *v1.Pod, held v1.ResourceList) v1.ResourceList {
	missing := defaults()
	if helper.IsPodLevelRequestsSet(p) {
		for name := range missing {
			if _, ok := held[name]; ok {
				delete(missing, name)
			}
		}
	}
	return missing
}

// namesDefaults tells whether no container takes a default: each of them asks for all that
// there is one of. What a status tells of a container may ask for less.
func namesDefaults(p *v1.Pod) bool {
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			_, cpu := list[i].Resources.Requests[v1.ResourceCPU]
			_, memory := list[i].Resources.Requests[v1.ResourceMemory]
			if !cpu || !memory {
				return false
			}
		}
	}
	return !hasStatusResources(p)
}

// tamed gives a pod whose quantities can be summed: the pod itself, or a copy
// where one of them is wild.
func tamed(p *v1.Pod) *v1.Pod {
	found := false
	eachList(p, func(l v1.ResourceList) {
		for _, q := range l {
			found = found || wild(q)
		}
	})
	if !found {
		return p
	}
	p = p.DeepCopy()
	eachList(p, func(l v1.ResourceList) {
		for name, q := range l {
			if wild(q) {
				l[name] = tame(q)
			}
		}
	})
	return p
}

// eachList calls f for each list of requests that a pod's sums are made of.
func eachList(p *v1.Pod, f func(v1.ResourceList)) {
	for i := range p.Spec.InitContainers {
		f(p.Spec.InitContainers[i].Resources.Requests)
	}
	for i := range p.Spec.Containers {
		f(p.Spec.Containers[i].Resources.Requests)
	}
	f(p.Spec.Overhead)
	if p.Spec.Resources != nil {
		f(p.Spec.Resources.Requests)
	}
	if !hasStatusResources(p) {
		return
	}
	for _, statuses := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range statuses {
			if statuses[i].Resources != nil {
				f(statuses[i].Resources.Requests)
				f(statuses[i].AllocatedResources)
			}
		}
	}
	if p.Status.Resources != nil {
		f(p.Status.Resources.Requests)
		f(p.Status.AllocatedResources)
	}
}

// hasStatusResources tells whether the pod's status tells of resources. Without
// them the allocated ones do not count either.
func hasStatusResources(p *v1.Pod) bool {
	if p.Status.Resources != nil {
		return true
	}
	for i := range p.Status.ContainerStatuses {
		if p.Status.ContainerStatuses[i].Resources != nil {
			return true
		}
	}
	for i := range p.Status.InitContainerStatuses {
		if p.Status.InitContainerStatuses[i].Resources != nil {
			return true
		}
	}
	return false
}

// isSidecar tells whether an init container runs as long as the pod does.
func isSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}
