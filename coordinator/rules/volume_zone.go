package rules

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/storage"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// VolumeZone is the plugin for volumes that nodes of some zones alone can reach.
const VolumeZone = "VolumeZone"

func volumeZone() *Rule {
	return &Rule{
		Name: VolumeZone,
		Part: compile.Part{
			Plugin:     pb.Plugin_PLUGIN_VOLUME_ZONE,
			FilterAsks: func(q *pb.Query) bool { return len(q.GetVolumeZones()) > 0 },
		},
		Points:       []framework.Point{framework.PreFilter, framework.Filter},
		RefusesEarly: true,
		Hints:        zoneHints,
	}
}

// zoneHints waits for volumes and nodes in other zones, for the claim, and for its class.
func zoneHints(queue.Profiles) queue.Plugin {
	return queue.Plugin{
		Alike: queue.VolumeLikeness,
		Events: []queue.Registration{
			{Resource: queue.StorageClass, Actions: queue.Add, If: bindsLate},
			{Resource: queue.Node, Actions: queue.Add | queue.UpdateNodeLabel},
			{Resource: queue.PersistentVolumeClaim, Actions: queue.Add | queue.Update, Helps: queue.NamesGivenClaim},
			{Resource: queue.PersistentVolume, Actions: queue.Add},
			{Resource: queue.PersistentVolume, Actions: queue.Update, If: movesZone},
		},
	}
}

// bindsLate: volumes of the class are bound when a pod is scheduled that wants them.
func bindsLate(e *queue.Event) bool {
	_, class := objects[*storagev1.StorageClass](e)
	late, err := storage.BindsLate(class)
	return late && err == nil
}

// movesZone: the volume is in other zones or regions than before.
func movesZone(e *queue.Event) bool {
	old, now := objects[*v1.PersistentVolume](e)
	for _, key := range [...]string{
		v1.LabelFailureDomainBetaZone, v1.LabelFailureDomainBetaRegion, v1.LabelTopologyZone, v1.LabelTopologyRegion,
	} {
		if !slices.Equal(storage.Zones(old.Labels[key]), storage.Zones(now.Labels[key])) {
			return true
		}
	}
	return false
}
