package rules

import (
	"github.com/shardsched/shardsched/coordinator/framework"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// VolumeRestrictions is the plugin for disks, and claims, that not every pod can share.
const VolumeRestrictions = "VolumeRestrictions"

func volumeRestrictions() *Rule {
	return &Rule{
		Name: VolumeRestrictions, Plugin: pb.Plugin_PLUGIN_VOLUME_RESTRICTIONS,
		Points:       []framework.Point{framework.PreFilter, framework.Filter},
		RefusesEarly: true,
	}
}
