package queue

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/shardsched/shardsched/coordinator/storage"
)

// volumeZone waits for volumes and nodes in other zones, for the claim, and for its class.
func volumeZone() Plugin {
	return Plugin{
		Name:  "VolumeZone",
		Alike: volumeLikeness,
		Events: []Registration{
			{Resource: StorageClass, Actions: Add, If: bindsLate},
			{Resource: Node, Actions: Add | UpdateNodeLabel},
			{Resource: PersistentVolumeClaim, Actions: Add | Update, Helps: namesGivenClaim},
			{Resource: PersistentVolume, Actions: Add},
			{Resource: PersistentVolume, Actions: Update, If: movesZone},
		},
	}
}

// bindsLate: volumes of the class are bound when a pod is scheduled that wants them.
func bindsLate(e *Event) bool {
	late, err := storage.BindsLate(e.obj.(*storagev1.StorageClass))
	return late && err == nil
}

// movesZone: the volume is in other zones or regions than before.
func movesZone(e *Event) bool {
	old, now := e.oldObj.(*v1.PersistentVolume), e.obj.(*v1.PersistentVolume)
	for _, key := range [...]string{v1.LabelFailureDomainBetaZone, v1.LabelFailureDomainBetaRegion, v1.LabelTopologyZone, v1.LabelTopologyRegion} {
		if !slices.Equal(storage.Zones(old.Labels[key]), storage.Zones(now.Labels[key])) {
			return true
		}
	}
	return false
}
