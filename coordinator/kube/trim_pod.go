package kube

import v1 "k8s.io/api/core/v1"

// pod keeps what rules read of a pod, and what is told of it to the API server; scheduled: also since when it has its node.
func (s *shared) pod(p *v1.Pod, scheduled bool) {
	meta := s.labelled(&p.ObjectMeta)
	meta.OwnerReferences = s.owners(p.OwnerReferences)
	spec := s.rest(&v1.PodSpec{
		NodeSelector: p.Spec.NodeSelector, HostNetwork: p.Spec.HostNetwork, HostUsers: p.Spec.HostUsers,
		SchedulerName: p.Spec.SchedulerName, Tolerations: p.Spec.Tolerations, Priority: p.Spec.Priority,
		PreemptionPolicy: p.Spec.PreemptionPolicy, Overhead: p.Spec.Overhead,
		TopologySpreadConstraints: p.Spec.TopologySpreadConstraints, SchedulingGates: p.Spec.SchedulingGates,
		ResourceClaims: p.Spec.ResourceClaims, Resources: p.Spec.Resources, SchedulingGroup: p.Spec.SchedulingGroup,
	})
	spec.NodeName = s.text(p.Spec.NodeName)
	spec.ActiveDeadlineSeconds, spec.TerminationGracePeriodSeconds = p.Spec.ActiveDeadlineSeconds, p.Spec.TerminationGracePeriodSeconds
	spec.Affinity = s.affinity(p.Spec.Affinity)
	spec.InitContainers, spec.Containers = s.containers(trimmedContainers(p.Spec.InitContainers), trimmedContainers(p.Spec.Containers))
	spec.Volumes = s.volumes(trimmedVolumes(p.Spec.Volumes))
	status := s.resized(&v1.PodStatus{
		InitContainerStatuses: resources(p.Status.InitContainerStatuses), ContainerStatuses: resources(p.Status.ContainerStatuses),
		Resources: p.Status.Resources, AllocatedResources: p.Status.AllocatedResources,
	})
	status.Phase = v1.PodPhase(s.text(string(p.Status.Phase)))
	status.Conditions = s.conditions(p, scheduled)
	status.NominatedNodeName = s.text(p.Status.NominatedNodeName)
	status.StartTime = p.Status.StartTime
	status.ResourceClaimStatuses = p.Status.ResourceClaimStatuses
	status.ExtendedResourceClaimStatus = p.Status.ExtendedResourceClaimStatus
	*p = v1.Pod{ObjectMeta: meta, Spec: spec, Status: status}
}

// trimmedContainers leaves images, requests and host ports, and what node features are inferred
// from. The list itself is not changed: an informer may transform an object twice, and the
// second time its parts are others' too.
func trimmedContainers(list []v1.Container) []v1.Container {
	if len(list) == 0 {
		return nil
	}
	out := make([]v1.Container, len(list))
	for i := range list {
		c := &list[i]
		out[i] = v1.Container{Name: c.Name, Image: c.Image, Resources: c.Resources, RestartPolicy: c.RestartPolicy,
			RestartPolicyRules: c.RestartPolicyRules}
		for _, p := range c.Ports {
			if p.HostPort != 0 {
				out[i].Ports = append(out[i].Ports, p)
			}
		}
	}
	return out
}

func trimmedVolumes(list []v1.Volume) []v1.Volume {
	var out []v1.Volume
	for i := range list {
		if !isLocal(&list[i]) {
			out = append(out, list[i])
		}
	}
	return out
}

// isLocal tells whether a volume is one that no rule looks at: kubelet makes it on any node.
func isLocal(v *v1.Volume) bool {
	return v.EmptyDir != nil || v.HostPath != nil || v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil
}

// resources keeps of containers' statuses what resizes in place have come to.
func resources(list []v1.ContainerStatus) []v1.ContainerStatus {
	var out []v1.ContainerStatus
	for i := range list {
		c := &list[i]
		if c.Resources != nil || c.AllocatedResources != nil {
			out = append(out, v1.ContainerStatus{Name: c.Name, AllocatedResources: c.AllocatedResources, Resources: c.Resources})
		}
	}
	return out
}

// conditions keeps whether a resize is pending, whether the pod is to be disrupted, and while it
// has no node, or always, PodScheduled. Those that we write are not written again where they say the same.
func (s *shared) conditions(p *v1.Pod, scheduled bool) []v1.PodCondition {
	var out []v1.PodCondition
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.Type == v1.PodResizePending || c.Type == v1.DisruptionTarget ||
			c.Type == v1.PodScheduled && (scheduled || p.Spec.NodeName == "") {
			c.Type, c.Status = v1.PodConditionType(s.text(string(c.Type))), v1.ConditionStatus(s.text(string(c.Status)))
			c.Reason, c.Message = s.text(c.Reason), s.text(c.Message)
			out = append(out, *c)
		}
	}
	return out
}
