package objects

import (
	"cmp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Priorities of the two classes that every cluster has
// (k8s.io/kubernetes/pkg/apis/scheduling/types.go).
const (
	systemCriticalPriority     = 2_000_000_000
	systemNodeCriticalPriority = systemCriticalPriority + 1000
	systemClusterCritical      = "system-cluster-critical"
	systemNodeCritical         = "system-node-critical"
)

// Default fills in what the API server would, as far as the scheduler depends on it
// (defaults.go of core/v1, apps/v1, storage/v1, policy/v1, resource/v1 and scheduling/v1alpha2 in k8s.io/kubernetes/pkg/apis, and the
// Priority admission plugin).
// Applying it again changes nothing.
func Default(obj Object) {
	switch obj := obj.(type) {
	case *v1.Node:
		defaultNode(obj)
	case *v1.Pod:
		defaultPod(obj)
	case *v1.Namespace:
		defaultNamespace(obj)
	case *v1.Service:
		defaultService(obj)
	case *v1.ReplicationController:
		defaultReplicationController(obj)
	case *appsv1.ReplicaSet:
		defaultReplicaSet(obj)
	case *appsv1.StatefulSet:
		defaultStatefulSet(obj)
	case *v1.PersistentVolume:
		defaultPersistentVolume(obj)
	case *v1.PersistentVolumeClaim:
		defaultPersistentVolumeClaim(obj)
	case *storagev1.StorageClass:
		defaultStorageClass(obj)
	case *storagev1.CSIDriver:
		defaultCSIDriver(obj)
	case *storagev1.CSIStorageCapacity:
		obj.Namespace = cmp.Or(obj.Namespace, v1.NamespaceDefault)
	case *policyv1.PodDisruptionBudget:
		obj.Namespace = cmp.Or(obj.Namespace, v1.NamespaceDefault)
	case *resourcev1.ResourceSlice:
		defaultResourceSlice(obj)
	case *resourcev1.ResourceClaim:
		defaultResourceClaim(obj)
	case *resourcev1.ResourceClaimTemplate:
		defaultResourceClaimTemplate(obj)
	case *schedulingv1alpha2.PodGroup:
		obj.Namespace = cmp.Or(obj.Namespace, v1.NamespaceDefault)
		if obj.Spec.DisruptionMode == nil {
			obj.Spec.DisruptionMode = new(schedulingv1alpha2.DisruptionModePod)
		}
	case *schedulingv1.PriorityClass:
		if obj.PreemptionPolicy == nil {
			obj.PreemptionPolicy = new(v1.PreemptLowerPriority)
		}
	case *v1.LimitRange:
		obj.Namespace = cmp.Or(obj.Namespace, v1.NamespaceDefault)
	}
}

func defaultNode(n *v1.Node) {
	if n.Status.Allocatable == nil && n.Status.Capacity != nil {
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	}
}

func defaultNamespace(n *v1.Namespace) {
	if n.Name != "" {
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		n.Labels[v1.LabelMetadataName] = n.Name
	}
	if n.Status.Phase == "" {
		n.Status.Phase = v1.NamespaceActive
	}
}

func defaultPod(p *v1.Pod) {
	if p.Namespace == "" {
		p.Namespace = v1.NamespaceDefault
	}
	if p.Spec.SchedulerName == "" {
		p.Spec.SchedulerName = v1.DefaultSchedulerName
	}
	if p.Status.Phase == "" {
		p.Status.Phase = v1.PodPending
	}
	if p.Spec.Priority == nil {
		p.Spec.Priority = systemPriority(p.Spec.PriorityClassName)
	}
	defaultContainers(p.Spec.Containers, p.Spec.HostNetwork)
	defaultContainers(p.Spec.InitContainers, p.Spec.HostNetwork)
	defaultPodLevelRequests(p)
	defaultVolumes(p.Spec.Volumes)
}

// systemPriority is the value of a system priority class; nil for any other name.
func systemPriority(class string) *int32 {
	var value int32
	switch class {
	case systemClusterCritical:
		value = systemCriticalPriority
	case systemNodeCritical:
		value = systemNodeCriticalPriority
	default:
		return nil
	}
	return &value
}

func defaultContainers(containers []v1.Container, hostNetwork bool) {
	for i := range containers {
		c := &containers[i]
		fillMissing(&c.Resources.Requests, c.Resources.Limits)
		for j := range c.Ports {
			port := &c.Ports[j]
			if port.Protocol == "" {
				port.Protocol = v1.ProtocolTCP
			}
			if hostNetwork && port.HostPort == 0 {
				port.HostPort = port.ContainerPort
			}
		}
	}
}

// fillMissing copies to list what it lacks of from.
func fillMissing(list *v1.ResourceList, from v1.ResourceList) {
	for name, q := range from {
		if _, has := (*list)[name]; has {
			continue
		}
		if *list == nil {
			*list = make(v1.ResourceList, len(from))
		}
		(*list)[name] = q.DeepCopy()
	}
}

// defaultPodLevelRequests completes spec.resources.requests of a pod that has pod-level
// limits: from what its containers ask for, then from the limits (KEP-2837).
func defaultPodLevelRequests(p *v1.Pod) {
	if p.Spec.Resources == nil || !supportedPodLevel(p) {
		return
	}
	defaultPodLevelHugePages(p)
	if len(p.Spec.Resources.Limits) == 0 {
		return
	}
	asked := v1.ResourceList{}
	for name, q := range resourcehelper.AggregateContainerRequests(p, resourcehelper.PodResourcesOptions{}) {
		if resourcehelper.IsSupportedPodLevelResource(name) && !isHugePages(name) {
			asked[name] = q
		}
	}
	fillMissing(&p.Spec.Resources.Requests, asked)
	fillMissing(&p.Spec.Resources.Requests, p.Spec.Resources.Limits)
}

// defaultPodLevelHugePages sets the pod's limit for huge pages to the sum of its
// containers' where the pod names neither a limit nor a request for them.
func defaultPodLevelHugePages(p *v1.Pod) {
	if len(p.Spec.Resources.Limits) == 0 && len(p.Spec.Resources.Requests) == 0 {
		return
	}
	pages := v1.ResourceList{}
	for name, q := range resourcehelper.AggregateContainerLimits(p, resourcehelper.PodResourcesOptions{}) {
		if _, requested := p.Spec.Resources.Requests[name]; isHugePages(name) && !requested {
			pages[name] = q
		}
	}
	fillMissing(&p.Spec.Resources.Limits, pages)
}

// supportedPodLevel tells whether the pod-level resources are ones that Validate lets pass.
func supportedPodLevel(p *v1.Pod) bool {
	for _, list := range []v1.ResourceList{p.Spec.Resources.Requests, p.Spec.Resources.Limits} {
		for name := range list {
			if !resourcehelper.IsSupportedPodLevelResource(name) {
				return false
			}
		}
	}
	return true
}

func isHugePages(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}
