package objects

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind names a kind of object as Kubernetes does.
type Kind string

// The kinds that a standalone scheduler keeps.
const (
	KindNode                  Kind = "Node"
	KindPod                   Kind = "Pod"
	KindNamespace             Kind = "Namespace"
	KindService               Kind = "Service"
	KindReplicationController Kind = "ReplicationController"
	KindReplicaSet            Kind = "ReplicaSet"
	KindStatefulSet           Kind = "StatefulSet"
	KindPersistentVolume      Kind = "PersistentVolume"
	KindPersistentVolumeClaim Kind = "PersistentVolumeClaim"
	KindStorageClass          Kind = "StorageClass"
	KindCSINode               Kind = "CSINode"
	KindCSIDriver             Kind = "CSIDriver"
	KindCSIStorageCapacity    Kind = "CSIStorageCapacity"
	KindVolumeAttachment      Kind = "VolumeAttachment"
	KindPodDisruptionBudget   Kind = "PodDisruptionBudget"
	KindDeviceClass           Kind = "DeviceClass"
	KindResourceSlice         Kind = "ResourceSlice"
	KindResourceClaim         Kind = "ResourceClaim"
	KindResourceClaimTemplate Kind = "ResourceClaimTemplate"
	KindPodGroup              Kind = "PodGroup"
	KindPriorityClass         Kind = "PriorityClass"
	KindLimitRange            Kind = "LimitRange"
	KindRuntimeClass          Kind = "RuntimeClass"
)

// Kinds returns every kind, in the order in which they should be loaded: what others
// refer to first, pods last.
func Kinds() []Kind {
	return []Kind{
		KindNamespace, KindStorageClass, KindCSIDriver, KindDeviceClass,
		KindNode, KindCSINode, KindResourceSlice,
		KindPersistentVolume, KindPersistentVolumeClaim, KindCSIStorageCapacity, KindVolumeAttachment,
		KindResourceClaimTemplate, KindResourceClaim,
		KindService, KindReplicationController, KindReplicaSet, KindStatefulSet, KindPodDisruptionBudget,
		KindPriorityClass, KindLimitRange, KindRuntimeClass,
		KindPodGroup, KindPod,
	}
}

// traits is what there is to know about a kind.
type traits struct {
	version    schema.GroupVersion
	plural     string
	short      string // kubectl's; empty: none
	namespaced bool
	make       func() Object
}

// traits is empty for an unknown kind.
func (k Kind) traits() traits {
	const everywhere, inNamespace = false, true
	core, apps := v1.SchemeGroupVersion, appsv1.SchemeGroupVersion
	storage, policy := storagev1.SchemeGroupVersion, policyv1.SchemeGroupVersion
	resource := resourcev1.SchemeGroupVersion
	switch k {
	case KindNode:
		return traits{core, "nodes", "no", everywhere, func() Object { return new(v1.Node) }}
	case KindPod:
		return traits{core, "pods", "po", inNamespace, func() Object { return new(v1.Pod) }}
	case KindNamespace:
		return traits{core, "namespaces", "ns", everywhere, func() Object { return new(v1.Namespace) }}
	case KindService:
		return traits{core, "services", "svc", inNamespace, func() Object { return new(v1.Service) }}
	case KindReplicationController:
		return traits{core, "replicationcontrollers", "rc", inNamespace, func() Object { return new(v1.ReplicationController) }}
	case KindReplicaSet:
		return traits{apps, "replicasets", "rs", inNamespace, func() Object { return new(appsv1.ReplicaSet) }}
	case KindStatefulSet:
		return traits{apps, "statefulsets", "sts", inNamespace, func() Object { return new(appsv1.StatefulSet) }}
	case KindPersistentVolume:
		return traits{core, "persistentvolumes", "pv", everywhere, func() Object { return new(v1.PersistentVolume) }}
	case KindPersistentVolumeClaim:
		return traits{core, "persistentvolumeclaims", "pvc", inNamespace, func() Object { return new(v1.PersistentVolumeClaim) }}
	case KindStorageClass:
		return traits{storage, "storageclasses", "sc", everywhere, func() Object { return new(storagev1.StorageClass) }}
	case KindCSINode:
		return traits{storage, "csinodes", "", everywhere, func() Object { return new(storagev1.CSINode) }}
	case KindCSIDriver:
		return traits{storage, "csidrivers", "", everywhere, func() Object { return new(storagev1.CSIDriver) }}
	case KindCSIStorageCapacity:
		return traits{storage, "csistoragecapacities", "", inNamespace, func() Object { return new(storagev1.CSIStorageCapacity) }}
	case KindVolumeAttachment:
		return traits{storage, "volumeattachments", "", everywhere, func() Object { return new(storagev1.VolumeAttachment) }}
	case KindPodDisruptionBudget:
		return traits{policy, "poddisruptionbudgets", "pdb", inNamespace, func() Object { return new(policyv1.PodDisruptionBudget) }}
	case KindDeviceClass:
		return traits{resource, "deviceclasses", "", everywhere, func() Object { return new(resourcev1.DeviceClass) }}
	case KindResourceSlice:
		return traits{resource, "resourceslices", "", everywhere, func() Object { return new(resourcev1.ResourceSlice) }}
	case KindResourceClaim:
		return traits{resource, "resourceclaims", "", inNamespace, func() Object { return new(resourcev1.ResourceClaim) }}
	case KindResourceClaimTemplate:
		return traits{resource, "resourceclaimtemplates", "", inNamespace, func() Object { return new(resourcev1.ResourceClaimTemplate) }}
	case KindPodGroup:
		return traits{schedulingv1alpha2.SchemeGroupVersion, "podgroups", "", inNamespace,
			func() Object { return new(schedulingv1alpha2.PodGroup) }}
	case KindPriorityClass:
		return traits{schedulingv1.SchemeGroupVersion, "priorityclasses", "pc", everywhere,
			func() Object { return new(schedulingv1.PriorityClass) }}
	case KindLimitRange:
		return traits{core, "limitranges", "limits", inNamespace, func() Object { return new(v1.LimitRange) }}
	case KindRuntimeClass:
		return traits{nodev1.SchemeGroupVersion, "runtimeclasses", "", everywhere, func() Object { return new(nodev1.RuntimeClass) }}
	}
	return traits{}
}

// Plural is the kind's name in keys and on command lines: nodes, pods, storageclasses.
// It is empty for an unknown kind.
func (k Kind) Plural() string { return k.traits().plural }

// Short is kubectl's short name: no, po, sc. It is empty for a kind that has none.
func (k Kind) Short() string { return k.traits().short }

// Singular is the kind's name where one object is meant: node, pod, storageclass.
func (k Kind) Singular() string { return strings.ToLower(string(k)) }

// Namespaced tells whether objects of the kind live in a namespace.
func (k Kind) Namespaced() bool { return k.traits().namespaced }

// Known tells whether the kind is one of Kinds.
func (k Kind) Known() bool { return k.traits().make != nil }

// GroupVersion is where the kind is served: v1, apps/v1, storage.k8s.io/v1.
func (k Kind) GroupVersion() schema.GroupVersion { return k.traits().version }

// FillsIn tells of the kinds that only say how pods are filled in as they are made. No scheduler reads them.
func (k Kind) FillsIn() bool { return slices.Contains(FillIn(), k) }

// FillIn returns the kinds that FillsIn tells of.
func FillIn() []Kind { return []Kind{KindPriorityClass, KindLimitRange, KindRuntimeClass} }

// OfDevices tells of the kinds of dynamic resource allocation. Not every API server has them.
func (k Kind) OfDevices() bool { return k.GroupVersion().Group == resourcev1.GroupName }

// KindNamed finds the kind that a word names as kubectl's users write it: singular,
// plural or short, in any case, with or without the group (sts, statefulset,
// statefulsets.apps).
func KindNamed(word string) (Kind, bool) {
	word, group, qualified := strings.Cut(strings.ToLower(word), ".")
	for _, k := range Kinds() {
		t := k.traits()
		if qualified && group != t.version.Group && group != t.version.Version+"."+t.version.Group {
			continue
		}
		if word != "" && (word == t.plural || word == t.short || word == k.Singular()) {
			return k, true
		}
	}
	return "", false
}
