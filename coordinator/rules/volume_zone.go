package rules

import (
	"github.com/shardsched/shardsched/coordinator/framework"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// VolumeZone is the plugin for volumes that nodes of some zones alone can reach.
const VolumeZone = "VolumeZone"

func volumeZone() *Rule {
	return &Rule{
		Name: VolumeZone, Plugin: pb.Plugin_PLUGIN_VOLUME_ZONE,
		Points:       []framework.Point{framework.PreFilter, framework.Filter},
		RefusesEarly: true,
	}
}
