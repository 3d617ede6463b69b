package queue

import (
	"maps"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
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
	mode := e.obj.(*storagev1.StorageClass).VolumeBindingMode
	return mode != nil && *mode == storagev1.VolumeBindingWaitForFirstConsumer
}

// movesZone: the volume is in other zones or regions than before.
func movesZone(e *Event) bool {
	old, now := e.oldObj.(*v1.PersistentVolume), e.obj.(*v1.PersistentVolume)
	for _, key := range [...]string{v1.LabelFailureDomainBetaZone, v1.LabelFailureDomainBetaRegion, v1.LabelTopologyZone, v1.LabelTopologyRegion} {
		if !maps.Equal(zones(old, key), zones(now, key)) {
			return true
		}
	}
	return false
}

// zones is the set of values of a volume's label, in which "__" stands between several;
// nil where one of them is empty, or there is no such label.
func zones(v *v1.PersistentVolume, key string) map[string]bool {
	label, ok := v.Labels[key]
	if !ok {
		return nil
	}
	out := map[string]bool{}
	for zone := range strings.SplitSeq(label, "__") {
		if zone = strings.TrimSpace(zone); zone == "" {
			return nil
		}
		out[zone] = true
	}
	return out
}
