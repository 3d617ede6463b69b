package rules

import (
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// VolumeRestrictions is the plugin for disks, and claims, that not every pod can share.
const VolumeRestrictions = "VolumeRestrictions"

func volumeRestrictions() *Rule {
	return &Rule{
		Name: VolumeRestrictions,
		Part: compile.Part{
			Plugin:     pb.Plugin_PLUGIN_VOLUME_RESTRICTIONS,
			FilterAsks: func(q *pb.Query) bool { return q.GetVolumeRestrictions() != nil },
		},
		Points:       []framework.Point{framework.PreFilter, framework.Filter},
		RefusesEarly: true,
		Hints:        queue.VolumeRestrictions,
	}
}
