package kube

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// runningPods selects the pods that take something, or will: as upstream, one that has run to
// its end leaves the informer as if it were deleted.
const runningPods = "status.phase!=Succeeded,status.phase!=Failed"

// Kinds are the kinds that a Source keeps, in the order of objects.Kinds: all but templates of claims and what fills pods in,
// which the role system:kube-scheduler does not allow to read; and PodGroups where they are asked for.
func Kinds(podGroups bool) []objects.Kind {
	return slices.DeleteFunc(objects.Kinds(), func(k objects.Kind) bool {
		return k == objects.KindResourceClaimTemplate || k == objects.KindPodGroup && !podGroups || k.FillsIn()
	})
}

// selectorOf is the field selector by which a kind is listed and watched.
func selectorOf(k objects.Kind) string {
	if k == objects.KindPod {
		return runningPods
	}
	return ""
}

// resourceOf is where the API server has a kind.
func resourceOf(k objects.Kind) schema.GroupVersionResource {
	return k.GroupVersion().WithResource(k.Plural())
}

// newInformer makes the informer of a kind.
func newInformer(c kubernetes.Interface, k objects.Kind, t *troubles, there *presence,
	after func(time.Duration) <-chan time.Time) cache.SharedIndexInformer {
	const all = v1.NamespaceAll
	core, apps, storage := c.CoreV1(), c.AppsV1(), c.StorageV1()
	switch k {
	case objects.KindNode:
		return informer(c, k, t, there, after, &v1.Node{}, core.Nodes())
	case objects.KindPod:
		return informer(c, k, t, there, after, &v1.Pod{}, core.Pods(all))
	case objects.KindNamespace:
		return informer(c, k, t, there, after, &v1.Namespace{}, core.Namespaces())
	case objects.KindService:
		return informer(c, k, t, there, after, &v1.Service{}, core.Services(all))
	case objects.KindReplicationController:
		return informer(c, k, t, there, after, &v1.ReplicationController{}, core.ReplicationControllers(all))
	case objects.KindReplicaSet:
		return informer(c, k, t, there, after, &appsv1.ReplicaSet{}, apps.ReplicaSets(all))
	case objects.KindStatefulSet:
		return informer(c, k, t, there, after, &appsv1.StatefulSet{}, apps.StatefulSets(all))
	case objects.KindPersistentVolume:
		return informer(c, k, t, there, after, &v1.PersistentVolume{}, core.PersistentVolumes())
	case objects.KindPersistentVolumeClaim:
		return informer(c, k, t, there, after, &v1.PersistentVolumeClaim{}, core.PersistentVolumeClaims(all))
	case objects.KindStorageClass:
		return informer(c, k, t, there, after, &storagev1.StorageClass{}, storage.StorageClasses())
	case objects.KindCSINode:
		return informer(c, k, t, there, after, &storagev1.CSINode{}, storage.CSINodes())
	case objects.KindCSIDriver:
		return informer(c, k, t, there, after, &storagev1.CSIDriver{}, storage.CSIDrivers())
	case objects.KindCSIStorageCapacity:
		return informer(c, k, t, there, after, &storagev1.CSIStorageCapacity{}, storage.CSIStorageCapacities(all))
	case objects.KindVolumeAttachment:
		return informer(c, k, t, there, after, &storagev1.VolumeAttachment{}, storage.VolumeAttachments())
	case objects.KindPodDisruptionBudget:
		return informer(c, k, t, there, after, &policyv1.PodDisruptionBudget{}, c.PolicyV1().PodDisruptionBudgets(all))
	case objects.KindPodGroup:
		return informer(c, k, t, there, after, &schedulingv1alpha2.PodGroup{}, c.SchedulingV1alpha2().PodGroups(all))
	case objects.KindDeviceClass:
		return informer(c, k, t, there, after, &resourcev1.DeviceClass{}, c.ResourceV1().DeviceClasses())
	case objects.KindResourceSlice:
		return informer(c, k, t, there, after, &resourcev1.ResourceSlice{}, c.ResourceV1().ResourceSlices())
	case objects.KindResourceClaim:
		return informer(c, k, t, there, after, &resourcev1.ResourceClaim{}, c.ResourceV1().ResourceClaims(all))
	}
	panic("no informer for " + string(k)) // a kind was added to objects.Kinds
}

// lister is a client of one kind; L is its list.
type lister[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// informer makes one without indexes, for nothing is looked up but by name, and without
// resync. Each request's outcome is noted: the informer itself passes over an API server that
// refuses connections in silence.
func informer[L runtime.Object](c kubernetes.Interface, k objects.Kind, t *troubles, there *presence,
	after func(time.Duration) <-chan time.Time, example runtime.Object, of lister[L]) cache.SharedIndexInformer {
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selectorOf(k)
			return reach(ctx, after, func() (runtime.Object, error) {
				list, err := of.List(ctx, o)
				if there.missing(err) {
					return &v1.List{}, nil
				}
				t.asked(ctx, k, err)
				return list, err
			})
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selectorOf(k)
			return reach(ctx, after, func() (watch.Interface, error) {
				w, err := of.Watch(ctx, o)
				if !there.missing(err) {
					t.asked(ctx, k, err)
				}
				return w, err
			})
		},
	}
	return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(source, c), example, 0, cache.Indexers{})
}
