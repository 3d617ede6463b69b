package queue

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// An update of a storage object is an event whatever it changes, as upstream has it: the
// hints look at what they know to matter.

// ClaimAdded is the event of a new PersistentVolumeClaim.
func ClaimAdded(c *v1.PersistentVolumeClaim) Event { return objAdded(PersistentVolumeClaim, c) }

// ClaimUpdated is the event of a changed PersistentVolumeClaim.
func ClaimUpdated(old, now *v1.PersistentVolumeClaim) Event {
	return objUpdated(PersistentVolumeClaim, old, now)
}

// VolumeAdded is the event of a new PersistentVolume.
func VolumeAdded(v *v1.PersistentVolume) Event { return objAdded(PersistentVolume, v) }

// VolumeUpdated is the event of a changed PersistentVolume.
func VolumeUpdated(old, now *v1.PersistentVolume) Event {
	return objUpdated(PersistentVolume, old, now)
}

// StorageClassAdded is the event of a new StorageClass.
func StorageClassAdded(c *storagev1.StorageClass) Event { return objAdded(StorageClass, c) }

// StorageClassUpdated is the event of a changed StorageClass.
func StorageClassUpdated(old, now *storagev1.StorageClass) Event {
	return objUpdated(StorageClass, old, now)
}

// CSINodeAdded is the event of a new CSINode.
func CSINodeAdded(n *storagev1.CSINode) Event { return objAdded(CSINode, n) }

// CSINodeUpdated is the event of a changed CSINode.
func CSINodeUpdated(old, now *storagev1.CSINode) Event { return objUpdated(CSINode, old, now) }

// CSIDriverUpdated is the event of a changed CSIDriver. No plugin waits for a new one.
func CSIDriverUpdated(old, now *storagev1.CSIDriver) Event { return objUpdated(CSIDriver, old, now) }

// CSIStorageCapacityAdded is the event of a new CSIStorageCapacity.
func CSIStorageCapacityAdded(c *storagev1.CSIStorageCapacity) Event {
	return objAdded(CSIStorageCapacity, c)
}

// CSIStorageCapacityUpdated is the event of a changed CSIStorageCapacity.
func CSIStorageCapacityUpdated(old, now *storagev1.CSIStorageCapacity) Event {
	return objUpdated(CSIStorageCapacity, old, now)
}

// VolumeAttachmentDeleted is the event of a VolumeAttachment that is gone. No plugin waits
// for one that comes or changes.
func VolumeAttachmentDeleted(a *storagev1.VolumeAttachment) Event {
	return Event{resource: VolumeAttachment, action: Delete, oldObj: a}
}

func objAdded(r Resource, now any) Event { return Event{resource: r, action: Add, obj: now} }

func objUpdated(r Resource, old, now any) Event {
	return Event{resource: r, action: Update, oldObj: old, obj: now}
}
