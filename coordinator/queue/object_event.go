package queue

import (
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// Changes are the events of a change of an object. As upstream, there are none
// for namespaces, Services and workloads. Those of ResourceClaims are made of what package devices tells: it knows of the
// scheduler's own writes before the API tells of them.
func Changes(old, now objects.Object) []Event {
	if now == nil {
		if a, ok := old.(*storagev1.VolumeAttachment); ok {
			return []Event{VolumeAttachmentDeleted(a)}
		}
		return nil
	}
	switch now := now.(type) {
	case *v1.PersistentVolumeClaim:
		return changed(old, now, ClaimAdded, ClaimUpdated)
	case *v1.PersistentVolume:
		return changed(old, now, VolumeAdded, VolumeUpdated)
	case *storagev1.StorageClass:
		return changed(old, now, StorageClassAdded, StorageClassUpdated)
	case *storagev1.CSINode:
		return changed(old, now, CSINodeAdded, CSINodeUpdated)
	case *storagev1.CSIDriver:
		return changed(old, now, nil, CSIDriverUpdated)
	case *storagev1.CSIStorageCapacity:
		return changed(old, now, CSIStorageCapacityAdded, CSIStorageCapacityUpdated)
	case *resourcev1.ResourceSlice:
		return changed(old, now, ResourceSliceAdded, ResourceSliceUpdated)
	case *resourcev1.DeviceClass:
		return changed(old, now, DeviceClassAdded, DeviceClassUpdated)
	}
	return nil
}

// changed makes the event of an object that is new or has changed. Where added is nil, no pod
// waits for a new object of the kind.
func changed[T objects.Object](old objects.Object, now T, added func(T) Event, updated func(old, now T) Event) []Event {
	if was, ok := old.(T); ok {
		return []Event{updated(was, now)}
	}
	if added == nil {
		return nil
	}
	return []Event{added(now)}
}
