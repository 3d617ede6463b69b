package compile

import (
	v1 "k8s.io/api/core/v1"
	helper "k8s.io/component-helpers/resource"
)

// fewInitContainers is up to how many of them the library counts a pod's requests.
const fewInitContainers = 8

// Requests is the library's PodRequests and Limits its PodLimits, in time that grows with the pod. No amount is
// negative, as the API server has it.
func Requests(p *v1.Pod) v1.ResourceList { return podRequests(p, helper.PodResourcesOptions{}) }

// Limits is described at Requests. Limits of containers add up as requests do, so they are counted as such; what the
// pod says as a whole is the library's to add.
func Limits(p *v1.Pod) v1.ResourceList {
	p = apart(p)
	if len(p.Spec.InitContainers) <= fewInitContainers {
		return helper.PodLimits(p, helper.PodResourcesOptions{})
	}
	asked := v1.Pod{Spec: v1.PodSpec{Containers: limitsAsRequests(p.Spec.Containers),
		InitContainers: limitsAsRequests(p.Spec.InitContainers)}}
	flat := v1.Pod{Spec: v1.PodSpec{Resources: p.Spec.Resources, Overhead: p.Spec.Overhead, Containers: make([]v1.Container, 1)}}
	flat.Spec.Containers[0].Resources.Limits = Requests(&asked)
	return helper.PodLimits(&flat, helper.PodResourcesOptions{})
}

func limitsAsRequests(containers []v1.Container) []v1.Container {
	out := make([]v1.Container, len(containers))
	for i := range containers {
		out[i].RestartPolicy, out[i].Resources.Requests = containers[i].RestartPolicy, containers[i].Resources.Limits
	}
	return out
}

// podRequests is the library's PodRequests of a tamed pod, in time that grows with the pod: for each init
// container the library goes over all that the sidecars before it ask for, which takes seconds with thousands of
// both, each of a resource of its own.
//
// What an init container needs while it starts is the sum of the sidecars before it and itself. Of resources that it
// does not name that is no more than all sidecars and containers need afterwards; so the others are enough.
func podRequests(p *v1.Pod, o helper.PodResourcesOptions) v1.ResourceList {
	p = apart(p)
	if len(p.Spec.InitContainers) <= fewInitContainers {
		return helper.PodRequests(p, o)
	}
	flat := *p
	flat.Spec.InitContainers, flat.Spec.Overhead = nil, nil
	flat.Spec.Containers = append([]v1.Container{}, p.Spec.Containers...)
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; isSidecar(c) {
			flat.Spec.Containers = append(flat.Spec.Containers, *c)
		}
	}
	var asked []v1.ResourceList // of containers, then of sidecars, as their status has it
	o.ContainerFn = func(l v1.ResourceList, _ helper.ContainerType) { asked = append(asked, l) }
	all := helper.PodRequests(&flat, o)
	raise(all, starting(p, o.NonMissingContainerRequests, asked[len(p.Spec.Containers):]), func(name v1.ResourceName) bool {
		return !o.SkipPodLevelResources && namesPodLevel(p, name)
	})
	add(all, p.Spec.Overhead)
	return all
}

// apart is a pod whose lists for the whole of it may be changed: the library adds the overhead to the very quantities there, where
// these are big decimals, as 1.5Gi is.
func apart(p *v1.Pod) *v1.Pod {
	if p.Spec.Resources == nil || len(p.Spec.Overhead) == 0 {
		return p
	}
	own := *p
	own.Spec.Resources, own.Status.Resources = p.Spec.Resources.DeepCopy(), p.Status.Resources.DeepCopy()
	own.Status.AllocatedResources = p.Status.AllocatedResources.DeepCopy()
	return &own
}

// starting is the most that init containers need while they start, of what they name.
func starting(p *v1.Pod, missing v1.ResourceList, sidecars []v1.ResourceList) v1.ResourceList {
	most, before := v1.ResourceList{}, v1.ResourceList{}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if isSidecar(c) {
			add(before, sidecars[0])
			sidecars = sidecars[1:]
			continue
		}
		needs := v1.ResourceList{}
		add(needs, c.Resources.Requests)
		for name, q := range missing {
			if _, named := needs[name]; !named {
				needs[name] = q
			}
		}
		for name, q := range needs {
			q.Add(before[name])
			needs[name] = q
		}
		raise(most, needs, func(v1.ResourceName) bool { return false })
	}
	return most
}

// namesPodLevel tells whether a pod asks for a resource as a whole, whatever its containers need.
func namesPodLevel(p *v1.Pod, name v1.ResourceName) bool {
	if p.Spec.Resources == nil || !helper.IsSupportedPodLevelResource(name) {
		return false
	}
	_, named := p.Spec.Resources.Requests[name]
	return named
}

func add(to, what v1.ResourceList) {
	for name, q := range what {
		sum := q.DeepCopy()
		sum.Add(to[name])
		to[name] = sum
	}
}

// raise makes each amount at least what is given, but for those that stay.
func raise(to, atLeast v1.ResourceList, stays func(v1.ResourceName) bool) {
	for name, q := range atLeast {
		if was, has := to[name]; (!has || q.Cmp(was) > 0) && !stays(name) {
			to[name] = q
		}
	}
}
