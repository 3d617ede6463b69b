package rules

import (
	"github.com/shardsched/shardsched/coordinator/framework"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// NodeVolumeLimits is the plugin for how many volumes of a driver a node can attach.
const NodeVolumeLimits = "NodeVolumeLimits"

func nodeVolumeLimits() *Rule {
	return &Rule{
		Name: NodeVolumeLimits, Plugin: pb.Plugin_PLUGIN_NODE_VOLUME_LIMITS,
		Points: []framework.Point{framework.PreFilter, framework.Filter},
	}
}
