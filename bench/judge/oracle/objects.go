package oracle

import (
	"context"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// Object is an object of any kind that a plugin looks at.
type Object interface {
	metav1.Object
	runtime.Object
}

// objects are those that plugins look up with listers: all but nodes and pods. The
// informers are upstream's but never started: what they hold is put in here, so that
// a change is there at once.
type objects struct {
	informers informers.SharedInformerFactory
	devices   *devices
	version   int64
}

func newObjects(ctx context.Context) (*objects, error) {
	o := &objects{informers: informers.NewSharedInformerFactory(nil, 0)}
	var err error
	o.devices, err = newDevices(ctx, o.informers)
	return o, err
}

// indexer holds the objects of a kind.
func (o *objects) indexer(obj Object) (cache.Indexer, error) {
	core, storage, apps, devices := o.informers.Core().V1(), o.informers.Storage().V1(), o.informers.Apps().V1(), o.informers.Resource().V1()
	switch obj.(type) {
	case *v1.Namespace:
		return core.Namespaces().Informer().GetIndexer(), nil
	case *v1.Service:
		return core.Services().Informer().GetIndexer(), nil
	case *v1.ReplicationController:
		return core.ReplicationControllers().Informer().GetIndexer(), nil
	case *appsv1.ReplicaSet:
		return apps.ReplicaSets().Informer().GetIndexer(), nil
	case *appsv1.StatefulSet:
		return apps.StatefulSets().Informer().GetIndexer(), nil
	case *v1.PersistentVolume:
		return core.PersistentVolumes().Informer().GetIndexer(), nil
	case *v1.PersistentVolumeClaim:
		return core.PersistentVolumeClaims().Informer().GetIndexer(), nil
	case *storagev1.StorageClass:
		return storage.StorageClasses().Informer().GetIndexer(), nil
	case *storagev1.CSINode:
		return storage.CSINodes().Informer().GetIndexer(), nil
	case *storagev1.CSIDriver:
		return storage.CSIDrivers().Informer().GetIndexer(), nil
	case *storagev1.CSIStorageCapacity:
		return storage.CSIStorageCapacities().Informer().GetIndexer(), nil
	case *storagev1.VolumeAttachment:
		return storage.VolumeAttachments().Informer().GetIndexer(), nil
	case *resourcev1.DeviceClass:
		return devices.DeviceClasses().Informer().GetIndexer(), nil
	case *resourcev1.ResourceSlice:
		return devices.ResourceSlices().Informer().GetIndexer(), nil
	case *resourcev1.ResourceClaim:
		return devices.ResourceClaims().Informer().GetIndexer(), nil
	case *policyv1.PodDisruptionBudget:
		return o.informers.Policy().V1().PodDisruptionBudgets().Informer().GetIndexer(), nil
	case *schedulingv1alpha2.PodGroup:
		return o.informers.Scheduling().V1alpha2().PodGroups().Informer().GetIndexer(), nil
	}
	return nil, fmt.Errorf("no plugin looks at a %T", obj)
}

// Knows tells whether a plugin looks at objects of a kind.
func Knows(obj Object) bool {
	switch obj.(type) {
	case *v1.Node, *v1.Pod:
		return true
	}
	_, err := (&objects{informers: informers.NewSharedInformerFactory(nil, 0)}).indexer(obj)
	return err == nil
}

// set puts an object in under a new version: what a scheduler assumes of an object lasts
// until a newer one comes.
func (o *objects) set(obj Object) error {
	in, err := o.indexer(obj)
	if err != nil {
		return err
	}
	obj = obj.DeepCopyObject().(Object)
	o.next(obj)
	old, _, err := in.Get(obj)
	if err != nil {
		return err
	}
	if err := in.Update(obj); err != nil {
		return err
	}
	o.devices.set(old, obj)
	return nil
}

// next gives an object the version after the last one's.
func (o *objects) next(obj Object) {
	o.version++
	obj.SetResourceVersion(strconv.FormatInt(o.version, 10))
}

func (o *objects) remove(obj Object) error {
	in, err := o.indexer(obj)
	if err != nil {
		return err
	}
	old, there, err := in.Get(obj)
	if err != nil || !there {
		return err
	}
	if err := in.Delete(obj); err != nil {
		return err
	}
	o.devices.remove(old)
	return nil
}
