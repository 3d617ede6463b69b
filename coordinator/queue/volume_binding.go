package queue

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/shardsched/shardsched/coordinator/storage"
)

// volumeBinding waits for all that a volume may come from: its claim, its class, volumes,
// nodes, and the drivers with the room that they have.
func volumeBinding() Plugin {
	return Plugin{
		Name:  "VolumeBinding",
		Alike: volumeLikeness,
		Events: []Registration{
			{Resource: StorageClass, Actions: Add},
			{Resource: StorageClass, Actions: Update, If: changesTopologies},
			{Resource: PersistentVolumeClaim, Actions: Add | Update, Helps: namesClaim},
			{Resource: PersistentVolume, Actions: Add | Update},
			{Resource: Node, Actions: Add | UpdateNodeLabel},
			{Resource: CSINode, Actions: Add},
			{Resource: CSINode, Actions: Update, If: changesMigration},
			{Resource: CSIDriver, Actions: Update, If: stopsTellingCapacity, Helps: usesDriver},
			{Resource: CSIStorageCapacity, Actions: Add},
			{Resource: CSIStorageCapacity, Actions: Update, If: raisesCapacity},
		},
	}
}

// changesTopologies: the class allows other topologies than before. Nothing else of it that
// matters can change.
func changesTopologies(e *Event) bool {
	old, now := e.oldObj.(*storagev1.StorageClass), e.obj.(*storagev1.StorageClass)
	return !equality.Semantic.DeepEqual(old.AllowedTopologies, now.AllowedTopologies)
}

// changesMigration: other kinds of volumes than before are left to CSI drivers on the
// node.
func changesMigration(e *Event) bool {
	old, now := e.oldObj.(*storagev1.CSINode), e.obj.(*storagev1.CSINode)
	return old.Annotations[v1.MigratedPluginsAnnotationKey] != now.Annotations[v1.MigratedPluginsAnnotationKey]
}

// stopsTellingCapacity: what the driver has room for is not to be looked at any more.
func stopsTellingCapacity(e *Event) bool {
	return storage.TellsCapacity(e.oldObj.(*storagev1.CSIDriver)) && !storage.TellsCapacity(e.obj.(*storagev1.CSIDriver))
}

// usesDriver: the pod has an inline volume of the driver. As upstream, the drivers of its
// claims are not looked at.
func usesDriver(p *Pod, e *Event) bool {
	name := e.obj.(*storagev1.CSIDriver).Name
	for i := range p.Obj.Spec.Volumes {
		if csi := p.Obj.Spec.Volumes[i].CSI; csi != nil && csi.Driver == name {
			return true
		}
	}
	return false
}

// raisesCapacity: a larger volume can be made than before.
func raisesCapacity(e *Event) bool {
	old, now := storage.LargestVolume(e.oldObj.(*storagev1.CSIStorageCapacity)), storage.LargestVolume(e.obj.(*storagev1.CSIStorageCapacity))
	return now != nil && (old == nil || now.Value() > old.Value())
}
