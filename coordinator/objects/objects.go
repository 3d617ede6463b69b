package objects

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Ref names an object.
type Ref struct {
	Kind Kind
	// Empty for kinds without a namespace.
	Namespace string
	Name      string
}

// String is "Pod default/web" or "Node n1"; what is too long for a name is cut short.
func (r Ref) String() string {
	if r.Namespace == "" {
		return fmt.Sprintf("%s %s", short(string(r.Kind)), shortName(r.Name))
	}
	return fmt.Sprintf("%s %s/%s", short(string(r.Kind)), shortName(r.Namespace), shortName(r.Name))
}

func shortName(s string) string {
	if len(s) <= validation.DNS1123SubdomainMaxLength {
		return s
	}
	return short(s)
}

// Object is what the Go types of all kinds have in common, *v1.Node and the others.
type Object interface {
	runtime.Object
	metav1.Object
	Size() int
	Unmarshal([]byte) error
	MarshalToSizedBuffer([]byte) (int, error)
}

// New returns an empty object; nil for an unknown kind.
func New(k Kind) Object {
	if make := k.traits().make; make != nil {
		return make()
	}
	return nil
}

// KindOf tells an object's kind by its Go type; empty for a foreign one.
func KindOf(obj runtime.Object) Kind {
	switch obj.(type) {
	case *v1.Node:
		return KindNode
	case *v1.Pod:
		return KindPod
	case *v1.Namespace:
		return KindNamespace
	case *v1.Service:
		return KindService
	case *v1.ReplicationController:
		return KindReplicationController
	case *appsv1.ReplicaSet:
		return KindReplicaSet
	case *appsv1.StatefulSet:
		return KindStatefulSet
	case *v1.PersistentVolume:
		return KindPersistentVolume
	case *v1.PersistentVolumeClaim:
		return KindPersistentVolumeClaim
	case *storagev1.StorageClass:
		return KindStorageClass
	case *storagev1.CSINode:
		return KindCSINode
	case *storagev1.CSIDriver:
		return KindCSIDriver
	case *storagev1.CSIStorageCapacity:
		return KindCSIStorageCapacity
	case *storagev1.VolumeAttachment:
		return KindVolumeAttachment
	case *policyv1.PodDisruptionBudget:
		return KindPodDisruptionBudget
	case *resourcev1.DeviceClass:
		return KindDeviceClass
	case *resourcev1.ResourceSlice:
		return KindResourceSlice
	case *resourcev1.ResourceClaim:
		return KindResourceClaim
	case *resourcev1.ResourceClaimTemplate:
		return KindResourceClaimTemplate
	case *schedulingv1alpha2.PodGroup:
		return KindPodGroup
	case *schedulingv1.PriorityClass:
		return KindPriorityClass
	case *v1.LimitRange:
		return KindLimitRange
	case *nodev1.RuntimeClass:
		return KindRuntimeClass
	}
	return ""
}

// IsTerminal tells whether a pod has run to its end and takes nothing any more.
func IsTerminal(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

// Sort puts objects in the order in which they should be loaded: by kind, and within a kind
// as they were.
func Sort[T Object](objs []T) {
	sorted := make([]T, 0, len(objs))
	for _, kind := range Kinds() {
		for _, obj := range objs {
			if KindOf(obj) == kind {
				sorted = append(sorted, obj)
			}
		}
	}
	copy(objs, sorted)
}

// RefOf names an object of a known kind.
func RefOf(obj Object) Ref {
	return Ref{Kind: KindOf(obj), Namespace: obj.GetNamespace(), Name: obj.GetName()}
}
