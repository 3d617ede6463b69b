package oracle

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
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
	version   int64
}

func newObjects() *objects {
	return &objects{informers: informers.NewSharedInformerFactory(nil, 0)}
}

// indexer holds the objects of a kind.
func (o *objects) indexer(obj Object) (cache.Indexer, error) {
	core, storage, apps := o.informers.Core().V1(), o.informers.Storage().V1(), o.informers.Apps().V1()
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
	case *policyv1.PodDisruptionBudget:
		return o.informers.Policy().V1().PodDisruptionBudgets().Informer().GetIndexer(), nil
	}
	return nil, fmt.Errorf("no plugin looks at a %T", obj)
}

// Knows tells whether a plugin looks at objects of a kind.
func Knows(obj Object) bool {
	switch obj.(type) {
	case *v1.Node, *v1.Pod:
		return true
	}
	_, err := newObjects().indexer(obj)
	return err == nil
}

// set puts an object in under a new version: what a scheduler assumes of an object lasts
// until a newer one comes.
func (o *objects) set(obj Object) error {
	in, err := o.indexer(obj)
	if err != nil {
		return err
	}
	o.version++
	obj = obj.DeepCopyObject().(Object)
	obj.SetResourceVersion(strconv.FormatInt(o.version, 10))
	return in.Update(obj)
}

func (o *objects) remove(obj Object) error {
	in, err := o.indexer(obj)
	if err != nil {
		return err
	}
	return in.Delete(obj)
}
